"""The contract of the local volume plugin, line by line as the design lists it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.lifecycle.mount.world import Machine, a_pod, claim_volume

from localpv.api import kinds
from localpv.lifecycle.mount import LocalPlugin, NotReady, recorded
from localpv.lifecycle.publish import volume as publishing


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "node")


@pytest.fixture
def plugin(machine: Machine) -> LocalPlugin:
    return machine.volumes.plugin


def test_the_plugin_is_named_as_in_kubernetes(plugin: LocalPlugin) -> None:
    assert plugin.name == "kubernetes.io/local-volume"


@pytest.mark.seed("PLG-1")
def test_a_persistent_volume_source_is_supported(plugin: LocalPlugin, machine: Machine) -> None:
    assert plugin.supports(machine.lookup.offer("/mnt/disks/vol1"))
    other = kinds.PersistentVolume(metadata=kinds.ObjectMeta(name="other"))
    assert not plugin.supports(other)
    with pytest.raises(NotReady, match="no local volume"):
        plugin.spec_of(other)


@pytest.mark.seed("PLG-2")
def test_an_inline_volume_source_is_not_supported(plugin: LocalPlugin) -> None:
    for volume in (
        kinds.Volume(name="inline"),
        kinds.Volume(name="inline", host_path=kinds.HostPathVolumeSource(path="/mnt/disks/vol1")),
        claim_volume(),
    ):
        assert not plugin.supports(volume)


@pytest.mark.seed("PLG-3")
def test_read_write_once_is_supported(plugin: LocalPlugin) -> None:
    assert plugin.access_modes == ("ReadWriteOnce",)
    assert plugin.supports_access_mode("ReadWriteOnce")
    assert plugin.supports_access_mode("ReadWriteOncePod")


@pytest.mark.seed("PLG-4")
@pytest.mark.parametrize("mode", ["ReadOnlyMany", "ReadWriteMany"])
def test_the_other_access_modes_are_not_supported(plugin: LocalPlugin, mode: str) -> None:
    assert not plugin.supports_access_mode(mode)


@pytest.mark.seed("PLG-5")
async def test_there_are_a_mounter_and_an_unmounter(plugin: LocalPlugin, machine: Machine) -> None:
    machine.machine.make_folder("/mnt/disks/vol1")
    spec = plugin.spec_of(machine.lookup.offer("/mnt/disks/vol1"))
    place = await plugin.mounter.set_up(
        spec, pod_uid="uid", recorded=None, group=None, warn=lambda reason, message: None
    )
    assert machine.machine.mounted[-1].mount_point == place
    await plugin.mounter.tear_down(spec.name, pod_uid="uid")
    assert not machine.machine.mounted and not place.exists()


@pytest.mark.seed("PLG-6")
def test_there_is_no_provisioner_recycler_or_deleter(plugin: LocalPlugin) -> None:
    able = {name for name in dir(plugin) if not name.startswith("_")}
    assert able == {
        "access_modes",
        "mapper",
        "mounter",
        "name",
        "reconstruct",
        "spec_of",
        "supports",
        "supports_access_mode",
        "volume_name",
    }


@pytest.mark.seed("PLG-7")
async def test_a_volume_can_be_read_only_for_one_pod_and_not_for_another(machine: Machine) -> None:
    machine.machine.make_folder("/mnt/disks/vol1")
    machine.lookup.offer("/mnt/disks/vol1")
    reader, writer = a_pod(claim_volume(read_only=True)), a_pod(claim_volume())
    read, written = (await machine.volumes.set_up(reader))["data"], (await machine.volumes.set_up(writer))["data"]
    assert (read.read_only, written.read_only) == (True, False)
    table = await machine.hands.mounts.table()
    assert [table.at(one.path).read_only for one in (read, written)] == [True, False]  # type: ignore[union-attr]


@pytest.mark.seed("PLG-8")
async def test_the_name_of_the_volume_is_that_of_the_persistent_volume(plugin: LocalPlugin, machine: Machine) -> None:
    machine.machine.make_folder("/mnt/disks/vol1")
    volume = machine.lookup.offer("/mnt/disks/vol1", name="local-pv-4711")
    assert plugin.volume_name(volume) == "local-pv-4711"
    pod = a_pod(claim_volume("local-pv-4711"), uid="u-1")
    prepared = (await machine.volumes.set_up(pod))["data"]
    assert prepared.path.relative_to(machine.volumes.layout.root) == Path(
        "pods/u-1/volumes/kubernetes.io~local-volume/local-pv-4711"
    )


@pytest.mark.seed("PLG-9")
async def test_a_volume_is_told_from_what_is_on_the_disk_after_a_restart(machine: Machine) -> None:
    machine.machine.make_folder("/mnt/disks/vol1")
    machine.machine.add_disk("/dev/sdb")
    machine.lookup.offer("/mnt/disks/vol1", name="dir")
    machine.lookup.offer("/dev/sdb", name="disk")
    pod = a_pod(claim_volume("dir", name="a", read_only=True), claim_volume("disk", name="b"))
    await machine.volumes.set_up(pod)
    found = await machine.restarted().plugin.reconstruct(pod.metadata.uid)
    assert [(spec.name, spec.path, spec.mode, spec.read_only) for spec in found] == [
        ("dir", "/mnt/disks/vol1", "Filesystem", True),
        ("disk", "/dev/sdb", "Filesystem", False),
    ]


@pytest.mark.seed("PLG-10")
@pytest.mark.parametrize("path", ["/mnt/disks/../../etc", "/mnt/..", "..", "mnt/disks", "/mnt/disks/.."])
@pytest.mark.parametrize("mode", ["Filesystem", "Block"])
async def test_backsteps_in_the_path_are_refused(machine: Machine, path: str, mode: str) -> None:
    machine.lookup.offer(path, mode=mode)
    pod = a_pod(claim_volume(), devices=["data"] if mode == "Block" else [])
    with pytest.raises(NotReady, match=r"contains \.\.") as caught:
        await machine.volumes.set_up(pod)
    assert caught.value.reason == "InvalidPath"
    assert caught.value.event == ("FailedMapVolume" if mode == "Block" else "FailedMount")
    assert machine.left() == []


def test_the_record_of_a_disk_is_read_where_publishing_writes_it() -> None:
    assert recorded.IDENTITY == publishing.IDENTITY
