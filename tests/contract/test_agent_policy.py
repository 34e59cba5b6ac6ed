"""With its own token, bound to its node, an agent is refused everything that is not its own.

On Kubernetes by the objects that `localpv manifests` prints, on the embedded engine by its built-in rule. Admission on
Kubernetes does not see reads, so reading the LocalDisks of other nodes is no part of this contract.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.contract import builders, custom, wire
from tests.contract.wire import Api

from localpv.api import crds, roles
from localpv.deploy import access, policy

DISKS = "/apis/localpv.dev/v1alpha1/localdisks"
POOLS = "/apis/localpv.dev/v1alpha1/localpools"
POOL_ORDERS = "/apis/localpv.dev/v1alpha1/poolvolumes"
OURS, MANAGERS = "localpv.dev/pool-volume", "localpv.dev/protected"
"""Finalizers of a PoolVolume."""

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"

pytestmark = [pytest.mark.seed("CFG-7")]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Two nodes with a LocalDisk each, and the agent of the first."""

    admin: Api
    agent: Api
    loose: Api
    """The same service account, with a token that is bound to no node."""

    mine: str
    other: str

    def disk(self, node: str, name: str | None = None, **spec: Any) -> dict[str, Any]:
        wanted = {
            "nodeName": node,
            "storageClassName": "contract",
            "entry": "sdb",
            "path": "/mnt/contract/sdb",
            "volumeMode": "Block",
        }
        return {
            "apiVersion": "localpv.dev/v1alpha1",
            "kind": "LocalDisk",
            "metadata": builders.metadata(name),
            "spec": wanted | spec,
        }

    def pool(self, node: str) -> dict[str, Any]:
        return {
            "apiVersion": "localpv.dev/v1alpha1",
            "kind": "LocalPool",
            "metadata": builders.metadata(),
            "spec": {"nodeName": node, "poolName": "pool", "kind": "file", "classNames": ["contract"]},
        }

    def order(self, node: str) -> str:
        """A fresh PoolVolume, made by the administrator; its path."""
        made = {
            "apiVersion": "localpv.dev/v1alpha1",
            "kind": "PoolVolume",
            "metadata": builders.metadata() | {"finalizers": [OURS, MANAGERS]},
            "spec": {
                "nodeName": node,
                "poolName": "pool",
                "className": "contract",
                "sizeBytes": 1,
                "claim": {"namespace": "default", "name": "data", "uid": "u"},
            },
        }
        return f"{POOL_ORDERS}/{self.admin.post(POOL_ORDERS, made)['metadata']['name']}"

    def new(self, node: str, **spec: Any) -> str:
        """A fresh LocalDisk, made by the administrator; its path."""
        name = self.admin.post(DISKS, self.disk(node, **spec))["metadata"]["name"]
        return f"{DISKS}/{name}"


@pytest.fixture(scope="module")
def world(target: wire.Target) -> Iterator[World]:
    admin = Api(target, target.token)
    defined = False
    try:
        defined = _define(admin)
        space = admin.post("/api/v1/namespaces", builders.namespace())["metadata"]["name"]
        account = f"/api/v1/namespaces/{space}/serviceaccounts"
        admin.post(account, access.service_account(space, roles.AGENT))
        _grant(admin, space)
        # The policy's name is unique here, since other installations may be on the same server.
        name = builders.unique(roles.AGENT)
        for obj in policy.objects(namespace=space, name=name):
            plural = {"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}.get(
                obj["kind"], "validatingadmissionpolicybindings"
            )
            admin.post(f"{ADMISSION}/{plural}", obj)
        mine, other = (admin.post("/api/v1/nodes", builders.node())["metadata"]["name"] for _ in range(2))
        world = World(
            admin=admin,
            agent=admin.as_bearer(_token(admin, account, mine)),
            loose=admin.as_bearer(_token(admin, account)),
            mine=mine,
            other=other,
        )
        _wait_until_in_force(world)
        yield world
    finally:
        for path in [path for path in admin.created if path.startswith(POOL_ORDERS)]:
            admin.send("PATCH", path, {"metadata": {"finalizers": None}}, content_type=wire.MERGE_PATCH)
        own = [path for path in admin.created if not path.startswith(custom.DEFINITIONS)]
        definitions = [path for path in admin.created if path.startswith(custom.DEFINITIONS)]
        admin.created[:] = own
        admin.clean_up()
        # Somebody else on a shared server may have begun to use the kind.
        if definitions and defined and not admin.get(DISKS)["items"]:
            admin.created[:] = definitions
            admin.clean_up()
        admin.close()


