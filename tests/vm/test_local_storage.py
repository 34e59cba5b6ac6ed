"""What LocalStorages say about disks of every kind, with the real udev: names, order, twins, partitions, the end."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.journey.crash_server import DISKS
from tests.unit.agent.udev.node_world import OLD, YOUNG, NodeWorld, devices, told
from tests.vm import hardware, udev
from tests.vm.bay import Bay
from tests.vm.disks import SLOTS, Bus, Disk
from tests.vm.node import STORED, Node

from localpv.agent.udev.discoverer import Discoverer
from localpv.api.kinds.localstorage import LOCAL_STORAGES, LocalStorage, MatchedDevice
from localpv.host.udev import HostUdev
from localpv.host.workers import Workers

RULES = Path("/etc/udev/rules.d")
LINKS = Path("/dev/disk/kubernetes-local-storage")
WHOLE = ("sd?", "nvme*n1", "vd?")
SCSI = "scsi-0QEMU_QEMU_HARDDISK_"
NVME = "nvme-QEMU_NVMe_Ctrl_"


class Here:
    """A discoverer over this machine's udev; LocalStorages are in memory."""

    def __init__(self, folder: Path) -> None:
        self.world = NodeWorld(folder)
        self.udev = HostUdev(rules=RULES, workers=Workers())

    def discoverer(self, *storages: LocalStorage) -> Discoverer:
        return self.world.discoverer(*map(told, storages), udev=self.udev)

    def links(self, place: str) -> dict[str, str]:
        """Links of CLASS/MODE with the kernel names that they lead to."""
        folder = LINKS / place
        return {path.name: os.path.basename(os.path.realpath(path)) for path in folder.glob("*")}

    def reported(self, name: str) -> dict[str, MatchedDevice]:
        found = self.world.report(name)
        assert found is not None and not found.status.error
        return {device.device: device for device in found.status.devices}


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Here]:
    made = Here(tmp_path)
    yield made
    made.world.delete_storages()
    for disk in [path for path in made.world.server.objects if path.startswith(DISKS)]:
        made.world.server.remove(disk)
    await made.discoverer().look()
    assert not LINKS.exists() or not any(LINKS.rglob("*"))
    assert not [*RULES.glob("99-kubernetes*")]


@pytest.mark.seed("OPR-6", "OPR-3")
async def test_disks_of_every_kind_are_linked_by_bus_and_serial_number(here: Here) -> None:
    await here.discoverer(here.world.storage("all", devices("all", *WHOLE))).look()

    links = here.links("all/block")
    for entry, serial in (
        (f"{SCSI}SCSIHDD", "SCSIHDD"),
        ("scsi-35000c500a0000001", "SCSISSD"),
        ("ata-QEMU_HARDDISK_SATASSD", "SATASSD"),
        ("ata-QEMU_HARDDISK_SATAHDD", "SATAHDD"),
    ):
        assert links[entry] == hardware.device(serial).name
    for entry, serial in (
        (f"{NVME}NVMEONE_1", "NVMEONE"),
        (f"{NVME}NVMETWO_1", "NVMETWO"),
        ("virtio-VIRTIO1", "VIRTIO1"),
    ):
        assert links[entry] == hardware.device(serial).name, "no ID_BUS, so the name that it has by-id"
    assert len(links) == 8
    reported = here.reported("all")
    assert {device.device for device in reported.values() if device.link} == set(links.values())


@pytest.mark.seed("OPR-13", "OPR-3", "OPR-6")
async def test_the_second_example_of_the_document_tells_ssds_from_hdds(here: Here) -> None:
    ssd = devices("local-ssd", rules=('KERNEL!="sda" , ATTR{queue/rotational}=="0"',))
    hdd = devices("local-hdd", rules=('KERNEL!="sda",  ATTR{queue/rotational}=="1"',))
    await here.discoverer(here.world.storage("local", ssd, hdd)).look()

    for storage_class, wanted in (("local-ssd", "0"), ("local-hdd", "1")):
        names = {*here.links(f"{storage_class}/block").values()}
        assert names
        assert {hardware.attribute(Path("/dev") / name, "queue/rotational") for name in names} == {wanted}
        assert "sda" not in names
        assert not [name for name in names if name.startswith("loop")], "nobody named loop devices"


