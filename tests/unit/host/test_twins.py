"""Devices of one name: each of them is told of the others, and of none that is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpv.host import identities
from localpv.host.identities import KernelIdentities, Opened, Twins
from localpv.host.model.devices import DeviceNumber
from localpv.host.model.identity import Identity, Twin
from localpv.host.mounts import KernelMounts
from localpv.host.sysfs import Attributes


class Machine:
    """Devices as the kernel lists them, and the names by which they go."""

    def __init__(self, sys: Path) -> None:
        self.sys = sys
        self.names: dict[str, Identity] = {}
        self.loops: dict[str, str] = {}
        self.asked = 0
        self.twins = Twins(sys=sys, names_of=self._names_of, below_loop=lambda name: self.loops.get(name, ""))

    def add(self, name: str, identity: Identity, *, of: str = "", size: str = "2048", number: str = "8:16") -> None:
        folder = self.sys / "devices" / of / name
        folder.mkdir(parents=True)
        (folder / "size").write_text(size)
        if number:
            (folder / "dev").write_text(number)
        if of:
            (folder / "partition").write_text("1")
        (self.sys / "class" / "block").mkdir(parents=True, exist_ok=True)
        (self.sys / "class" / "block" / name).symlink_to(folder)
        self.names[name] = identity

    def stack(self, upper: str, lower: str) -> None:
        slaves = (self.sys / "class" / "block" / upper).resolve() / "slaves"
        slaves.mkdir(exist_ok=True)
        (slaves / lower).mkdir()

    def of(self, name: str) -> list[str]:
        return [twin.device for twin in self.twins.of(name, self.names[name])]

    def _names_of(self, name: str) -> Identity | None:
        self.asked += 1
        return self.names.get(name)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


ONE, OTHER = Identity(serial="ONE"), Identity(serial="OTHER")


def test_two_devices_of_one_serial_number_are_twins(machine: Machine) -> None:
    for name, identity in (("sda", ONE), ("sdb", ONE), ("sdc", OTHER)):
        machine.add(name, identity)
    assert (machine.of("sda"), machine.of("sdb"), machine.of("sdc")) == (["sdb"], ["sda"], [])
    assert machine.twins.of("sda", ONE) == (Twin("serial ONE", "sdb"),)


def test_what_is_made_of_a_device_is_no_twin_of_it(machine: Machine) -> None:
    for name in ("sda", "dm-0", "loop0"):
        machine.add(name, ONE)
    machine.stack("dm-0", "sda")
    machine.loops["loop0"] = "dm-0"
    assert [machine.of(name) for name in ("sda", "dm-0", "loop0")] == [[], [], []]


def test_what_is_made_of_a_partition_is_no_twin_of_its_disk_and_the_next_partition_is(machine: Machine) -> None:
    machine.add("sda", ONE)
    machine.add("sda1", OTHER, of="sda")
    machine.add("dm-0", ONE)
    machine.add("sda2", OTHER, of="sda")
    machine.stack("dm-0", "sda1")
    assert (machine.of("sda"), machine.of("dm-0")) == ([], [])
    assert machine.of("sda1") == ["sda2"]


@pytest.mark.parametrize("gone", [{"size": "0"}, {"size": ""}, {"number": ""}])
def test_device_without_a_size_or_numbers_counts_for_nothing(machine: Machine, gone: dict[str, str]) -> None:
    machine.add("sda", ONE)
    machine.add("sdb", ONE, **gone)
    assert machine.of("sda") == []


def test_device_that_has_gone_since_the_list_was_read_is_no_twin(machine: Machine) -> None:
    machine.add("sda", ONE)
    machine.add("sdb", ONE)
    assert machine.of("sda") == ["sdb"]
    del machine.names["sdb"]
    assert machine.of("sda") == []
    machine.names["sdb"] = ONE
    (machine.sys / "devices" / "sdb" / "size").write_text("0")
    assert machine.of("sda") == []


def test_list_is_read_again_only_after_a_while(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(identities.time, "monotonic", lambda: now[0])
    machine.add("sda", ONE)
    assert machine.of("sda") == []
    machine.add("sdb", ONE)
    now[0] += identities.TWINS_SECONDS
    assert machine.of("sda") == [], "what was read is good for a second"
    now[0] += 0.1
    assert machine.of("sda") == ["sdb"]


def test_links_below_by_id_name_the_device_that_they_lead_to(tmp_path: Path) -> None:
    dev, sys = tmp_path / "dev", tmp_path / "sys"
    (dev / "disk" / "by-id").mkdir(parents=True)
    for name, target in (("wwn-0x1", "sda"), ("scsi-S1", "sda"), ("wwn-0x2", "sdb")):
        (dev / "disk" / "by-id" / name).symlink_to(dev / target)
    folder = sys / "devices" / "sda"
    folder.mkdir(parents=True)
    identities = KernelIdentities(dev=dev, sys=sys, proc=tmp_path / "proc", run=tmp_path / "run", mounts=KernelMounts())
    own = Attributes(folder)
    found = identities.of(DeviceNumber(8, 0), own, own, Opened(size_bytes=1 << 20))
    assert found.by_id == ("scsi-S1", "wwn-0x1")
