"""What the Node object tells of this machine."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import pytest

from localpv.api.kinds.cluster import Node, NodeCondition
from localpv.client.client import Client
from localpv.client.transport import Answer, Request
from localpv.engine.kubelet import node_status
from localpv.engine.kubelet.node_status import STATUS_SECONDS, NodeKeeper
from localpv.testing.api import FakeApi
from localpv.testing.clock import FakeClock

NODE = "/api/v1/nodes/here"


class StatusApi(FakeApi):
    """The status is a part of the object here, so its address leads to the object."""

    async def request(self, request: Request) -> Answer:
        return await super().request(dataclasses.replace(request, path=request.path.removesuffix("/status")))


@pytest.fixture
def api() -> FakeApi:
    return StatusApi()


def keeper(api: FakeApi, clock: FakeClock, missing: list[str], tmp_path: Path) -> NodeKeeper:
    return NodeKeeper(
        Client(api, field_manager="tests"),
        name="here",
        machine=node_status.read_machine(tmp_path),
        clock=clock,
        missing=lambda: tuple(missing),
    )


def ready(api: FakeApi) -> NodeCondition:
    node = msgspec.convert(api.objects[NODE], Node)
    return next(one for one in node.status.conditions if one.type == "Ready")


async def test_node_is_created_with_labels_capacity_and_conditions(api: FakeApi, tmp_path: Path) -> None:
    await keeper(api, FakeClock(), [], tmp_path).tell()
    node = api.objects[NODE]
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "here"
    assert set(node["status"]["capacity"]) == {"cpu", "memory", "ephemeral-storage", "pods"}
    assert ready(api).status == "True"


async def test_node_is_not_ready_while_the_runtime_is_missing_and_says_what_to_install(
    api: FakeApi, tmp_path: Path
) -> None:
    missing, clock = ["runc"], FakeClock()
    told = keeper(api, clock, missing, tmp_path)
    await told.tell()
    assert (ready(api).status, ready(api).reason) == ("False", "RuntimeMissing")
    assert "install" in ready(api).message
    since = ready(api).last_transition_time
    await clock.advance(STATUS_SECONDS + 1)
    await told.tell()
    assert ready(api).last_transition_time == since
    missing.clear()
    await told.tell()
    assert ready(api).status == "True" and ready(api).last_transition_time != since


def test_only_what_is_missing_is_asked_for() -> None:
    assert node_status.lacking([node_status.ROOT]) == "the rights of root missing: start localpv as root"
    assert node_status.lacking(["runc", "conmon"]) == "runc and conmon missing: install runc and conmon"
    assert node_status.lacking([node_status.ROOT, "runc"]).endswith("start localpv as root and install runc")


async def test_labels_of_others_stay(api: FakeApi, tmp_path: Path) -> None:
    api.put(NODE, {"metadata": {"name": "here", "labels": {"zone": "a"}}})
    await keeper(api, FakeClock(), [], tmp_path).tell()
    assert api.objects[NODE]["metadata"]["labels"]["zone"] == "a"


async def test_status_is_not_written_again_before_its_time(api: FakeApi, tmp_path: Path) -> None:
    clock = FakeClock()
    told = keeper(api, clock, [], tmp_path)
    await told.tell()
    before = len(api.requests)
    await clock.advance(STATUS_SECONDS / 2)
    await told.tell()
    assert len(api.requests) == before
