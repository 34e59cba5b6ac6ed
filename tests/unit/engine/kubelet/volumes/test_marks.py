"""A disk is marked before a tenant can write to it, whenever the process dies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.engine.kubelet.volumes.world import Died, Machine, a_pod, claim_volume, dying_hands

from localpv.host.model.identity import Identity

ENTRY = "/mnt/disks/disk"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    found = Machine(tmp_path / "node")
    found.machine.make_folder("/mnt/disks/directory")
    found.machine.add_disk("/dev/sdb")
    found.machine.link(ENTRY, "/dev/sdb")
    return found


def is_given(machine: Machine, uid: str) -> bool:
    """Whether the pod's containers could have the volume by now."""
    layout = machine.volumes.layout
    places = {mount.mount_point for mount in machine.machine.mounted}
    return layout.volume(uid, "kubernetes.io/local-volume", "pv") in places or layout.devices(uid).exists()


async def of_directory(machine: Machine) -> Identity:
    mount = (await machine.host.mounts.table()).containing(Path("/mnt/disks/directory"))
    assert mount is not None
    return replace(await machine.host.devices.behind(mount), mount_id=0)


@pytest.mark.parametrize(
    ("path", "mode"), [("/mnt/disks/directory", "Filesystem"), (ENTRY, "Filesystem"), (ENTRY, "Block")]
)
async def test_no_tenant_has_a_disk_without_its_mark(machine: Machine, path: str, mode: str) -> None:
    device = path == ENTRY
    identity = machine.machine.disks[Path("/dev/sdb")].device.identity if device else await of_directory(machine)
    machine.lookup.offer(path, mode=mode, identity=identity)
    for steps in range(1, 30):
        pod = a_pod(claim_volume(), devices=["data"] if mode == "Block" else [])
        machine.restarted(dying_hands(machine.host, steps))
        try:
            await machine.volumes.set_up(pod)
        except Died:
            given = is_given(machine, pod.metadata.uid)
        else:
            given = True
        if given and device:
            assert [mark.volume for mark in machine.marks.devices[Path("/mnt/disks")]] == ["pv"]
        if given and mode == "Filesystem":
            assert [mark.volume for mark in machine.marks.directories.values()] == ["pv"]
        machine.restarted()
        await machine.volumes.tear_down(pod.metadata.uid)
        machine.marks.directories.clear()
        machine.marks.devices.clear()
    assert given, "it came to its end"


async def test_what_no_record_is_of_and_what_nobody_writes_is_not_marked(machine: Machine) -> None:
    machine.lookup.offer("/mnt/disks/directory")
    await machine.volumes.set_up(a_pod(claim_volume()))
    machine.lookup.offer("/mnt/disks/directory", name="other", identity=await of_directory(machine))
    await machine.volumes.set_up(a_pod(claim_volume("other", read_only=True)))
    assert not machine.marks.directories


async def test_a_file_system_without_room_for_marks_is_told(machine: Machine) -> None:
    machine.marks.without.add(Path("/mnt/disks/directory"))
    machine.lookup.offer("/mnt/disks/directory", identity=await of_directory(machine))
    await machine.volumes.set_up(a_pod(claim_volume()))
    assert [reason for reason, _ in machine.warnings] == ["VolumeNotMarked"]
