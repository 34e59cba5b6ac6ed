"""Who has the better right to a disk, where an entry leads to none."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from localpv.agent.discover import duplicates as rivals
from localpv.agent.discover.entry import Place, Sighting
from localpv.agent.discover.identities import Index
from localpv.agent.discover.inventory import Inventory
from localpv.agent.discover.probe import Facts
from localpv.api.kinds.localdisk import (
    CleanOrder,
    DiskIdentity,
    LocalDisk,
    LocalDiskSpec,
    LocalDiskStatus,
    OfferedVolume,
)
from localpv.api.kinds.meta import ObjectMeta
from localpv.host.folders import Entry, FileKind
from localpv.host.model.devices import BlockDevice, DeviceNumber
from localpv.host.model.identity import Identity
from localpv.host.mounts import Mount
from localpv.testing.fake_host import block_device

ONE, OTHER = Place("fast", "a"), Place("fast", "b")


def a_link(place: Place) -> Sighting:
    entry = Entry(name=place.entry, kind=FileKind.DANGLING_LINK, is_link=True)
    return Sighting(entry=entry, folder=Path("/mnt/disks"))


def test_entry_that_is_gone_has_no_rivals() -> None:
    assert rivals.stronger(ONE, inventory=Inventory(), records={}, index=Index()) == ""


def test_links_that_lead_nowhere_are_no_rivals() -> None:
    inventory = Inventory()
    for place in (ONE, OTHER):
        assert inventory.see(place, a_link(place), since=None)
        inventory.offered.add(place)
    assert list(inventory.with_target("")) == []
    assert rivals.stronger(OTHER, inventory=inventory, records={}, index=Index()) == ""
    for place in (ONE, OTHER):
        inventory.lose(place)
    assert dict(inventory.sightings) == {}


GIB = 1 << 30
SDB, SDC = DeviceNumber(8, 16), DeviceNumber(8, 32)


def a_device(number: DeviceNumber = SDB, **known: Any) -> BlockDevice:
    name = "sdb" if number == SDB else "sdc"
    base = {"path": Path("/dev", name), "kernel_name": name, "number": number, "size_bytes": GIB, "serial": name}
    return block_device(**{**base, **known})


def a_record(place: Place, serial: str = "sdb", *, volume: bool = False, ordered: bool = False, **status: Any) -> Any:
    identity = DiskIdentity(serial=serial, size_bytes=GIB)
    return LocalDisk(
        metadata=ObjectMeta(name=f"node-{place.entry}"),
        spec=LocalDiskSpec(
            node_name="node",
            storage_class_name=place.storage_class,
            entry=place.entry,
            path=f"/mnt/disks/{place.entry}",
            volume_mode="Block",
            volume=OfferedVolume(name=f"pv-{place.entry}", uid="u") if volume else None,
            clean=CleanOrder(volume_name="pv", volume_uid="u") if ordered else None,
            identity=identity if volume else None,
        ),
        status=LocalDiskStatus(**{"kind": "BlockDevice", "identity": identity, **status}),
    )


class Node:
    """Entries of a node, each with what a look has shown, and their records."""

    def __init__(self) -> None:
        self.inventory, self.index, self.records = Inventory(), Index(), dict[Place, LocalDisk]()

    def see(self, place: Place, device: BlockDevice) -> None:
        entry = Entry(name=place.entry, kind=FileKind.BLOCK_DEVICE, is_link=True, device=device.number)
        sighting = Sighting(entry=entry, folder=Path("/mnt/disks"), target=f"device {device.number}")
        self.inventory.see(place, sighting, since=None)
        self.inventory.learn(place, Facts(device=device, identity=device.identity))

    def know(self, place: Place, record: LocalDisk) -> None:
        self.records[place] = record
        self.index.put(place, record)

    def stronger(self, place: Place) -> str:
        return rivals.stronger(place, inventory=self.inventory, records=self.records, index=self.index)

    def rivals(self) -> tuple[str, str]:
        return self.stronger(ONE), self.stronger(OTHER)


IS_ONE, IS_OTHER = "entry a of class fast", "entry b of class fast"


@pytest.mark.parametrize(
    ("one", "other", "wins"),
    [
        ({}, {}, "one"),
        ({}, {"offered": True}, "other"),
        ({"offered": True}, {"offered": True}, "one"),
        ({}, {"eligible": True}, "other"),
        ({"offered": True}, {"volume": True}, "other"),
        ({"eligible": True}, {"volume": True}, "other"),
        ({"offered": True}, {"ordered": True}, "other"),
        ({"volume": True}, {"volume": True}, "one"),
        ({"volume": True}, {"offered": True, "eligible": True}, "one"),
    ],
    ids=str,
)
def test_of_two_links_to_one_disk_only_the_one_with_the_better_right_has_it(
    one: dict[str, bool], other: dict[str, bool], wins: str
) -> None:
    node = Node()
    for place, known in ((ONE, one), (OTHER, other)):
        node.see(place, a_device())
        if known.pop("offered", False):
            node.inventory.offered.add(place)
        node.know(place, a_record(place, **known))
    assert node.rivals() == (("", IS_ONE) if wins == "one" else (IS_OTHER, ""))


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ({"wwn": "0x5"}, {"wwn": "0x5"}, True),
        ({"wwn": "0x5"}, {"wwn": "0x6"}, False),
        ({"wwn": "0x5"}, {"wwn": "0x5", "size_bytes": 2 * GIB}, False),
        ({}, {}, False),
    ],
)
def test_two_paths_to_one_disk_are_rivals(first: dict[str, Any], second: dict[str, Any], same: bool) -> None:
    node = Node()
    node.see(ONE, a_device(SDB, **first))
    node.see(OTHER, a_device(SDC, **second))
    assert node.rivals() == ("", IS_ONE if same else "")


def test_partition_and_the_disk_that_it_is_on_are_rivals() -> None:
    node = Node()
    node.see(ONE, a_device(SDB))
    node.see(OTHER, a_device(SDC, parent="sdb"))
    assert node.rivals() == ("", IS_ONE)
    other = Node()
    other.see(ONE, a_device(SDB))
    other.see(OTHER, a_device(SDC, parent="sdx"))
    assert other.rivals() == ("", "")


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({"volume": True}, "entry b of class fast (volume pv-b)"),
        ({"ordered": True}, "entry b of class fast"),
        ({"eligible": True}, "entry b of class fast"),
        ({}, ""),
        ({"volume": True, "serial": "another"}, ""),
    ],
    ids=str,
)
def test_disk_that_a_lost_entry_had_still_belongs_to_its_volume(record: dict[str, Any], says: str) -> None:
    node = Node()
    node.see(ONE, a_device())
    node.know(OTHER, a_record(OTHER, **record))
    assert node.stronger(ONE) == says


def test_disk_with_the_same_serial_number_in_its_own_place_takes_nothing_from_another() -> None:
    node = Node()
    node.see(ONE, a_device())
    node.see(OTHER, a_device(SDC, serial="sdb"))
    node.know(OTHER, a_record(OTHER, volume=True))
    assert node.stronger(ONE) == ""


def test_own_record_is_no_rival() -> None:
    node = Node()
    node.see(ONE, a_device())
    node.know(ONE, a_record(ONE, volume=True))
    assert node.stronger(ONE) == ""


def test_places_and_facts_of_an_entry_go_with_it() -> None:
    node = Node()
    node.see(ONE, a_device())
    node.see(OTHER, a_device())
    inventory = node.inventory
    assert set(inventory.with_target(f"device {SDB}")) == {ONE, OTHER} == inventory.of_class("fast")
    assert inventory.of_class("slow") == set()
    inventory.lose(ONE)
    assert list(inventory.with_target(f"device {SDB}")) == [OTHER]
    assert ONE not in inventory.sightings and ONE not in inventory.facts
    inventory.learn(ONE, Facts())
    assert ONE not in inventory.facts, "a look that ends when the entry is gone tells nothing"


def test_disk_is_looked_at_once_for_each_doubt() -> None:
    node = Node()
    node.see(ONE, a_device())
    inventory = node.inventory
    assert inventory.take_doubt(ONE) and not inventory.take_doubt(ONE)
    inventory.doubt(ONE)
    assert inventory.take_doubt(ONE) and not inventory.take_doubt(ONE)
    assert not inventory.see(ONE, inventory.sightings[ONE], since=5.0), "nothing new"
    assert not inventory.take_doubt(ONE)
    inventory.doubt(OTHER)
    assert inventory.take_doubt(OTHER), "nothing is known of it"


def test_entry_is_as_old_as_its_first_sight() -> None:
    inventory = Inventory()
    assert inventory.seconds_since(ONE, 7.0) == float("inf")
    inventory.see(ONE, a_link(ONE), since=5.0)
    assert inventory.seconds_since(ONE, 7.0) == 2.0
    changed = dataclasses.replace(a_link(ONE), target="device 8:16")
    assert inventory.see(ONE, changed, since=6.0)
    assert inventory.seconds_since(ONE, 7.0) == 2.0, "another target makes no other entry"
    inventory.lose(ONE)
    inventory.see(ONE, changed, since=6.0)
    assert inventory.seconds_since(ONE, 7.0) == 1.0


def a_mount(root: str = "/") -> Mount:
    return Mount(mount_id=70, device=SDB, root=root, mount_point=Path("/mnt/disks/a"))


MOUNT_POINT, PART = Identity(fs_uuid="u", mount_id=70), Identity(fs_uuid="u", filesystem_id="fs", inode=1, mount_id=70)
OF_FILE = DiskIdentity(fs_uuid="u", filesystem_id="fs", inode=1)
OF_FILE_SYSTEM = DiskIdentity(fs_uuid="u", mount_id=12)


@pytest.mark.parametrize(
    ("recorded", "kind", "mount", "now", "same"),
    [
        (OF_FILE_SYSTEM, "MountPoint", a_mount(), MOUNT_POINT, True),
        (OF_FILE_SYSTEM, "MountPoint", a_mount(), Identity(fs_uuid="v", mount_id=70), False),
        (OF_FILE_SYSTEM, "MountPoint", a_mount("/part"), PART, False),
        (OF_FILE, "Directory", a_mount("/part"), PART, True),
        (OF_FILE, "Directory", None, PART, True),
        (OF_FILE, "Directory", None, dataclasses.replace(PART, inode=2), False),
        (OF_FILE, "Directory", None, dataclasses.replace(PART, filesystem_id="other"), False),
        (OF_FILE, "Directory", a_mount(), MOUNT_POINT, True),
        (OF_FILE_SYSTEM, "BlockDevice", a_mount(), MOUNT_POINT, False),
    ],
)
def test_directory_is_that_of_a_record_by_its_inode_and_a_whole_file_system_by_its_names(
    recorded: DiskIdentity, kind: str, mount: Mount | None, now: Identity, same: bool
) -> None:
    record = a_record(OTHER, kind=kind, identity=recorded)
    entry = Entry(name="a", kind=FileKind.DIRECTORY)
    sighting = Sighting(entry=entry, folder=Path("/mnt/disks"), mount=mount, target="directory")
    assert rivals._is_disk_of(record, sighting, Facts(identity=now)) is same


def test_device_is_that_of_a_record_whatever_is_written_on_it() -> None:
    entry = Entry(name="a", kind=FileKind.BLOCK_DEVICE, device=SDB)
    sighting = Sighting(entry=entry, folder=Path("/mnt/disks"), target="device 8:16")
    written = Facts(identity=Identity(serial="sdb", fs_uuid="new", size_bytes=GIB))
    recorded = a_record(OTHER, identity=DiskIdentity(serial="sdb", fs_uuid="old", size_bytes=GIB))
    assert rivals._is_disk_of(recorded, sighting, written)
    directory = a_record(OTHER, kind="MountPoint", identity=DiskIdentity(serial="sdb", size_bytes=GIB))
    assert not rivals._is_disk_of(directory, sighting, written)
    file = DiskIdentity(filesystem_id="fs", inode=7)
    behind = a_record(OTHER, kind="Directory", identity=file)
    assert not rivals._is_disk_of(behind, sighting, Facts(identity=Identity(filesystem_id="fs", inode=7)))
    unknown = a_record(OTHER, identity=None)
    assert not rivals._is_disk_of(unknown, sighting, written)
    assert not rivals._is_disk_of(recorded, sighting, None)
    assert not rivals._is_disk_of(recorded, sighting, Facts())
