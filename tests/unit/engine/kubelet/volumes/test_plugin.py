"""The contract of the local volume plugin, line by line as the design lists it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.unit.engine.kubelet.volumes.world import Machine, a_pod, claim_volume

from localpv.api.kinds.pods import Volume
from localpv.engine.kubelet.volumes import NotReady
from localpv.engine.kubelet.volumes.host_parts import Operations, Turns
from localpv.engine.kubelet.volumes.mapper import Mapper


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path / "node")
    machine.machine.make_folder("/mnt/disks/vol1")
    return machine


@pytest.mark.seed("PLG-1")
async def test_a_persistent_volume_with_a_local_source_is_served_and_one_with_another_is_not(machine: Machine) -> None:
    volume = machine.lookup.offer("/mnt/disks/vol1")
    assert (await machine.volumes.set_up(a_pod(claim_volume())))["data"].path.exists()
    machine.lookup.volumes["pv"] = msgspec.structs.replace(
        volume, spec=msgspec.structs.replace(volume.spec, local=None)
    )
    with pytest.raises(NotReady, match="serves local volumes and those of CSI drivers only"):
        await machine.volumes.set_up(a_pod(claim_volume()))


@pytest.mark.seed("PLG-2")
async def test_an_inline_volume_source_is_not_served(machine: Machine) -> None:
    # The API refuses `local` by name; should it get as far as here, it is a source that nobody knows.
    inline = msgspec.convert({"name": "data", "local": {"path": "/mnt/disks/vol1"}}, Volume)
    with pytest.raises(NotReady, match="which is not supported") as caught:
        await machine.volumes.set_up(a_pod(inline))
    assert "use a claim" in caught.value.hint
    assert machine.left() == []


@pytest.mark.parametrize(
    ("modes", "unsupported"),
    [
        pytest.param(("ReadWriteOnce",), (), marks=pytest.mark.seed("PLG-3")),
        pytest.param(("ReadWriteOncePod",), (), marks=pytest.mark.seed("PLG-3")),
        pytest.param(("ReadOnlyMany",), ("ReadOnlyMany",), marks=pytest.mark.seed("PLG-4")),
        pytest.param(("ReadWriteOnce", "ReadWriteMany"), ("ReadWriteMany",), marks=pytest.mark.seed("PLG-4")),
    ],
)
async def test_a_volume_is_served_and_a_mode_that_promises_it_to_other_nodes_is_told_as_not_supported(
    machine: Machine, modes: tuple[str, ...], unsupported: tuple[str, ...]
) -> None:
    machine.lookup.offer("/mnt/disks/vol1", access_modes=modes)
    assert (await machine.volumes.set_up(a_pod(claim_volume())))["data"].path.exists()
    assert [reason for reason, _ in machine.warnings] == ["AccessModesNotSupported"] * len(unsupported)
    assert all(f"promises {mode}," in message for mode, (_, message) in zip(unsupported, machine.warnings, strict=True))


@pytest.mark.seed("PLG-5")
async def test_a_volume_is_mounted_and_unmounted(machine: Machine) -> None:
    machine.lookup.offer("/mnt/disks/vol1")
    pod = a_pod(claim_volume())
    place = (await machine.volumes.set_up(pod))["data"].path
    assert machine.machine.mounted[-1].mount_point == place
    await machine.volumes.tear_down(pod.metadata.uid)
    assert not machine.machine.mounted and not place.exists()


@pytest.mark.seed("PLG-6")
async def test_nothing_is_provisioned_recycled_or_deleted(machine: Machine) -> None:
    """The path must be there before, and what a pod left in it is there after."""
    machine.lookup.offer("/mnt/disks/vol2")
    pod = a_pod(claim_volume())
    with pytest.raises(NotReady) as caught:
        await machine.volumes.set_up(pod)
    assert caught.value.reason == "PathMissing"
    machine.machine.make_folder("/mnt/disks/vol2")
    await machine.volumes.set_up(pod)
    machine.log.clear()
    await machine.volumes.tear_down(pod.metadata.uid)
    assert Path("/mnt/disks/vol2") not in machine.trees.emptied
    assert not [line for line in machine.log if "/mnt/disks/vol2" in line]


@pytest.mark.seed("PLG-7")
async def test_a_volume_can_be_read_only_for_one_pod_and_not_for_another(machine: Machine) -> None:
    machine.lookup.offer("/mnt/disks/vol1")
    reader, writer = a_pod(claim_volume(read_only=True)), a_pod(claim_volume())
    read, written = (await machine.volumes.set_up(reader))["data"], (await machine.volumes.set_up(writer))["data"]
    assert (read.read_only, written.read_only) == (True, False)
    table = await machine.host.mounts.table()
    assert [table.at(one.path).read_only for one in (read, written)] == [True, False]  # type: ignore[union-attr]


@pytest.mark.seed("PLG-8")
async def test_the_name_of_the_volume_is_that_of_the_persistent_volume(machine: Machine) -> None:
    machine.lookup.offer("/mnt/disks/vol1", name="local-pv-4711")
    pod = a_pod(claim_volume("local-pv-4711"), uid="u-1")
    prepared = (await machine.volumes.set_up(pod))["data"]
    assert prepared.path.parts[-5:] == ("pods", "u-1", "volumes", "kubernetes.io~local-volume", "local-pv-4711")


@pytest.mark.seed("PLG-9")
async def test_a_volume_is_told_from_what_is_on_the_disk_when_neither_memory_nor_the_api_knows_it(
    machine: Machine,
) -> None:
    machine.machine.add_disk("/dev/sdb")
    machine.machine.add_disk("/dev/sdc")
    machine.lookup.offer("/mnt/disks/vol1", name="dir")
    machine.lookup.offer("/dev/sdb", name="disk")
    machine.lookup.offer("/dev/sdc", name="raw", mode="Block")
    volumes = [claim_volume(name, name=name) for name in ("dir", "disk", "raw")]
    pod = a_pod(*volumes, devices=["raw"])
    await machine.volumes.set_up(pod)
    assert machine.holding.held_now
    machine.lookup.claims.clear()
    machine.lookup.volumes.clear()

    after = machine.restarted()

    assert await after.leftovers() == {pod.metadata.uid}
    await after.tear_down(pod.metadata.uid)
    assert machine.left() == []
    assert await after.leftovers() == frozenset()


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


async def test_another_device_in_the_place_of_one_that_pods_use_is_refused_before_anything_is_written(
    machine: Machine,
) -> None:
    for name in ("sdb", "sdc"):
        machine.machine.add_disk(f"/dev/{name}")
    machine.machine.link("/mnt/disks/raw", "/dev/sdb")
    machine.lookup.offer("/mnt/disks/raw", mode="Block")
    first, second = (a_pod(claim_volume(), devices=["data"]) for _ in range(2))
    await machine.volumes.set_up(first)
    machine.machine.link("/mnt/disks/raw", "/dev/sdc")

    with pytest.raises(NotReady, match="but pods still use volume pv") as caught:
        await machine.volumes.set_up(second)

    assert (caught.value.reason, caught.value.event) == ("DeviceChanged", "FailedMapVolume")
    assert second.metadata.uid not in await machine.volumes.leftovers()


async def test_a_pod_has_the_devices_to_which_one_of_its_links_leads_and_those_of_no_other_pod(
    machine: Machine,
) -> None:
    """To tear down more would wait for the disks of others, which may hang."""
    for name in ("whole", "first", "second", "others"):
        machine.machine.add_disk(f"/dev/{name}")
        machine.lookup.offer(f"/dev/{name}", name=name, mode="Block")
    own = ("whole", "first", "second")
    pod = a_pod(*(claim_volume(name, name=name) for name in own), devices=own)
    other = a_pod(claim_volume("others", name="others"), devices=["others"])
    await machine.volumes.set_up(pod)
    await machine.volumes.set_up(other)
    layout, uid = machine.volumes.layout, pod.metadata.uid
    (layout.devices(uid) / "first").unlink()
    (layout.global_map("second") / uid).unlink()
    mapper = Mapper(layout=layout, host=machine.host, turns=Turns(), operations=Operations(None, clock=machine.clock))
    assert mapper.mapped(uid) == {*own}
    assert mapper.mapped(other.metadata.uid) == {"others"}
    assert mapper.mapped("nobody") == frozenset()
