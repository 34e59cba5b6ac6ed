"""The rules that we generate do what is meant in the real udev: devices are loops, and their serial numbers made up."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.private_udev import private_udev as private_udev

from localpv.agent.udev import rules_file
from localpv.api.kinds.localstorage import LocalStorage
from localpv.config import local_storage
from localpv.config.local_storage import NodeConfiguration
from localpv.host import loop
from localpv.host.udev import HostUdev, UdevDevice
from localpv.host.workers import Workers

SETTLE_SECONDS = 60.0
LINKS = Path("/dev") / local_storage.LINKS


class Machine:
    """The real udev with our rules, and what other rules say about serial numbers."""

    def __init__(self, rules: Path) -> None:
        self.udev = HostUdev(rules=rules, workers=Workers())
        self._rules = rules

    def known(self, **properties: dict[str, str]) -> None:
        """Properties of devices by their kernel names, as the rules before ours would set them."""
        lines = [
            f'KERNEL=="{device}", ENV{{{name}}}="{value}"'
            for device, each in properties.items()
            for name, value in each.items()
        ]
        (self._rules / "60-known.rules").write_text("\n".join(lines) + "\n")

    async def in_force(self, *configurations: NodeConfiguration, on: list[Path]) -> None:
        for name in await self.udev.files(rules_file.PREFIX):
            await self.udev.remove(name)
        for name, text in rules_file.files(configurations, namespace="default").items():
            await self.udev.write(name, text)
        await self.udev.reload()
        await self.look(*on)

    async def look(self, *disks: Path) -> None:
        await self.udev.trigger([disk.name for disk in disks])
        assert await self.udev.settle(seconds=SETTLE_SECONDS)

    async def restarted(self) -> None:
        """As after a restart of the machine: udev knows nothing, and has made no links."""
        for folder in (Path("/run/udev/data"), Path("/run/udev/links"), LINKS):
            shutil.rmtree(folder, ignore_errors=True)

    async def device(self, disk: Path) -> UdevDevice:
        return next(each for each in await self.udev.devices() if each.name == disk.name)


@pytest.fixture
def machine(private_udev: Path) -> Machine:
    return Machine(private_udev)


def configured(devices: list[dict[str, Any]], *, name: str = "local", created: int = 1) -> NodeConfiguration:
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1}
    storage = msgspec.convert(
        {
            "metadata": {**meta, "creationTimestamp": f"2026-01-01T00:00:{created:02}Z"},
            "spec": {"nodes": [{"devices": devices}]},
        },
        LocalStorage,
    )
    assert local_storage.problems(storage) == ()
    return local_storage.node_configuration(storage, local_storage.groups(storage))


def links() -> dict[str, str]:
    """All links below our folder, each with the kernel name of its device."""
    return {str(link.relative_to(LINKS)): link.resolve().name for link in LINKS.rglob("*") if link.is_symlink()}


@pytest.mark.seed("OPR-6")
async def test_links_are_named_by_bus_and_serial_number_or_else_by_the_kernel_name(
    machine: Machine, make_disk: Callable[..., Path]
) -> None:
    one, two, three = make_disk(), make_disk(), make_disk()
    machine.known(
        **{
            one.name: {"ID_BUS": "scsi", "ID_SERIAL": "0QEMU_QEMU_HARDDISK_HDD1"},
            two.name: {"ID_SERIAL": "no-bus"},
            three.name: {"ID_BUS": "ata", "ID_SERIAL": "two words/and;more"},
        }
    )
    given = configured(
        [
            {"storageClassName": "fast", "volumeMode": "Block", "udevRules": [f'KERNEL=="{one.name}"']},
            {"storageClassName": "slow", "deviceNames": [two.name, three.name]},
        ]
    )
    await machine.in_force(given, on=[one, two, three])
    assert links() == {
        "fast/block/scsi-0QEMU_QEMU_HARDDISK_HDD1": one.name,
        f"slow/filesystem/{two.name}": two.name,
        "slow/filesystem/ata-two_words_and_more": three.name,
    }
    found = rules_file.found(given, (await machine.device(three)).properties)
    assert found == rules_file.Found(
        storage_class_name="slow",
        mode="filesystem",
        rule="nodes[0].devices[1].deviceNames[1]",
        link=f"{local_storage.LINKS}/slow/filesystem/ata-two_words_and_more",
    )
    assert rules_file.marks_of((await machine.device(one)).properties) == rules_file.marks([given])


@pytest.mark.seed("OPR-6")
async def test_the_first_rule_that_matches_counts_and_links_go_when_no_rule_matches(
    machine: Machine, make_disk: Callable[..., Path]
) -> None:
    disk = make_disk()
    by_name = {"storageClassName": "first", "deviceNames": [disk.name]}
    by_size = {"storageClassName": "second", "udevRules": [f'KERNEL=="{disk.name}", ATTR{{size}}!="1"']}
    await machine.in_force(configured([by_name, by_size]), on=[disk])
    assert list(links()) == [f"first/filesystem/{disk.name}"]
    await machine.in_force(configured([by_size, by_name]), on=[disk])
    assert list(links()) == [f"second/filesystem/{disk.name}"]
    none = configured([{**by_name, "excludeDeviceNames": [disk.name]}])
    await machine.in_force(none, on=[disk])
    assert links() == {}
    assert rules_file.found(none, (await machine.device(disk)).properties).reason == "NoRuleMatches"


@pytest.mark.seed("OPR-16")
async def test_of_two_local_storages_that_match_one_device_the_older_has_it_and_the_other_says_so(
    machine: Machine, make_disk: Callable[..., Path]
) -> None:
    disk = make_disk()
    # By the names of the files the younger one would come first.
    older = configured([{"storageClassName": "old", "deviceNames": [disk.name]}], name="z", created=1)
    younger = configured([{"storageClassName": "new", "deviceNames": [disk.name]}], name="a", created=2)
    await machine.in_force(older, younger, on=[disk])
    assert list(links()) == [f"old/filesystem/{disk.name}"]
    properties = (await machine.device(disk)).properties
    assert rules_file.found(older, properties).storage_class_name == "old"
    told = rules_file.found(younger, properties)
    assert (told.reason, told.message) == (
        "TakenByOther",
        "LocalStorage default/z, which is older, matches the device too",
    )

    await machine.in_force(younger, on=[disk])
    assert list(links()) == [f"new/filesystem/{disk.name}"]


async def test_a_second_device_with_the_same_serial_number_gets_a_name_of_its_own_and_takes_none_away(
    machine: Machine, make_disk: Callable[..., Path]
) -> None:
    one, two = make_disk(), make_disk()
    same = {"ID_BUS": "scsi", "ID_SERIAL": "SAME"}
    machine.known(**{one.name: same, two.name: {**same, "ID_PATH": "pci-0000:00:04.0-scsi-0:0:1:0"}})
    given = configured([{"storageClassName": "fast", "deviceNames": [one.name, two.name]}])
    await machine.in_force(given, on=[one])
    await machine.look(two)
    both = {
        "fast/filesystem/scsi-SAME": one.name,
        "fast/filesystem/scsi-SAME-pci-0000:00:04.0-scsi-0:0:1:0": two.name,
    }
    assert links() == both
    for _ in range(3):
        await machine.look(two)
        await machine.look(one)
        await machine.look(one, two)
        assert links() == both


async def test_who_has_a_name_that_two_devices_could_have_keeps_it_over_a_restart(
    machine: Machine, make_disk: Callable[..., Path]
) -> None:
    one, two = make_disk(), make_disk()
    same = {"ID_BUS": "scsi", "ID_SERIAL": "SAME"}
    machine.known(**{one.name: {**same, "ID_PATH": "pci-0:1"}, two.name: {**same, "ID_PATH": "pci-0:2"}})
    given = configured([{"storageClassName": "fast", "deviceNames": [one.name, two.name]}])
    await machine.in_force(given, on=[one])
    await machine.look(two)
    both = {"fast/filesystem/scsi-SAME": one.name, "fast/filesystem/scsi-SAME-pci-0:2": two.name}
    assert links() == both
    known = [device.properties for device in await machine.udev.devices()]
    pinned = rules_file.with_pins({given.key: given}, known)[given.key]
    assert pinned.pinned == {"fast/filesystem/scsi-SAME": "pci-0:1"}
    assert rules_file.with_pins({pinned.key: pinned}, known) == {pinned.key: pinned}

    await machine.in_force(pinned, on=[])
    for first, second in ((two, one), (one, two)):
        await machine.restarted()
        await machine.look(first)
        await machine.look(second)
        assert links() == both
    await machine.restarted()
    await machine.look(one, two)
    assert links() == both


async def test_two_that_udev_has_named_alike_at_once_are_told_apart(
    machine: Machine, make_disk: Callable[..., Path]
) -> None:
    one, two = make_disk(), make_disk()
    same = {"ID_BUS": "scsi", "ID_SERIAL": "SAME"}
    machine.known(**{one.name: same, two.name: same})
    given = configured([{"storageClassName": "fast", "deviceNames": [one.name, two.name]}])
    await machine.in_force(given, on=[one])
    await machine.udev.trigger([two.name], argument=rules_file.SAME_SERIAL)
    assert await machine.udev.settle(seconds=SETTLE_SECONDS)
    both = {"fast/filesystem/scsi-SAME": one.name, f"fast/filesystem/scsi-SAME-{two.name}": two.name}
    assert links() == both
    await machine.look(two, one)
    assert links() == both


@pytest.mark.seed("OPR-16")
async def test_partitions_get_links_of_their_own_and_only_where_a_rule_means_them(
    machine: Machine, tmp_path: Path
) -> None:
    image = tmp_path / "disk.img"
    image.write_bytes(bytes(16 << 20))
    efi = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"
    table = f"label: gpt\nsize=4MiB\nsize=4MiB, type={efi}\n".encode()
    await asyncio.to_thread(subprocess.run, ["sfdisk", "-q", image], input=table, check=True)
    with loop.attached(image, partitions=True) as disk:
        # By hand, for not every kernel reads every kind of table; it may have done so already.
        await asyncio.to_thread(subprocess.run, ["partx", "-a", disk], check=False, stderr=subprocess.DEVNULL)
        first, second = (disk.with_name(f"{disk.name}p{number}") for number in (1, 2))
        serial = {"ID_BUS": "scsi", "ID_SERIAL": "X"}
        machine.known(**{disk.name: serial, first.name: serial, second.name: {**serial, "ID_PART_ENTRY_TYPE": efi}})
        every = [disk, first, second]
        named = configured([{"storageClassName": "fast", "deviceNames": [f"{disk.name}*"]}])
        await machine.in_force(named, on=every)
        assert links() == {"fast/filesystem/scsi-X": disk.name, "fast/filesystem/scsi-X-part1": first.name}
        assert rules_file.found(named, (await machine.device(second)).properties).reason == "BootDevice"

        by_type = f'KERNEL=="{disk.name}*", ENV{{DEVTYPE}}=="partition"'
        await machine.in_force(configured([{"storageClassName": "fast", "udevRules": [by_type]}]), on=every)
        assert list(links()) == ["fast/filesystem/scsi-X-part1"]
        await machine.in_force(on=every)
        assert links() == {}


async def test_of_a_retired_group_only_links_in_use_stay(machine: Machine, make_disk: Callable[..., Path]) -> None:
    one, two = make_disk(), make_disk()
    given = configured([{"storageClassName": "fast", "deviceNames": [one.name, two.name]}])
    await machine.in_force(given, on=[one, two])
    assert len(links()) == 2
    [(group_id, group)] = given.groups.items()
    kept = f"fast/filesystem/{two.name}"
    retired = msgspec.structs.replace(group, retired=True, kept=(kept,))
    going = msgspec.structs.replace(given, groups={group_id: retired})
    await machine.in_force(going, on=[one, two])
    assert links() == {kept: two.name}
    assert rules_file.found(going, (await machine.device(one)).properties).reason == "Retired"
    rule = rules_file.found(going, (await machine.device(two)).properties).rule
    assert rule == f"nodes[0:{group_id}].devices[0].deviceNames[1]"


@pytest.mark.seed("OPR-17")
async def test_a_link_in_use_stays_where_it_is_when_its_group_has_another_class(
    machine: Machine, make_disk: Callable[..., Path]
) -> None:
    one, two = make_disk(), make_disk()
    names = [one.name, two.name]
    machine.known(**{one.name: {"ID_BUS": "scsi", "ID_SERIAL": "1"}, two.name: {"ID_BUS": "scsi", "ID_SERIAL": "2"}})
    given = configured([{"storageClassName": "fast", "deviceNames": names}])
    await machine.in_force(given, on=[one, two])
    [(group_id, group)] = given.groups.items()
    kept = msgspec.structs.replace(group, retired=True, kept=("fast/filesystem/scsi-2",))
    other = configured([{"storageClassName": "other", "deviceNames": names}]).groups[group_id]
    earlier = local_storage.earlier_id(group_id, group)
    edited = msgspec.structs.replace(given, groups={group_id: other, earlier: kept})
    for _ in range(2):
        await machine.in_force(edited, on=[one, two])
        assert links() == {"other/filesystem/scsi-1": one.name, "fast/filesystem/scsi-2": two.name}

    # Where the rules of now give the link too, they are the ones that count.
    back = msgspec.structs.replace(given, groups={group_id: group, earlier: kept})
    await machine.in_force(back, on=[one, two])
    assert links() == {"fast/filesystem/scsi-1": one.name, "fast/filesystem/scsi-2": two.name}
    assert rules_file.found(back, (await machine.device(two)).properties).rule == "nodes[0].devices[0].deviceNames[1]"


async def test_network_disks_are_left_alone_unless_they_are_allowed(
    machine: Machine, make_disk: Callable[..., Path]
) -> None:
    disk = make_disk()
    machine.known(**{disk.name: {"ID_PATH": "ip-10.0.0.1:3260-iscsi-iqn.2026-01.com.example-lun-0"}})
    group = {"storageClassName": "fast", "deviceNames": [disk.name]}
    await machine.in_force(configured([group]), on=[disk])
    assert links() == {}
    assert rules_file.found(configured([group]), (await machine.device(disk)).properties).reason == "NetworkDisk"
    await machine.in_force(configured([{**group, "allowNetworkDisks": True}]), on=[disk])
    assert list(links()) == [f"fast/filesystem/{disk.name}"]


async def test_a_device_is_matched_by_its_medium_as_in_the_second_example(
    machine: Machine, make_disk: Callable[..., Path]
) -> None:
    one, two = make_disk(), make_disk()
    for disk, rotational in ((one, "0"), (two, "1")):
        Path(f"/sys/block/{disk.name}/queue/rotational").write_text(rotational)
    both = f'KERNEL=="{one.name}|{two.name}"'
    given = configured(
        [
            {"storageClassName": "local-ssd", "volumeMode": "Block", "udevRules": [
                f'{both}, KERNEL!="sda" , ATTR{{queue/rotational}}=="0"']},
            {"storageClassName": "local-hdd", "volumeMode": "Block", "udevRules": [
                f'{both}, KERNEL!="sda",  ATTR{{queue/rotational}}=="1"']},
        ]
    )  # fmt: skip
    await machine.in_force(given, on=[one, two])
    assert links() == {f"local-ssd/block/{one.name}": one.name, f"local-hdd/block/{two.name}": two.name}
