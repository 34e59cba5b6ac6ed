"""Who is refused when the store is full, and with which words."""

from __future__ import annotations

import pytest

from localpv.api.resources import BUILT_IN
from localpv.engine.apiserver.auth.identity import MASTERS, NODES, User, service_account
from localpv.engine.apiserver.bounds import Bounds
from localpv.engine.apiserver.call import ENGINE, Call
from localpv.engine.apiserver.kinds.base import Strategy
from localpv.engine.apiserver.quota import MAX_OBJECT_BYTES, Quota
from localpv.engine.apiserver.registry import Kind
from localpv.engine.store.table import OBJECT_BYTES, Change, Event, Row, Usage
from localpv.errors import TooLarge, TooManyRequests

MOST = 80_000
ADMIN = User("admin", (MASTERS,))
TENANT = service_account("a", "robot")
MANAGER = service_account("kube-system", "localpv-manager")
AGENT = User("system:serviceaccount:elsewhere:agent", ("localpv:agents",))
KUBELET = User("system:node:n", (NODES,))
KIND = Kind(
    resource=next(each for each in BUILT_IN if each.plural == "configmaps"),
    strategy=Strategy(),
    load_node=lambda: pytest.fail("not needed"),
)


def row(size: int, revision: int = 7) -> Row:
    return Row(revision, b"x" * (size - OBJECT_BYTES + len(str(revision))))


def quota(**namespaces: int) -> Quota:
    usage = Usage()
    for namespace, size in namespaces.items():
        key = f"{namespace.replace('_', '-')}/all" if namespace != "cluster" else "all"
        usage.add(Event(Change.ADDED, key, row(size), None))
    return Quota(Bounds(store_bytes=MOST), usage)


def allows(quota: Quota, user: User, key: str, after: Row, before: Row | None = None) -> bool:
    try:
        quota.check(Call(kind=KIND, user=user), key, after, before)
    except TooManyRequests as error:
        assert "exceeded quota" in error.message and "--max-store-bytes" in error.message
        assert not error.retry_after_seconds
        return False
    return True


def test_a_namespace_may_have_half_to_the_byte() -> None:
    there = quota(a=38_000)
    assert allows(there, TENANT, "a/x", row(2000))
    assert not allows(there, TENANT, "a/x", row(2001))
    assert allows(there, TENANT, "b/x", row(2001))
    assert allows(there, TENANT, "a/x", row(4000), row(2000))
    assert not allows(there, TENANT, "a/x", row(4001), row(2000))


def test_all_namespaces_together_leave_an_eighth() -> None:
    there = quota(a=35_000, b=33_000)
    assert allows(there, TENANT, "c/x", row(2000))
    assert not allows(there, TENANT, "c/x", row(2001))
    assert not allows(there, ADMIN, "c/x", row(2001)), "a controller that creates for a tenant"


@pytest.mark.parametrize("user", [ADMIN, MANAGER, AGENT, KUBELET], ids=lambda user: str(user.name))
def test_what_keeps_the_cluster_going_has_the_reserve(user: User) -> None:
    there = quota(a=39_000, b=36_000)
    for key in ("node-1", "kube-system/lease", "kube-node-lease/n"):
        assert allows(there, user, key, row(5000))
        assert not allows(there, user, key, row(5001)), "and no more"
    assert allows(there, user, "a/pod", row(5000), row(2000)), "the status of a pod of the tenant"
    assert not allows(there, TENANT, "a/pod", row(5000), row(2000))


def test_what_does_not_grow_and_what_upkeep_writes_is_never_refused() -> None:
    there = quota(a=90_000)
    assert allows(there, TENANT, "a/x", row(2000), row(2000))
    assert allows(there, TENANT, "a/x", row(2000, 10), row(2000, 9)), "a digit of the revision is no growth"
    assert allows(there, TENANT, "a/x", row(1999), row(2000))
    assert not allows(there, ADMIN, "a/x", row(2001), row(2000))
    assert allows(there, ENGINE, "a/x", row(2001), row(2000))
    assert not allows(there, User(ENGINE.name, ENGINE.groups), "a/x", row(2001), row(2000)), "who only calls so"


def test_one_object_may_have_as_much_as_etcd_takes() -> None:
    there = Quota(Bounds(), Usage())
    call = Call(kind=KIND, user=ADMIN)
    there.check(call, "a/x", Row(1, b"x" * MAX_OBJECT_BYTES), None)
    with pytest.raises(TooLarge, match="limit is 1572864"):
        there.check(call, "a/x", Row(1, b"x" * (MAX_OBJECT_BYTES + 1)), None)
    larger = Row(1, b"x" * (2 << 20))  # of a version without this bound
    there.check(call, "a/x", Row(2, b"x" * ((2 << 20) - 1)), larger)
