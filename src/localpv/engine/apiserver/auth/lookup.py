"""What this package needs to know of the store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from localpv.api.objects import Object

SERVICE_ACCOUNTS = "serviceaccounts"
PODS = "pods"
SECRETS = "secrets"
NODES = "nodes"
ROLES = "roles.rbac.authorization.k8s.io"
ROLE_BINDINGS = "rolebindings.rbac.authorization.k8s.io"
CLUSTER_ROLES = "clusterroles.rbac.authorization.k8s.io"
CLUSTER_ROLE_BINDINGS = "clusterrolebindings.rbac.authorization.k8s.io"

TOKEN_PREFIXES = frozenset({SERVICE_ACCOUNTS, PODS, SECRETS, NODES})
"""A change to one of these can end the life of a token: tell `Tokens.changed`."""

RBAC_PREFIXES = frozenset({ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS})
"""A change to one of these can change a decision: call `Authorizer.invalidate`."""


class Objects(Protocol):
    """Objects in memory, by storage prefix. Cluster-scoped ones have the namespace ""."""

    def get(self, prefix: str, namespace: str, name: str) -> Object | None: ...

    def list(self, prefix: str, namespace: str | None = None) -> Iterable[Object]: ...
