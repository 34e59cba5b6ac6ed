"""Who asks and for what: users and their groups, a request in the terms of rules, and how a refusal is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from localpv import errors
from localpv.api import names, well_known
from localpv.api.status import qualified

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


# A refusal repeats the path that was asked for, and must not look like HTML to a browser.
_HARMLESS = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(slots=True, kw_only=True)
class Attributes:
    """One request. `resource` is empty for paths outside of the resource API, such as /metrics."""

    verb: str
    """get, list, watch, create, ... for a resource; the lower-case HTTP method for a path."""

    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    field_selector: str = ""
    """As the client wrote it; empty for verbs that select nothing by it."""

    @property
    def combined_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def forbidden(user: User, attributes: Attributes, reason: str = "") -> errors.Forbidden:
    """The 403 that clients know, for a request that no rule allows."""
    wish = f"User {quoted(user.name)} cannot {attributes.verb}"
    if not attributes.resource:
        why = f"{wish} path {quoted(attributes.path)}"
    else:
        scope = f"in the namespace {quoted(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
        resource = quoted(attributes.combined_resource)
        why = f"{wish} resource {resource} in API group {quoted(attributes.group)} {scope}"
    why = why.translate(_HARMLESS)
    return refusal(attributes, f"{why}: {reason}" if reason else why)


def refusal(attributes: Attributes, why: str) -> errors.Forbidden:
    """A 403 about the resource and name of a request, with this explanation."""
    details: dict[str, Any] = {}
    head = ""
    if attributes.resource:
        head = qualified(attributes.resource, attributes.group) + " "
        details["kind"] = attributes.resource
        if attributes.group:
            details["group"] = attributes.group
        if attributes.name:
            head += quoted(attributes.name) + " "
            details["name"] = attributes.name
        head += "is "
    return errors.Forbidden(f"{head}forbidden: {why}", details=details)
