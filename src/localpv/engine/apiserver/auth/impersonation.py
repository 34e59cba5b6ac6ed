"""`kubectl --as`: a request in another user's name, from somebody who may do that."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from localpv import errors
from localpv.api import well_known
from localpv.engine.apiserver.auth import identity
from localpv.engine.apiserver.auth.attributes import Attributes
from localpv.engine.apiserver.auth.identity import User
from localpv.engine.apiserver.auth.rbac import Authorizer

_PREFIX = "impersonate-"
_EXTRA = "impersonate-extra-"


def apply(user: User, headers: Iterable[tuple[str, str]], authorizer: Authorizer) -> User:
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
