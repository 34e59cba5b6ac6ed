"""Drivers come and go: sockets in the registry folder, what the API then says, and volumes on the real machine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.host.pod_world import mounts_below
from tests.unit.engine.kubelet.volumes.tiny_driver import NAME, KernelHands, TinyDriver
from tests.unit.engine.kubelet.volumes.world import FakeLookup, a_pod, claim_volume

from localpv.api.kinds.csi import CSIDriver, CSIDriverSpec
from localpv.api.kinds.meta import ObjectMeta
from localpv.client.client import Client
from localpv.csi.channel import Channel
from localpv.csi.server import serve
from localpv.engine.kubelet import volumes as mounting
from localpv.engine.kubelet.volumes import PodVolumes
from localpv.engine.kubelet.volumes.csi_plugins import CsiPlugins
from localpv.engine.kubelet.volumes.volume_spec import DriverMissing
from localpv.host.folders import KernelFolders
from localpv.host.workers import Workers
from localpv.runtime.clock import SystemClock
from localpv.testing.api import FakeApi
from localpv.testing.waiting import eventually

NODE, CSI_NODE = "/api/v1/nodes/n1", "/apis/storage.k8s.io/v1/csinodes/n1"
NODE_IDS = "csi.volume.kubernetes.io/nodeid"


class Node:
    """A node whose kubelet looks for drivers."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.registry = folder, folder / "registry"
        self.api, self.seen = FakeApi(), list[str]()
        self.api.put(NODE, {"kind": "Node", "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}}})
        self.plugins = CsiPlugins(
            Client(self.api, field_manager="tests"),
            node="n1",
            registry=self.registry,
            connect=Channel,
            watch=KernelFolders(workers=Workers()).changes,
            clock=SystemClock(),
            on_registered=self.seen.append,
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.plugins.run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @contextlib.asynccontextmanager
    async def with_driver(self, driver: TinyDriver, *, name: str = "tiny-reg.sock") -> AsyncIterator[None]:
        """A driver that listens on a socket of its own, and another one for its registration."""
        driver.endpoint = str(self.folder / f"{name}.csi")
        self.registry.mkdir(exist_ok=True)
        own = {method: handler for method, handler in driver.handlers.items() if method.startswith("/csi.")}
        serving = await serve(Path(driver.endpoint), own)
        rest = {method: handler for method, handler in driver.handlers.items() if method not in own}
        registering = await serve(self.registry / name, rest)
        try:
            yield
        finally:
            await registering.close()
            await serving.close()

    def drivers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.api.objects.get(CSI_NODE, {}).get("spec", {}).get("drivers", [])
        return found

    def is_registered(self) -> bool:
        try:
            return self.plugins.get(NAME).name == NAME
        except DriverMissing:
            return False


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def driver(tmp_path: Path) -> TinyDriver:
    (tmp_path / "pool").mkdir()
    return TinyDriver(KernelHands(), {"one": tmp_path / "pool"}, abilities=("STAGE_UNSTAGE_VOLUME",))


async def test_a_driver_is_registered_when_its_socket_appears_and_forgotten_when_it_goes(
    node: Node, driver: TinyDriver
) -> None:
    async with node.running():
        async with node.with_driver(driver):
            await eventually(lambda: driver.notified == [{"plugin_registered": True}])
            assert node.is_registered() and node.seen == [NAME]
            written = node.api.objects[NODE]["metadata"]
            assert written["labels"] == {"kubernetes.io/hostname": "n1", **driver.topology}
            assert json.loads(written["annotations"][NODE_IDS]) == {NAME: "tiny-n1"}
            assert node.drivers() == [
                {
                    "name": NAME,
                    "nodeID": "tiny-n1",
                    "topologyKeys": ["topology.tiny.example.com/node"],
                    "allocatable": {"count": 7},
                }
            ]
            owner = node.api.objects[CSI_NODE]["metadata"]["ownerReferences"][0]
            assert (owner["kind"], owner["name"], owner["uid"]) == ("Node", "n1", written["uid"])
        await eventually(lambda: not node.is_registered())
        await eventually(lambda: node.drivers() == [])
        await eventually(lambda: NODE_IDS not in node.api.objects[NODE]["metadata"].get("annotations", {}))


async def test_a_driver_that_was_there_first_is_found_and_one_that_starts_anew_is_registered_anew(
    node: Node, driver: TinyDriver
) -> None:
    async with node.with_driver(driver), node.running():
        await eventually(node.is_registered)
        first = node.plugins.get(NAME)
        again = TinyDriver(driver.hands, driver.sources)
        again.endpoint = driver.endpoint
        again.topology = {"topology.tiny.example.com/node": "n1"}
        rest = {method: handler for method, handler in again.handlers.items() if not method.startswith("/csi.")}
        (node.registry / "tiny-reg.sock").unlink()
        taken = await serve(node.registry / "tiny-reg.sock", rest)
        try:
            await eventually(lambda: again.notified == [{"plugin_registered": True}])
            assert node.plugins.get(NAME) is not first
            assert [each["name"] for each in node.drivers()] == [NAME]
        finally:
            await taken.close()


@pytest.mark.parametrize(
    ("info", "reason"),
    [
        ({"type": "DevicePlugin"}, "type 'DevicePlugin'"),
        ({"name": "../../etc"}, "cannot be the name"),
        ({"name": "a" * 64}, "cannot be the name"),
        ({"supported_versions": ["0.3.0", "2.0.0"]}, "none of the versions 1.x"),
        ({"supported_versions": []}, "none of the versions 1.x"),
    ],
)
async def test_what_is_no_driver_is_told_so_and_not_registered(
    node: Node, driver: TinyDriver, monkeypatch: pytest.MonkeyPatch, info: dict[str, Any], reason: str
) -> None:
    async def registration(request: dict[str, Any]) -> dict[str, Any]:
        usual = {"type": "CSIPlugin", "name": NAME, "endpoint": driver.endpoint, "supported_versions": ["1.0.0"]}
        return usual | info

    monkeypatch.setattr(driver, "registration", registration)
    async with node.running(), node.with_driver(driver):
        await eventually(lambda: len(driver.notified) > 0)
    assert not driver.notified[0].get("plugin_registered")
    assert reason in driver.notified[0]["error"]
    assert node.drivers() == [] and node.seen == []


async def test_a_label_that_the_node_has_with_another_value_keeps_the_driver_out_until_it_is_gone(
    node: Node, driver: TinyDriver
) -> None:
    labels = {"topology.tiny.example.com/node": "another"}
    node.api.put(NODE, {"kind": "Node", "metadata": {"name": "n1", "labels": labels}})
    async with node.running(), node.with_driver(driver):
        await eventually(lambda: len(driver.notified) > 0)
        assert "has another" in driver.notified[0]["error"] and not node.is_registered()
        node.api.put(NODE, {"kind": "Node", "metadata": {"name": "n1"}})
        await eventually(node.is_registered)


async def test_a_second_driver_of_the_same_name_waits_until_the_first_is_gone(node: Node, driver: TinyDriver) -> None:
    other = TinyDriver(driver.hands, driver.sources)
    async with node.running(), node.with_driver(driver):
        await eventually(node.is_registered)
        async with node.with_driver(other, name="other.sock"):
            await eventually(lambda: len(other.notified) > 0)
            assert "another CSI driver is registered" in other.notified[0]["error"]
            assert len(driver.notified) == 1


async def test_what_is_no_socket_is_left_alone(node: Node, driver: TinyDriver) -> None:
    node.registry.mkdir()
    (node.registry / "notes.txt").write_text("x")
    (node.registry / ".hidden.sock").write_text("x")
    async with node.running(), node.with_driver(driver):
        await eventually(node.is_registered)
    assert node.seen == [NAME]


# -- real volumes ------------------------------------------------------------------------------------------------------


@pytest.fixture
def cleared(tmp_path: Path) -> Iterator[None]:
    yield
    for place in reversed(mounts_below(tmp_path)):
        subprocess.run(["umount", place], check=False)


@pytest.mark.usefixtures("cleared")
async def test_pods_use_volumes_of_a_driver_through_real_sockets_and_mounts(
    node: Node, driver: TinyDriver, tmp_path: Path, make_disk: Callable[..., Path]
) -> None:
    raw = make_disk(8)
    driver.sources["raw"] = raw
    lookup = FakeLookup()
    spec = CSIDriverSpec(attach_required=False, fs_group_policy="File")
    lookup.csi_drivers[NAME] = CSIDriver(metadata=ObjectMeta(name=NAME), spec=spec)
    lookup.serve("one", driver=NAME)
    lookup.serve("raw", driver=NAME, name="raw", mode="Block")
    volumes = PodVolumes(root=tmp_path, host=mounting.on_this_machine(), lookup=lookup, drivers=node.plugins, node="n1")
    pod = a_pod(claim_volume(name="a"), claim_volume("raw", name="b"), devices=["b"], group=4321)
    async with node.running(), node.with_driver(driver):
        await eventually(node.is_registered)
        prepared = await volumes.set_up(pod)
        (prepared["a"].path / "file").write_text("written")
        assert (prepared["a"].path / "file").stat().st_gid == 4321
        assert (tmp_path / "pool" / "file").read_text() == "written"
        number = prepared["b"].number
        assert number is not None
        assert (number.major, number.minor) == (os.major(raw.stat().st_rdev), os.minor(raw.stat().st_rdev))
        await volumes.tear_down(pod.metadata.uid)
    assert mounts_below(tmp_path) == []
    assert driver.holds == []
    assert (tmp_path / "pool" / "file").read_text() == "written"
