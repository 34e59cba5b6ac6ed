"""Bearer tokens: the administrator's, and those of service accounts.

Service account tokens are JSON web tokens with the claims that Kubernetes puts into its own. They are signed with
HMAC (HS256) and not with a key pair: issuer and verifier are this one process, so nobody else ever needs to
check a signature, and a symmetric key is simpler, smaller and needs no library. What is lost is that third
parties could check tokens offline with a published key; they ask by TokenReview instead.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from localpv import errors
from localpv.api import well_known
from localpv.api.objects import Object
from localpv.engine.apiserver.auth import identity, secret_files
from localpv.engine.apiserver.auth.identity import User
from localpv.engine.apiserver.auth.lookup import NODES, PODS, SECRETS, SERVICE_ACCOUNTS, TOKEN_PREFIXES, Objects


class Malformed(ValueError):
    """Not one of our tokens, or changed on the way."""


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _from_base64(text: bytes) -> bytes:
    try:
        return base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise Malformed("not base64url") from error


_HEADER = _base64(b'{"alg":"HS256","typ":"JWT"}')


def signed(claims: dict[str, Any], key: bytes) -> str:
    body = _HEADER + b"." + _base64(json.dumps(claims, separators=(",", ":")).encode())
    return (body + b"." + _base64(hmac.digest(key, body, hashlib.sha256))).decode()


def read_claims(token: str, key: bytes) -> dict[str, Any]:
    """The claims of a token that this key signed.

    The header must be, to the byte, the one that `signed` writes: a token that names another algorithm, or
    "none", never gets as far as having its signature compared.
    """
    try:
        body, _, signature = token.encode("ascii").rpartition(b".")
    except UnicodeEncodeError as error:
        raise Malformed("not ASCII") from error
    header, _, payload = body.partition(b".")
    if header != _HEADER:
        raise Malformed("not a token of this server")
    if not hmac.compare_digest(_from_base64(signature), hmac.digest(key, body, hashlib.sha256)):
        raise Malformed("the signature does not match")
    try:
        decoded = json.loads(_from_base64(payload))
    except ValueError as error:
        raise Malformed("the claims are not JSON") from error
    if not isinstance(decoded, dict):
        raise Malformed("the claims are not an object")
    return decoded


ISSUER = "https://kubernetes.default.svc.cluster.local"
AUDIENCES = (ISSUER,)
"""What a token must be meant for to be taken by this server."""

ADMIN = User("localpv:admin", (identity.MASTERS, identity.AUTHENTICATED))

LEEWAY = 60.0
"""Seconds by which the clocks of the world may differ from ours."""

_CACHE_SIZE = 1024
_CACHE_SECONDS = 10.0
"""Changes are told by `changed`; this bounds the damage should one ever be missed."""

_MAX_TOKEN = 8192
_KEY_BYTES = 32

_INVALID = "invalid bearer token"


class Verified(NamedTuple):
    """A token that is good, for these audiences."""

    user: User
    audiences: tuple[str, ...]


class Reference(NamedTuple):
    """An object whose life a token shares."""

    prefix: str
    namespace: str
    name: str
    uid: str


class _Cached(NamedTuple):
    user: User
    until: float
    lives_with: tuple[Reference, ...]


class Tokens:
    """Issues and verifies tokens. One instance for each data folder."""

    def __init__(self, *, admin_token: str, key: bytes) -> None:
        self.admin_token = admin_token
        self._admin_digest = hashlib.sha256(admin_token.encode()).digest()
        self._key = key
        self._cache: OrderedDict[bytes, _Cached] = OrderedDict()
        self._used_by: dict[tuple[str, str, str], set[bytes]] = {}

    @classmethod
    def load(cls, folder: Path) -> Tokens:
        """The tokens of a data folder (DATA/auth); its secrets are made on the first start."""
        token_file, key_file = folder / "admin-token", folder / "signing-key"
        token = secret_files.read(token_file)
        if token is None:
            token = secrets.token_urlsafe(32).encode()
            secret_files.write(token_file, token + b"\n")
        text = secret_files.read(key_file)
        if text is None:
            text = base64.b64encode(secrets.token_bytes(_KEY_BYTES))
            secret_files.write(key_file, text + b"\n")
        return cls(admin_token=_admin_token(token, token_file), key=_signing_key(text, key_file))

    def issue(
        self,
        account: Object,
        *,
        now: float,
        seconds: int,
        audiences: Sequence[str] = AUDIENCES,
        pod: Object | None = None,
        node: Object | None = None,
        secret: Object | None = None,
    ) -> str:
        """A token for a service account that lives as long as the objects it is bound to, and no longer than told."""
        metadata = account["metadata"]
        private: dict[str, Any] = {"namespace": metadata["namespace"], "serviceaccount": _named(account)}
        for kind, bound in (("pod", pod), ("secret", secret), ("node", node)):
            if bound is not None:
                private[kind] = _named(bound)
        claims = {
            "aud": list(audiences),
            "exp": int(now) + seconds,
            "iat": int(now),
            "iss": ISSUER,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": private,
            "nbf": int(now),
            "sub": identity.account_username(metadata["namespace"], metadata["name"]),
        }
        return signed(claims, self._key)

    def verify(self, token: str, objects: Objects, now: float) -> User:
        """Who the bearer of this token is. Raises Unauthorized, which says why."""
        digest = hashlib.sha256(token.encode(errors="replace")).digest()
        if hmac.compare_digest(digest, self._admin_digest):
            return ADMIN
        cached = self._cache.get(digest)
        if cached is not None:
            if now < cached.until:
                self._cache.move_to_end(digest)
                return cached.user
            self._drop(digest)
        (user, _), lives_with, until = self._check(token, objects, now, AUDIENCES)
        self._keep(digest, _Cached(user, min(until, now + _CACHE_SECONDS), lives_with))
        return user

    def review(self, token: str, objects: Objects, now: float, audiences: Sequence[str] = AUDIENCES) -> Verified:
        """As `verify`, for a token that may be meant for somebody else than this server."""
        if hmac.compare_digest(token.encode(errors="replace"), self.admin_token.encode()):
            ours = tuple(audience for audience in AUDIENCES if audience in audiences)
            if not ours:
                raise errors.Unauthorized(f"{_INVALID}: not for the audiences {_shown(audiences)}")
            return Verified(ADMIN, ours)
        return self._check(token, objects, now, audiences)[0]

    def changed(self, prefix: str, namespace: str, name: str) -> None:
        """An object was written or deleted: tokens that live with it are looked at anew."""
        if prefix in TOKEN_PREFIXES:
            for digest in tuple(self._used_by.get((prefix, namespace, name), ())):
                self._drop(digest)

    def _check(
        self, token: str, objects: Objects, now: float, audiences: Sequence[str]
    ) -> tuple[Verified, tuple[Reference, ...], float]:
        if len(token) > _MAX_TOKEN:
            raise errors.Unauthorized(_INVALID)
        try:
            claims = read_claims(token, self._key)
        except Malformed as error:
            raise errors.Unauthorized(f"{_INVALID}: {error}") from error
        # From here on the claims are those that `issue` wrote, so their types are known.
        if claims["iss"] != ISSUER:
            raise errors.Unauthorized(f"{_INVALID}: not issued by this server")
        if now > claims["exp"] + LEEWAY:
            raise errors.Unauthorized(f"{_INVALID}: it has expired")
        if now < claims["nbf"] - LEEWAY:
            raise errors.Unauthorized(f"{_INVALID}: it is not valid yet")
        common = tuple(audience for audience in claims["aud"] if audience in audiences)
        if not common:
            meant, asked = _shown(claims["aud"]), _shown(audiences)
            raise errors.Unauthorized(f"{_INVALID}: it is for the audiences {meant} and not for {asked}")
        private = claims["kubernetes.io"]
        lives_with = tuple(_references(private))
        for reference in lives_with:
            _check_alive(reference, objects, now)
        user = identity.service_account(
            private["namespace"],
            private["serviceaccount"]["name"],
            uid=private["serviceaccount"]["uid"],
            extra=_extra(claims["jti"], private),
        )
        return Verified(user, common), lives_with, claims["exp"] + LEEWAY

    def _keep(self, digest: bytes, entry: _Cached) -> None:
        if len(self._cache) >= _CACHE_SIZE:
            self._drop(next(iter(self._cache)))
        self._cache[digest] = entry
        for reference in entry.lives_with:
            self._used_by.setdefault(reference[:3], set()).add(digest)

    def _drop(self, digest: bytes) -> None:
        for reference in self._cache.pop(digest).lives_with:
            users = self._used_by[reference[:3]]
            users.discard(digest)
            if not users:
                del self._used_by[reference[:3]]


def _admin_token(data: bytes, path: Path) -> str:
    token = data.decode("ascii", errors="replace").strip()
    if len(token) < 16 or not token.isprintable() or "\ufffd" in token:
        raise errors.StartError(f"{path} holds no usable token", hint="remove the file to have a new token made")
    return token


def _signing_key(text: bytes, path: Path) -> bytes:
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except ValueError:
        key = b""
    if len(key) < _KEY_BYTES:
        raise errors.StartError(
            f"{path} holds no usable key",
            hint="remove the file to have a new key made; tokens of service accounts must then be issued again",
        )
    return key


def _named(obj: Object) -> dict[str, str]:
    metadata = obj["metadata"]
    named = {"name": metadata["name"]}
    if metadata.get("uid"):
        named["uid"] = metadata["uid"]
    return named


def _references(private: dict[str, Any]) -> list[Reference]:
    namespace = private["namespace"]
    found = [Reference(SERVICE_ACCOUNTS, namespace, **private["serviceaccount"])]
    if "secret" in private:
        found.append(Reference(SECRETS, namespace, **private["secret"]))
    if "pod" in private:
        # Such a token goes with its pod; the node is only told, as the pod's own life depends on it.
        found.append(Reference(PODS, namespace, **private["pod"]))
    elif "node" in private:
        found.append(Reference(NODES, "", **private["node"]))
    return found


def _check_alive(reference: Reference, objects: Objects, now: float) -> None:
    obj = objects.get(reference.prefix, reference.namespace, reference.name)
    what = f"the {reference.prefix[:-1]} {json.dumps(reference.name)} it is bound to"
    if obj is None:
        raise errors.Unauthorized(f"{_INVALID}: {what} does not exist")
    metadata = obj["metadata"]
    if metadata.get("uid") != reference.uid:
        raise errors.Unauthorized(f"{_INVALID}: {what} is another one of the same name")
    deleted = metadata.get("deletionTimestamp")
    if deleted and _seconds(deleted) < now - LEEWAY:
        raise errors.Unauthorized(f"{_INVALID}: {what} is being deleted")


def _seconds(timestamp: str) -> float:
    return datetime.strptime(timestamp, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()


def _extra(token_id: str, private: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {identity.CREDENTIAL_ID: (f"JTI={token_id}",)}
    for key, name, uid in (
        ("pod", identity.POD_NAME, identity.POD_UID),
        ("node", well_known.TOKEN_NODE_NAME, identity.NODE_UID),
    ):
        if key in private:
            extra[name] = (private[key]["name"],)
            if "uid" in private[key]:
                extra[uid] = (private[key]["uid"],)
    return extra


def _shown(audiences: Sequence[str]) -> str:
    return json.dumps(list(audiences))