def _define(admin: Api) -> bool:
    """Whether one of the kinds was not there."""
    defined = False
    for name in ("localdisks", "localpools", "poolvolumes"):
        definition = crds.load(name)
        if admin.send("GET", f"{custom.DEFINITIONS}/{definition['metadata']['name']}").code != 200:
            custom.define(admin, definition)
            defined = True
    return defined


def _grant(admin: Api, space: str) -> None:
    """What the manifests grant. The role itself is there already on the embedded engine, with the same rules."""
    role = roles.role(roles.AGENT, *roles.agent())
    answer = admin.send("POST", f"{RBAC}/clusterroles", role)
    assert answer.code in (201, 409), answer.raw
    present = admin.get(f"{RBAC}/clusterroles/{roles.AGENT}")
    assert present["rules"] == role["rules"], "another version of localpv is installed here"
    subject = roles.service_account_subject(space, roles.AGENT)
    binding = roles.binding(builders.unique(roles.AGENT), roles.AGENT, subject)
    admin.post(f"{RBAC}/clusterrolebindings", binding)


def _token(admin: Api, accounts: str, node: str = "") -> str:
    spec = {"boundObjectRef": {"apiVersion": "v1", "kind": "Node", "name": node}} if node else {}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    token: str = admin.post(f"{accounts}/{roles.AGENT}/token", request)["status"]["token"]
    return token


def _wait_until_in_force(world: World) -> None:
    """Roles and policies reach a server a moment after they were written; dry runs tell when."""
    own, foreign = world.disk(world.mine), world.disk(world.other)
    wire.eventually(
        lambda: (
            world.agent.send("POST", DISKS, own, dryRun="All").code == 201
            and world.agent.send("POST", DISKS, foreign, dryRun="All").code == 403
        ),
        "the agent's rights and limits are in force",
    )


# -- what is its own ---------------------------------------------------------------------------------------------------


def test_its_own_disks_it_creates_reports_on_and_deletes(world: World) -> None:
    made = world.agent.post(DISKS, world.disk(world.mine))
    path = f"{DISKS}/{made['metadata']['name']}"
    world.agent.merge(path, {"metadata": {"labels": {"a": "b"}}})
    world.agent.merge(f"{path}/status", {"status": {"phase": "Available", "eligible": True}})
    found = world.agent.get(path)
    assert found["status"]["phase"] == "Available"
    world.agent.put(path, found | {"metadata": found["metadata"] | {"labels": {"a": "c"}}})
    found = world.agent.get(path)
    world.agent.put(f"{path}/status", found | {"status": {"phase": "Missing"}})
    listed = world.agent.get(DISKS, fieldSelector=f"spec.nodeName={world.mine}")
    assert made["metadata"]["uid"] in [item["metadata"]["uid"] for item in listed["items"]]
    world.agent.delete(path)
    assert world.admin.gone(path)


def test_a_disk_that_the_manager_works_with_it_still_reports_on(world: World) -> None:
    path = world.new(
        world.mine,
        volume={"name": "pv-1", "uid": "u"},
        clean={"volumeName": "pv-1", "volumeUID": "u", "method": ["fs-reset"]},
    )
    cleaning = {"volumeUID": "u", "state": "Running"}
    world.agent.merge(f"{path}/status", {"status": {"phase": "Cleaning", "cleaning": cleaning}})
    world.agent.merge(path, {"metadata": {"labels": {"a": "b"}}})
    assert world.admin.get(path)["spec"]["volume"]["name"] == "pv-1"


def test_its_node_it_reads_and_events_it_writes(world: World) -> None:
    assert world.agent.get(f"/api/v1/nodes/{world.mine}")["metadata"]["name"] == world.mine
    world.agent.post("/api/v1/namespaces/default/events", builders.core_event("default"))


