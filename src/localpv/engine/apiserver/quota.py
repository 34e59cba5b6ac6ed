"""How much may be stored: by one object, in one namespace, in all.

Objects are in memory, so whoever may create them could otherwise take it all. What shrinks or goes is never refused:
that is the way out.
"""

from __future__ import annotations

from localpv.api.status import qualified
from localpv.engine.apiserver import bootstrap
from localpv.engine.apiserver.auth import node_rule
from localpv.engine.apiserver.auth.identity import NODES, User, split_account
from localpv.engine.apiserver.bounds import Bounds
from localpv.engine.apiserver.call import ENGINE, Call
from localpv.engine.store.table import Row, Usage, counted_size, namespace_of
from localpv.errors import TooLarge, TooManyRequests

MAX_OBJECT_BYTES = 3 << 19
"""Bytes of JSON that one object may have: 1.5 MiB, the limit of a request to etcd."""

NAMESPACE_SHARE = 2
"""The objects of one namespace may take this part of what there is: a half."""

RESERVE = 8
"""This part, an eighth, is kept for what keeps the cluster going."""

_SYSTEM_NAMESPACES = ("", bootstrap.SYSTEM, "kube-node-lease")
"""Where the cluster has its own objects: leases, and nodes, disks and volumes, which are in no namespace."""


class Quota:
    """Decides whether there is room for a write; in the same step as the write, so that the sums are still true."""

    def __init__(self, bounds: Bounds, usage: Usage) -> None:
        self._most = bounds.store_bytes
        self._usage = usage

    def check(self, call: Call, key: str, row: Row, before: Row | None) -> None:
        """Raises TooLarge or TooManyRequests."""
        growth = counted_size(row) - counted_size(before)
        if growth <= 0 or call.user is ENGINE:
            return  # what upkeep writes ends things or is little, and refusing it would keep others from their end
        if len(row.value) > MAX_OBJECT_BYTES:
            raise TooLarge(
                f"Request entity too large: the object would have {len(row.value)} bytes, limit is {MAX_OBJECT_BYTES}"
            )
        usage, namespace = self._usage, namespace_of(key)
        most = self._most
        if not (_is_ours(call.user) and (before is not None or namespace in _SYSTEM_NAMESPACES)):
            # What a controller creates in a tenant's namespace it creates for the tenant.
            most -= most // RESERVE
            share = self._most // NAMESPACE_SHARE
            if usage.of(namespace) + growth > share:
                whose = f"namespace {namespace}" if namespace else "what is in no namespace"
                raise self._exceeded(call, key, growth, whose, usage.of(namespace), share)
        if usage.total + growth > most:
            raise self._exceeded(call, key, growth, "all objects", usage.total, most)

    def _exceeded(self, call: Call, key: str, growth: int, whose: str, used: int, most: int) -> TooManyRequests:
        """Without a time to come back, so that no client waits for it by itself. Not 403: an agent would take that for
        a lack of rights, and go on without what it could not write."""
        resource = call.kind.resource
        return TooManyRequests(
            f'{qualified(resource.plural, resource.group)} "{key.rpartition("/")[2]}" cannot be stored: '
            f"exceeded quota: {whose} may have {most} bytes, used: {used}, requested: {growth}; "
            f"delete what is not needed, or have the server started with a larger --max-store-bytes (now {self._most})"
        )


def _is_ours(user: User) -> bool:
    account = split_account(user.name)
    return (
        user.is_master
        or NODES in user.groups
        or node_rule.AGENTS in user.groups
        or (account is not None and account[0] == bootstrap.SYSTEM)
    )
