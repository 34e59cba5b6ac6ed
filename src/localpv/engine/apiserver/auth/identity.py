"""Users as the server knows them, and the names that Kubernetes gives to groups of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from localpv.api import names, well_known

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"
"""Members may do anything; no role is asked."""
NODES = "system:nodes"
SERVICE_ACCOUNTS = "system:serviceaccounts"

NODE_UID = "authentication.kubernetes.io/node-uid"
POD_NAME = "authentication.kubernetes.io/pod-name"
POD_UID = "authentication.kubernetes.io/pod-uid"
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"

_ACCOUNT_PREFIX = "system:serviceaccount:"

_NO_EXTRA: Mapping[str, tuple[str, ...]] = {}


@dataclass(frozen=True, slots=True)
class User:
    """Who a request is from, after authentication and impersonation."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _NO_EXTRA, hash=False)

    @property
    def is_master(self) -> bool:
        return MASTERS in self.groups

    @property
    def node_name(self) -> str:
        """The node that the token is bound to, directly or through its pod; empty when to none."""
        values = self.extra.get(well_known.TOKEN_NODE_NAME)
        return values[0] if values and len(values) == 1 else ""


ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))


def service_account(
    namespace: str, name: str, *, uid: str = "", extra: Mapping[str, tuple[str, ...]] = _NO_EXTRA
) -> User:
    """The user that the tokens of a service account stand for."""
    return User(account_username(namespace, name), (*account_groups(namespace), AUTHENTICATED), uid, extra)


def account_username(namespace: str, name: str) -> str:
    return f"{_ACCOUNT_PREFIX}{namespace}:{name}"


def account_groups(namespace: str) -> tuple[str, str]:
    return SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}"


def split_account(username: str) -> tuple[str, str] | None:
    """Namespace and name when the user name is that of a service account."""
    if not username.startswith(_ACCOUNT_PREFIX):
        return None
    namespace, _, name = username[len(_ACCOUNT_PREFIX) :].partition(":")
    if names.dns_label(namespace) or names.dns_subdomain(name):
        return None
    return namespace, name