def test_its_own_pools_it_reports_and_what_it_was_ordered_it_answers(world: World) -> None:
    made = world.agent.post(POOLS, world.pool(world.mine))
    pool = f"{POOLS}/{made['metadata']['name']}"
    world.agent.merge(f"{pool}/status", {"status": {"capacityBytes": 5}})
    world.agent.merge(pool, {"spec": {"classNames": ["contract", "other"]}})
    world.agent.delete(pool)
    order = world.order(world.mine)
    world.agent.merge(f"{order}/status", {"status": {"phase": "Ready", "sizeBytes": 1}})
    world.admin.merge(order, {"metadata": {"finalizers": [OURS]}})
    world.admin.delete(order)
    world.agent.merge(order, {"metadata": {"finalizers": None}})
    assert world.admin.gone(order)


# -- what is another node's --------------------------------------------------------------------------------------------


def test_no_disk_is_planted_on_another_node(world: World) -> None:
    planted = world.disk(world.other)
    world.agent.post(DISKS, planted, expect=403)
    world.agent.apply(f"{DISKS}/{planted['metadata']['name']}", planted, expect=403)
    assert world.admin.gone(f"{DISKS}/{planted['metadata']['name']}")


def test_disks_of_another_node_stay_as_they_are(world: World) -> None:
    path = world.new(world.other)
    before = world.admin.get(path)
    changed = before | {"metadata": before["metadata"] | {"labels": {"a": "b"}}}
    status = {"status": {"phase": "Available", "eligible": True}}
    world.agent.put(path, changed, expect=403)
    world.agent.merge(path, {"metadata": {"labels": {"a": "b"}}}, expect=403)
    world.agent.json_patch(path, [{"op": "replace", "path": "/spec/path", "value": "/etc"}], expect=403)
    world.agent.put(f"{path}/status", before | status, expect=403)
    world.agent.merge(f"{path}/status", status, expect=403)
    world.agent.delete(path, expect=403)
    world.agent.call("DELETE", DISKS, fieldSelector=f"spec.nodeName={world.other}", expect=403)
    assert world.admin.get(path) == before


def test_a_disk_is_neither_moved_to_another_node_nor_taken_from_one(world: World) -> None:
    mine, other = world.new(world.mine), world.new(world.other)
    world.agent.merge(mine, {"spec": {"nodeName": world.other}}, expect=403)
    world.agent.merge(other, {"spec": {"nodeName": world.mine}}, expect=403)
    taken = world.admin.get(other)
    world.agent.put(other, taken | {"spec": taken["spec"] | {"nodeName": world.mine}}, expect=403)
    assert world.admin.get(mine)["spec"]["nodeName"] == world.mine
    assert world.admin.get(other)["spec"]["nodeName"] == world.other


def test_pools_and_orders_of_another_node_stay_as_they_are(world: World) -> None:
    world.agent.post(POOLS, world.pool(world.other), expect=403)
    pool = f"{POOLS}/{world.admin.post(POOLS, world.pool(world.other))['metadata']['name']}"
    order = world.order(world.other)
    before = [world.admin.get(path) for path in (pool, order)]
    for path, status in ((pool, {"capacityBytes": 1}), (order, {"phase": "Ready"})):
        world.agent.merge(f"{path}/status", {"status": status}, expect=403)
        world.agent.merge(path, {"metadata": {"finalizers": None, "labels": {"a": "b"}}}, expect=403)
        world.agent.delete(path, expect=403)
    assert [world.admin.get(path) for path in (pool, order)] == before


# -- what is the manager's ---------------------------------------------------------------------------------------------

ORDERS = {
    "volume": {"name": "pv-of-another-node", "uid": "u"},
    "identity": {"serial": "another"},
    "clean": {"volumeName": "pv-of-another-node", "volumeUID": "u"},
}


@pytest.mark.parametrize("field", roles.ORDERS)
def test_orders_of_the_manager_are_neither_forged_nor_taken_back(world: World, field: str) -> None:
    forged = ORDERS[field]
    world.agent.post(DISKS, world.disk(world.mine, **{field: forged}), expect=403)
    bare, ordered = world.new(world.mine), world.new(world.mine, **{field: forged})
    world.agent.merge(bare, {"spec": {field: forged}}, expect=403)
    world.agent.merge(ordered, {"spec": {field: None}}, expect=403)
    first = next(iter(forged))
    world.agent.merge(ordered, {"spec": {field: {first: "yet-another"}}}, expect=403)
    assert field not in world.admin.get(bare)["spec"]
    assert world.admin.get(ordered)["spec"][field] == forged


