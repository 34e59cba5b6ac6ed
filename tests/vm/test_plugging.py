"""Disks that are plugged, pulled and put back, while localpv runs."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.vm import hardware
from tests.vm.bay import Bay
from tests.vm.disks import SLOTS, Bus, Disk
from tests.vm.node import Node

BY_ID = Path("/dev/disk/by-id")


@pytest.mark.seed("DSC-3", "DSC-12")
@pytest.mark.parametrize(
    ("disk", "entry", "medium"),
    [
        (Disk(serial="PLUGGED1", bus=Bus.SCSI), "0QEMU_QEMU_HARDDISK_PLUGGED1", "SSD"),
        (Disk(serial="PLUGGED2", bus=Bus.NVME, slot=SLOTS[0]), "QEMU_NVMe_Ctrl_PLUGGED2_1", "NVMe"),
    ],
    ids=["scsi", "nvme"],
)
def test_plugged_disk_that_a_rule_of_udev_links_is_offered_until_it_is_pulled(
    node: Node, bay: Bay, disk: Disk, entry: str, medium: str
) -> None:
    bay.plug(disk)
    volume = node.volume("ruled", entry)
    assert node.disk("ruled", entry)["status"]["medium"] == medium

    bay.pull(disk)
    node.eventually(lambda: node.volume_is(volume) is None, "the volume that nobody had is taken back")
    node.eventually(lambda: node.find("ruled", entry) is None, "nothing is left of it")


@pytest.mark.seed("DEL-1")
def test_disk_that_comes_back_under_another_name_is_still_known_and_the_one_in_its_place_is_left_alone(
    node: Node, bay: Bay
) -> None:
    ours, other = Disk(serial="MOVING", bus=Bus.SCSI), Disk(serial="OTHER", bus=Bus.SCSI)
    before = bay.plug(ours)
    with node.linked("zero", "moving", BY_ID / "scsi-0QEMU_QEMU_HARDDISK_MOVING"):
        volume = node.volume("zero", "moving")
        node.bind(volume)
        hardware.fill(before)

        bay.pull(ours)
        node.disk("zero", "moving", lambda disk: disk["status"]["phase"] == "Missing")
        assert bay.plug(other) == before
        hardware.fill(before)
        after = bay.plug(ours, blank=False)
        assert after != before
        disk = node.disk("zero", "moving", lambda disk: disk["status"]["eligible"])
        assert disk["spec"]["volume"]["uid"] == volume["metadata"]["uid"]
        assert disk["status"]["identity"]["majorMinor"] != disk["spec"]["identity"]["majorMinor"]

        node.release(volume)
        node.comes_back("zero", "moving", volume)
        assert hardware.is_zero(after)
        assert hardware.old_mib(before) == other.mib


@pytest.mark.seed("CLN-7", "DEL-4")
def test_another_disk_behind_the_same_link_is_never_wiped_and_the_right_one_is_when_it_is_back(
    node: Node, bay: Bay
) -> None:
    ours, other = Disk(serial="RIGHT", bus=Bus.SCSI), Disk(serial="WRONG", bus=Bus.SCSI)
    name = bay.plug(ours)
    with node.linked("zero", "swapped", name):
        volume = node.volume("zero", "swapped")
        node.bind(volume)
        hardware.fill(name)
        bay.pull(ours)
        assert bay.plug(other) == name
        hardware.fill(name)
        node.disk("zero", "swapped", lambda disk: disk["status"]["reason"] == "IdentityChanged")

        node.release(volume)
        disk = node.cleaning("zero", "swapped", "Failed", "IdentityChanged")
        assert "serial was RIGHT, is WRONG" in disk["status"]["cleaning"]["error"]
        assert hardware.old_mib(name) == other.mib
        assert node.volume_is(volume)["status"]["phase"] == "Released"

        bay.pull(other)
        assert bay.plug(ours, blank=False) == name
        node.comes_back("zero", "swapped", volume)
        assert hardware.is_zero(name)


def test_two_paths_to_one_disk_are_never_two_volumes_and_the_second_comes_in_when_the_first_is_lost(
    node: Node, bay: Bay
) -> None:
    first = Disk(serial="LUN", bus=Bus.SCSI, wwn=0x5000C500A0000077, shared=True)
    second = Disk(serial="LUNPATH2", path_to="LUN", bus=Bus.SCSI, wwn=0x5000C500A0000077, shared=True)
    one = bay.plug(first)
    with ExitStack() as undo:
        undo.enter_context(node.linked("zero", "path1", one))
        volume = node.volume("zero", "path1")
        two = bay.plug(second, blank=False)
        undo.enter_context(node.linked("zero", "path2", two))
        node.refused("zero", "path2", "DuplicateDevice")
        hardware.fill(two)
        node.release(volume)
        # The kernel has had the first path all the time, so it is the recorded one. After a restart nobody could tell.
        node.refused("zero", "path1", "SameNames")
        assert hardware.is_zero(two)
        node.refused("zero", "path2", "DuplicateDevice")

        bay.pull(first)
        node.volume("zero", "path2")


@pytest.mark.seed("DEL-4", "DEL-8")
def test_disk_that_is_pulled_while_it_is_cleaned_is_cleaned_when_it_is_back(node: Node, bay: Bay) -> None:
    ours = Disk(serial="PULLED", bus=Bus.SCSI, mib=96)
    name = bay.plug(ours)
    with ExitStack() as undo:
        undo.enter_context(node.linked("shred", "pulled", BY_ID / "scsi-0QEMU_QEMU_HARDDISK_PULLED"))
        volume = node.volume("shred", "pulled")
        hardware.fill(name)
        node.release(volume)
        node.cleaning("shred", "pulled", "Running")
        bay.pull(ours)
        disk = node.cleaning("shred", "pulled", "Failed")
        assert disk["status"]["phase"] == "CleanFailed"
        assert node.volume_is(volume)["status"]["phase"] == "Released"

        name = bay.plug(ours, blank=False)
        node.comes_back("shred", "pulled", volume)
        assert hardware.is_zero(name)