@pytest.mark.seed("OPR-7")
@pytest.mark.parametrize(
    ("disk", "entry"),
    [
        (Disk(serial="LATER1", bus=Bus.SCSI), f"{SCSI}LATER1"),
        (Disk(serial="LATER2", bus=Bus.NVME, slot=SLOTS[0]), f"{NVME}LATER2_1"),
    ],
    ids=["scsi", "nvme"],
)
async def test_a_disk_that_is_plugged_later_is_linked_until_it_is_pulled(
    here: Here, bay: Bay, disk: Disk, entry: str
) -> None:
    discoverer = here.discoverer(here.world.storage("all", devices("all", *WHOLE)))
    await discoverer.look()
    before = here.links("all/block")

    name = bay.plug(disk).name
    hardware.settle()
    assert here.links("all/block") == before | {entry: name}
    await discoverer.look()
    assert here.reported("all")[name].link.endswith(entry)

    bay.pull(disk)
    hardware.settle()
    assert here.links("all/block") == before
    await discoverer.look()
    assert name not in here.reported("all")


@pytest.mark.seed("OPR-6")
async def test_links_follow_the_disks_when_these_swap_their_names_also_over_a_restart(here: Here, bay: Bay) -> None:
    first, second = Disk(serial="SWAP1", bus=Bus.SCSI), Disk(serial="SWAP2", bus=Bus.SCSI)
    one, two = bay.plug(first).name, bay.plug(second).name
    rule = f'ENV{{ID_SERIAL}}=="*SWAP?", KERNEL=="{one}|{two}"'
    discoverer = here.discoverer(here.world.storage("swap", devices("swap", rules=(rule,))))
    await discoverer.look()
    assert here.links("swap/block") == {f"{SCSI}SWAP1": one, f"{SCSI}SWAP2": two}

    for disk in (first, second):
        bay.pull(disk)
    hardware.settle()
    assert here.links("swap/block") == {}
    for disk in (second, first):
        bay.plug(disk, blank=False)
    hardware.settle()
    swapped = {f"{SCSI}SWAP2": one, f"{SCSI}SWAP1": two}
    assert here.links("swap/block") == swapped

    udev.restart()
    assert here.links("swap/block") == swapped
    await discoverer.look()
    assert here.reported("swap")[one].link.endswith("SWAP2")


@pytest.mark.seed("OPR-6")
async def test_two_disks_with_one_serial_number_have_a_link_each(here: Here, bay: Bay) -> None:
    first, second = (Disk(serial=f"TWIN{number}", shown="TWIN", bus=Bus.SCSI) for number in (1, 2))
    discoverer = here.discoverer(here.world.storage("twins", devices("twins", rules=('ENV{ID_SERIAL}=="*TWIN"',))))
    await discoverer.look()
    one = bay.plug(first).name
    hardware.settle()
    two = bay.plug(second).name
    hardware.settle()

    both = here.links("twins/block")
    assert both[f"{SCSI}TWIN"] == one, "who was first keeps the name"
    assert {*both.values()} == {one, two}
    await here.udev.trigger([two, one])
    await here.udev.settle(seconds=300)
    assert here.links("twins/block") == both, "whoever was looked at last"
    await discoverer.look()
    assert {here.reported("twins")[name].link.rpartition("/")[2] for name in (one, two)} == {*both}
    udev.restart()
    assert here.links("twins/block") == both, "also when both come at once and nothing is known of before"

    bay.pull(first)
    hardware.settle()
    (left,) = here.links("twins/block").items()
    assert left in both.items(), "the other one does not take over a name that was somebody else's"


@pytest.mark.seed("OPR-16")
async def test_partitions_have_links_beside_that_of_their_disk(here: Here, blank_disk: Callable[[str], Path]) -> None:
    scsi, nvme = blank_disk("SCSIHDD"), blank_disk("NVMEONE")
    for disk in (scsi, nvme):
        hardware.partition(disk, 2)
    try:
        names = (f"{scsi.name}*", f"{nvme.name}*")
        await here.discoverer(here.world.storage("parts", devices("parts", *names))).look()

        assert here.links("parts/block") == {
            f"{SCSI}SCSIHDD": scsi.name,
            f"{SCSI}SCSIHDD-part1": hardware.part(scsi, 1).name,
            f"{SCSI}SCSIHDD-part2": hardware.part(scsi, 2).name,
            f"{NVME}NVMEONE_1": nvme.name,
            f"{NVME}NVMEONE_1-part1": hardware.part(nvme, 1).name,
            f"{NVME}NVMEONE_1-part2": hardware.part(nvme, 2).name,
        }
    finally:
        for disk in (scsi, nvme):
            hardware.blank(disk)


