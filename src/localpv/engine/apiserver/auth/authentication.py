"""From the Authorization header to a user."""

from __future__ import annotations

from localpv import errors
from localpv.engine.apiserver.auth.identity import ANONYMOUS, User
from localpv.engine.apiserver.auth.lookup import Objects
from localpv.engine.apiserver.auth.tokens import Tokens

PUBLIC_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version", "/version/"})
"""Whether the server is up, and which one it is, is told to anybody."""


def authenticate(
    authorization: str | None, *, method: str, path: str, tokens: Tokens, objects: Objects, now: float
) -> User:
    """Who asks. Raises Unauthorized without saying why, as to a stranger.

    A wrong token is refused even where none is needed: whoever sends one wants to know that it does not work.
    """
    if not authorization:
        if path in PUBLIC_PATHS and method in ("GET", "HEAD"):
            return ANONYMOUS
        raise errors.Unauthorized("Unauthorized")
    scheme, _, token = authorization.strip().partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise errors.Unauthorized("Unauthorized")
    try:
        return tokens.verify(token.strip(), objects, now)
    except errors.Unauthorized as error:
        raise errors.Unauthorized("Unauthorized") from error
