"""The taint of a new node goes when its volumes are published."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest
from tests.unit.manager.worlds import NODE, Listers, World, a_node

from localpv import errors
from localpv.api.kinds.cluster import Node, NodeSpec, Taint
from localpv.api.kinds.localdisk import LocalDisk, Phase
from localpv.api.kinds.localstorage import LOCAL_STORAGE_NODES, LocalStorage
from localpv.client.client import Client
from localpv.config.settings import Configuration
from localpv.deploy import pods as deployed
from localpv.manager.agents import AgentPods, Discoverers
from localpv.manager.publish import startup_taint
from localpv.manager.publish.startup_taint import Taints
from localpv.runtime.controller import Done, LookAgain
from localpv.testing.api import FakeApi

KEY = "localpv.dev/agent-not-ready"
PATH = "/api/v1/nodes/n1"
CONFIGURATION = Configuration(remove_node_not_ready_taint=True, not_ready_taint_key=KEY)


def tainted(*keys: str) -> Node:
    return a_node(spec=NodeSpec(taints=tuple(Taint(key=key, effect="NoSchedule") for key in keys)))


def test_taint_goes_once_every_disk_that_can_be_offered_is() -> None:
    world = World()
    world.find_disk()
    assert not startup_taint.is_due(tainted(KEY), [world.disk], CONFIGURATION)
    world.settle()
    assert startup_taint.is_due(tainted(KEY), [world.disk], CONFIGURATION)


def test_disk_that_cannot_be_offered_does_not_hold_the_node_up() -> None:
    world = World()
    world.find_disk()
    world.report(eligible=False, phase=Phase.UNAVAILABLE)
    assert startup_taint.is_due(tainted(KEY), [world.disk], CONFIGURATION)


def test_disk_that_was_not_looked_at_holds_the_node_up() -> None:
    world = World()
    world.find_disk()
    world.report(eligible=None, phase="")
    assert not startup_taint.is_due(tainted(KEY), [world.disk], CONFIGURATION)


def test_taint_stays_when_nobody_asked_to_remove_it() -> None:
    world = World()
    world.published()
    for configuration in (
        Configuration(),
        dataclasses.replace(CONFIGURATION, not_ready_taint_key=""),
        dataclasses.replace(CONFIGURATION, remove_node_not_ready_taint=False),
    ):
        assert not startup_taint.is_due(tainted(KEY), [world.disk], configuration)
    assert not startup_taint.is_due(tainted("other"), [world.disk], CONFIGURATION)


class Case:
    """A tainted node without disks, whose agent may have looked."""

    def __init__(self) -> None:
        self.api = FakeApi()
        taints = [{"key": KEY, "effect": "NoSchedule"}]
        stored = self.api.put(PATH, {"spec": {"taints": taints}})
        self.looked = False
        self.disks: list[LocalDisk] = []
        listers = Listers(configuration=CONFIGURATION)
        self.node = a_node(uid=stored["metadata"]["uid"], spec=tainted(KEY).spec)
        self.storages: list[LocalStorage] = []
        client = Client(self.api, field_manager="test")
        self.taints = Taints(
            client,
            nodes=self,  # type: ignore[arg-type]
            disks=lambda name: self.disks,
            has_looked=self.has_looked,
            has_linked=Discoverers(client, storages=lambda: self.storages).have_linked,
            listers=listers,
        )

    def get(self, name: str) -> Node:
        return self.node

    async def has_looked(self, name: str) -> bool:
        return self.looked

    @property
    def is_tainted(self) -> bool:
        return "taints" in self.api.objects[PATH]["spec"]


async def test_node_without_disks_loses_the_taint_once_its_agent_has_looked() -> None:
    case = Case()
    assert await case.taints.step("n1") == LookAgain(after=startup_taint.LOOK_EVERY_SECONDS)
    assert case.is_tainted
    case.looked = True
    assert await case.taints.step("n1") == Done()
    assert not case.is_tainted


async def test_node_with_disks_is_not_asked_for_its_agent() -> None:
    case, world = Case(), World()
    world.find_disk()
    case.disks, case.looked = [world.disk], True
    assert await case.taints.step("n1") == Done()
    assert case.is_tainted, "the disk is still to be offered"
    world.settle()
    case.disks, case.looked = [world.disk], False
    assert await case.taints.step("n1") == Done()
    assert not case.is_tainted


LINK = "/dev/disk/kubernetes-local-storage/fast/block/scsi-1"
REPORT = f"{LOCAL_STORAGE_NODES.path}/namespaces/system/{LOCAL_STORAGE_NODES.plural}/local.{NODE}"


def a_report(**status: Any) -> dict[str, Any]:
    spec = {"nodeName": NODE, "localStorageName": "local", "localStorageUID": "uid-1"}
    return {"metadata": {"name": f"local.{NODE}", "namespace": "system"}, "spec": spec, "status": status}


async def test_node_of_a_local_storage_waits_for_its_discoverer_and_for_what_that_links() -> None:
    """The agent has looked, and found nothing: there were no links yet."""
    case, world = Case(), World()
    case.looked = True
    group = {"nodeSelector": {}, "tolerations": [{"key": KEY, "operator": "Exists"}]}
    head = {"name": "local", "namespace": "system", "uid": "uid-1", "generation": 2}
    case.storages = [msgspec.convert({"metadata": head, "spec": {"nodes": [group]}}, LocalStorage)]
    again = LookAgain(after=startup_taint.LOOK_EVERY_SECONDS)
    assert await case.taints.step("n1") == again
    case.api.put(REPORT, a_report(generation=1))
    assert await case.taints.step("n1") == again
    case.api.put(REPORT, a_report(generation=2, devices=[{"device": "sda"}, {"device": "sdb", "link": LINK}]))
    assert await case.taints.step("n1") == again, "the agent has not found it yet"
    assert case.is_tainted

    world.find_disk()
    world.settle()
    case.disks = [msgspec.structs.replace(world.disk, spec=msgspec.structs.replace(world.disk.spec, path=LINK))]
    assert await case.taints.step("n1") == Done()
    assert not case.is_tainted


@pytest.mark.parametrize("why", ["another node", "taint not tolerated", "going", "cannot work", "may not be read"])
async def test_node_does_not_wait_for_discoverers_that_do_not_come(why: str) -> None:
    case = Case()
    case.looked = True
    group: dict[str, Any] = {"tolerations": [{"key": KEY, "operator": "Exists"}]}
    head: dict[str, Any] = {"name": "local", "namespace": "system", "uid": "uid-1", "generation": 2}
    match why:
        case "another node":
            group["nodeName"] = "other"
        case "taint not tolerated":
            group["tolerations"] = []
        case "going":
            head["deletionTimestamp"] = "2030-01-01T00:00:00Z"
        case "cannot work":
            case.api.put(REPORT, a_report(generation=0, error="the host runs no udev"))
        case "may not be read":
            case.api.failures = [errors.Forbidden("no")]
    case.storages = [msgspec.convert({"metadata": head, "spec": {"nodes": [group]}}, LocalStorage)]
    assert await case.taints.step("n1") == Done()
    assert not case.is_tainted


@pytest.mark.parametrize(
    ("pod", "looked"),
    [
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, True),
        ({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, False),
        ({"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}}, False),
        ({"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"},
          "status": {"conditions": [{"type": "Ready", "status": "True"}]}}, False),
        (None, False),
    ],
)  # fmt: skip
async def test_agent_has_looked_when_its_pod_is_ready(pod: dict[str, Any] | None, looked: bool) -> None:
    api = FakeApi()
    if pod is not None:
        api.put("/api/v1/namespaces/kube-system/pods/agent-x", pod)
    pods = AgentPods(Client(api, field_manager="test"), namespace="kube-system")
    assert await pods.have_looked("n1") is looked
    query = api.requests[-1].query
    assert query["fieldSelector"] == "spec.nodeName=n1"
    assert query["labelSelector"] == ",".join(f"{key}={value}" for key, value in deployed.labels("agent").items())


async def test_manager_that_may_not_read_pods_waits_for_disks() -> None:
    api = FakeApi()
    api.failures = [errors.Forbidden("no")]
    assert not await AgentPods(Client(api, field_manager="test"), namespace="kube-system").have_looked("n1")


async def test_only_our_taint_is_removed() -> None:
    api = FakeApi()
    taints = [{"key": KEY, "effect": "NoSchedule"}, {"key": "other", "effect": "NoExecute", "odd": 1}]
    stored = api.put(PATH, {"metadata": {"labels": {"a": "b"}}, "spec": {"taints": taints, "podCIDR": "x"}})
    nodes = Client(api, field_manager="test").untyped(Node.resource)
    await startup_taint.remove(a_node(uid=stored["metadata"]["uid"]), nodes, key=KEY)
    assert api.objects[PATH]["spec"] == {"taints": [taints[1]], "podCIDR": "x"}
    await startup_taint.remove(a_node(uid="another"), nodes, key="other")
    assert api.objects[PATH]["spec"]["taints"] == [taints[1]], "a node of the same name with another UID"


async def test_last_taint_leaves_no_empty_list_and_one_that_is_gone_needs_no_write() -> None:
    api = FakeApi()
    stored = api.put(PATH, {"spec": {"taints": [{"key": KEY, "effect": "NoSchedule"}]}})
    nodes = Client(api, field_manager="test").untyped(Node.resource)
    node = a_node(uid=stored["metadata"]["uid"])
    await startup_taint.remove(node, nodes, key=KEY)
    assert api.objects[PATH]["spec"] == {}
    version = api.objects[PATH]["metadata"]["resourceVersion"]
    await startup_taint.remove(node, nodes, key=KEY)
    assert api.objects[PATH]["metadata"]["resourceVersion"] == version


async def test_node_that_changed_meanwhile_is_looked_at_again() -> None:
    api = FakeApi()
    stored = api.put(PATH, {"spec": {"taints": [{"key": KEY, "effect": "NoSchedule"}]}})
    nodes = Client(api, field_manager="test").untyped(Node.resource)
    get = nodes.get

    async def get_and_change(name: str) -> dict[str, object]:
        found = await get(name)
        api.put(PATH, api.objects[PATH])
        return found

    nodes.get = get_and_change  # type: ignore[method-assign, assignment]
    with pytest.raises(errors.Conflict):
        await startup_taint.remove(a_node(uid=stored["metadata"]["uid"]), nodes, key=KEY)