@pytest.mark.seed("OPR-16")
async def test_the_older_of_two_local_storages_has_the_device(here: Here) -> None:
    young = here.discoverer(here.world.storage("young", devices("slow", "sdb", "sdc"), created=YOUNG))
    await young.look()
    await here.discoverer(here.world.storage("old", devices("fast", "sdb"), created=OLD)).look()

    assert [*here.links("fast/block").values()] == ["sdb"]
    assert [*here.links("slow/block").values()] == ["sdc"]
    await young.look()
    assert here.reported("young")["sdb"].reason == "TakenByOther"


@pytest.mark.seed("OPR-8", "OPR-17")
async def test_a_removal_takes_links_and_file_and_an_update_takes_nothing(here: Here) -> None:
    discoverer = here.discoverer(here.world.storage("all", devices("all", *WHOLE)))
    await discoverer.look()
    links = here.links("all/block")
    await discoverer.leave()
    assert here.links("all/block") == links
    assert (RULES / "99-kubernetes-local-storage-all.rules").exists()

    here.world.publish(f"all/block/{SCSI}SCSIHDD")
    here.world.delete_storage("all")
    await discoverer.leave()
    assert here.links("all/block") == {f"{SCSI}SCSIHDD": hardware.device("SCSIHDD").name}
    udev.restart()
    assert here.links("all/block") == {f"{SCSI}SCSIHDD": hardware.device("SCSIHDD").name}

    here.world.release(f"all/block/{SCSI}SCSIHDD")
    await here.discoverer(here.world.storage("other", devices("other", "vda"))).look()
    assert here.links("all/block") == {}
    assert [path.name for path in RULES.glob("99-kube*")] == ["99-kubernetes-local-storage-other.rules"]


@pytest.mark.seed("OPR-7", "OPR-9", "OPR-19")
def test_a_disk_becomes_a_volume_and_back_by_a_local_storage_alone(node: Node, bay: Bay) -> None:
    storages = f"{LOCAL_STORAGES.path}/namespaces/default/{LOCAL_STORAGES.plural}"
    rule = 'ENV{ID_SERIAL}=="*STORED?", ENV{DEVTYPE}=="disk"'
    group = {"storageClassName": STORED, "volumeMode": "Block", "udevRules": [rule]}
    head = {"apiVersion": LOCAL_STORAGES.api_version, "kind": LOCAL_STORAGES.kind, "metadata": {"name": "vm"}}
    wanted, used = Disk(serial="STORED1", bus=Bus.SCSI), Disk(serial="STORED2", bus=Bus.SCSI)
    node.api.post(storages, head | {"spec": {"nodes": [{"devices": [group]}]}})
    try:
        hardware.partition(bay.plug(used))
        node.refused(STORED, f"{SCSI}STORED2", "Partitioned")
        bay.plug(wanted)
        volume = node.volume(STORED, f"{SCSI}STORED1")
        assert volume["spec"]["local"]["path"] == str(node.place(STORED) / f"{SCSI}STORED1")
        disk = node.disk(STORED, f"{SCSI}STORED1")
        assert disk["status"]["matchedBy"] == "default/vm nodes[0].devices[0].udevRules[0]"

        bay.pull(wanted)
        node.eventually(lambda: node.volume_is(volume) is None, "the volume that nobody had is taken back")
        bay.plug(wanted, blank=False)
        volume = node.volume(STORED, f"{SCSI}STORED1", not_uid=volume["metadata"]["uid"])
    finally:
        node.api.send("DELETE", f"{storages}/vm")
    node.eventually(lambda: node.volume_is(volume) is None, "the volume goes with the LocalStorage")
    node.eventually(lambda: node.api.send("GET", f"{storages}/vm").code == 404, "the LocalStorage goes")
    node.eventually(lambda: not [*RULES.glob("99-kubernetes*")], "its rules go")