def test_volumes_are_out_of_reach(world: World) -> None:
    volume = world.admin.post("/api/v1/persistentvolumes", builders.local_volume())
    path = f"/api/v1/persistentvolumes/{volume['metadata']['name']}"
    world.agent.get("/api/v1/persistentvolumes", expect=403)
    world.agent.get(path, expect=403)
    world.agent.post("/api/v1/persistentvolumes", builders.local_volume(), expect=403)
    world.agent.put(path, volume, expect=403)
    world.agent.merge(path, {"metadata": {"labels": {"a": "b"}}}, expect=403)
    world.agent.merge(f"{path}/status", {"status": {"phase": "Available"}}, expect=403)
    world.agent.delete(path, expect=403)
    assert world.admin.get(path)["spec"] == volume["spec"]  # a controller may have set its phase meanwhile


def test_nodes_claims_secrets_pods_and_rights_are_none_of_its_business(world: World) -> None:
    node = f"/api/v1/nodes/{world.mine}"
    present = world.admin.get(node)
    world.agent.put(node, present, expect=403)
    world.agent.merge(node, {"spec": {"taints": None}}, expect=403)
    world.agent.merge(f"{node}/status", {"status": {"phase": "Running"}}, expect=403)
    world.agent.delete(node, expect=403)
    world.agent.post("/api/v1/nodes", builders.node(), expect=403)
    for path in ("persistentvolumeclaims", "secrets", "configmaps", "pods", "serviceaccounts"):
        world.agent.get(f"/api/v1/{path}", expect=403)
    world.agent.post("/api/v1/namespaces/default/pods", builders.pod(), expect=403)
    token = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    world.agent.post("/api/v1/namespaces/kube-system/serviceaccounts/default/token", token, expect=403)
    role = roles.role(builders.unique("more"), roles.rule(["*"], "*", "*"))
    world.agent.post(f"{RBAC}/clusterroles", role, expect=403)
    world.agent.merge(f"{RBAC}/clusterroles/{roles.AGENT}", {"rules": []}, expect=403)
    # Controllers of a cluster write to nodes too: what counts is what was written from here.
    assert _written_here(world.admin.get(node)) == _written_here(present)


def _written_here(obj: Any) -> list[Any]:
    return [entry for entry in obj["metadata"].get("managedFields", ()) if entry["manager"] == "contract"]


# -- who is asked ------------------------------------------------------------------------------------------------------


def test_a_token_that_is_bound_to_no_node_writes_nothing(world: World) -> None:
    path = world.new(world.mine)
    before = world.admin.get(path)
    world.loose.post(DISKS, world.disk(world.mine), expect=403)
    assert world.loose.send("POST", DISKS, world.disk("")).code in (403, 422)
    world.loose.merge(path, {"metadata": {"labels": {"a": "b"}}}, expect=403)
    world.loose.merge(f"{path}/status", {"status": {"phase": "Available"}}, expect=403)
    world.loose.delete(path, expect=403)
    assert world.admin.get(path) == before


def test_the_refusal_says_whose_disk_it_is(world: World) -> None:
    status = world.agent.post(DISKS, world.disk(world.other), expect=403)
    assert status["reason"] == "Forbidden"
    assert f"the LocalDisk is of node {world.other}".replace('"', "") in status["message"].replace('"', "")


def test_the_limits_are_the_agents_and_nobody_elses(world: World) -> None:
    path = world.new(world.other)
    world.admin.merge(path, {"spec": {"volume": {"name": "pv-1"}}})
    world.admin.merge(f"{path}/status", {"status": {"phase": "Published"}})
    world.admin.delete(path)


def test_orders_to_pools_are_neither_given_nor_changed_nor_let_go_by_an_agent(world: World) -> None:
    order = world.order(world.mine)
    before = world.admin.get(order)
    forged = before | {"metadata": builders.metadata()}
    world.agent.post(POOL_ORDERS, forged, expect=403)
    world.agent.delete(order, expect=403)
    for spec in ({"sizeBytes": 2}, {"nodeName": world.other}, {"wipeMethod": ["none"]}, {"source": {"volume": "x"}}):
        world.agent.merge(order, {"spec": spec}, expect=403)
    world.agent.merge(order, {"metadata": {"finalizers": [OURS]}}, expect=403)
    world.agent.merge(order, {"metadata": {"finalizers": None}}, expect=403)
    assert world.admin.get(order) == before
