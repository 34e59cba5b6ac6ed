"""The rules that we generate do what is meant in the real udev: devices are loops, and their serial numbers made up."""

from __future__ import annotations

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
    assert rules_file.found(none, (await machine.device(disk)).properties).reason == "NotMatched"


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
    assert (told.reason, told.message) == ("Taken", "LocalStorage default/z, which is older, matches the device too")

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
