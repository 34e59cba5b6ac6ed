"""From the headers of a request to a user: a bearer token, and `kubectl --as` for those who may use it."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from localpv import errors
from localpv.api import well_known
from localpv.engine.apiserver.auth import identity
from localpv.engine.apiserver.auth.identity import ANONYMOUS, Attributes, User
from localpv.engine.apiserver.auth.lookup import Objects
from localpv.engine.apiserver.auth.rbac import Authorizer
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


_PREFIX = "impersonate-"
_EXTRA = "impersonate-extra-"


def impersonate(user: User, headers: Iterable[tuple[str, str]], authorizer: Authorizer) -> User:
    """The user in whose name the request is made: `user` itself when it asks for nobody else.

    Each part of the other identity is allowed by its own rule with the verb impersonate; Forbidden otherwise.
    """
    wanted = [(name.lower(), value) for name, value in headers if name[:12].lower() == _PREFIX]
    if not wanted:
        return user

    name, uid = "", ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}
    for header, value in wanted:
        if header == "impersonate-user":
            name = name or value
        elif header == "impersonate-uid":
            uid = uid or value
        elif header == "impersonate-group":
            groups.append(value)
        elif header.startswith(_EXTRA):
            extra.setdefault(unquote(header[len(_EXTRA) :]), []).append(value)
    if not name:
        if groups or uid or extra:
            raise errors.BadRequest("Impersonate-Group, -Uid and -Extra need an Impersonate-User beside them")
        return user

    account = identity.split_account(name)
    for request in _requests(name, account, groups, uid, extra):
        authorizer.require(user, request)

    if account and not groups:
        groups.extend(identity.account_groups(account[0]))
    if name == identity.ANONYMOUS.name:
        if identity.UNAUTHENTICATED not in groups:
            groups.append(identity.UNAUTHENTICATED)
    elif identity.AUTHENTICATED not in groups and identity.UNAUTHENTICATED not in groups:
        groups.append(identity.AUTHENTICATED)
    return User(name, tuple(groups), uid, {key: tuple(values) for key, values in extra.items()})


def _requests(
    name: str, account: tuple[str, str] | None, groups: list[str], uid: str, extra: dict[str, list[str]]
) -> Iterable[Attributes]:
    verb = "impersonate"
    if account:
        yield Attributes(verb=verb, resource="serviceaccounts", namespace=account[0], name=account[1])
    else:
        yield Attributes(verb=verb, resource="users", name=name)
    for group in groups:
        yield Attributes(verb=verb, resource="groups", name=group)
    for key, values in extra.items():
        for value in values:
            yield Attributes(
                verb=verb, group=well_known.AUTHENTICATION_GROUP, resource="userextras", subresource=key, name=value
            )
    if uid:
        yield Attributes(verb=verb, group=well_known.AUTHENTICATION_GROUP, resource="uids", name=uid)
