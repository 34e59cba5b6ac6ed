"""Disks that fail, hang or are slow delay nobody else, say so, and go on when they are mended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.vm import hardware
from tests.vm.hardware import run
from tests.vm.node import Node

BlankDisk = Callable[[str], Path]
NAME = "localpv-fault"


class Faulty:
    """A device in front of a disk, which can be made to fail, to hang and to be slow."""

    path = Path("/dev/mapper") / NAME

    def __init__(self, disk: Path) -> None:
        self._number = hardware.attribute(disk, "dev")
        self._sectors = int(hardware.attribute(disk, "size"))
        run("dmsetup", "create", NAME, "--uuid", f"test-{NAME}", "--table", self._sound())

    def _sound(self) -> str:
        return f"0 {self._sectors} linear {self._number} 0"

    def _load(self, table: str) -> None:
        run("dmsetup", "suspend", "--noflush", "--nolockfs", NAME)
        run("dmsetup", "load", NAME, "--table", table)
        run("dmsetup", "resume", NAME)

    def fail_in_the_middle(self) -> None:
        half = self._sectors // 2
        rest = self._sectors - half - 8
        self._load(
            f"0 {half} linear {self._number} 0\n{half} 8 error\n{half + 8} {rest} linear {self._number} {half + 8}"
        )

    def delay_writes(self, milliseconds: int) -> None:
        self._load(f"0 {self._sectors} delay {self._number} 0 0 {self._number} 0 {milliseconds}")

    def mend(self) -> None:
        self._load(self._sound())

    def hang(self) -> None:
        hardware.settle()  # or udev hangs with it, and all that waits for udev
        run("dmsetup", "suspend", "--noflush", "--nolockfs", NAME)

    def go_on(self) -> None:
        run("dmsetup", "resume", NAME)

    def remove(self) -> None:
        self.mend()
        run("dmsetup", "remove", "--retry", NAME)


@pytest.fixture
def faulty(blank_disk: BlankDisk) -> Iterator[Faulty]:
    made = Faulty(blank_disk("SCSITWO"))
    yield made
    made.remove()


@contextmanager
def nobody_else_waits(node: Node, blank_disk: BlankDisk) -> Iterator[None]:
    """The block, at the end of which another disk has gone the full circle."""
    device = blank_disk("NVMEONE")
    with node.linked("discard", "well", device):
        volume = node.volume("discard", "well")
        hardware.fill(device)
        node.release(volume)
        node.comes_back("discard", "well", volume)
        assert hardware.is_zero(device)
        yield


@pytest.mark.seed("DEL-4", "DEL-5")
def test_disk_with_a_bad_block_fails_backs_off_and_comes_back_when_it_is_mended(node: Node, faulty: Faulty) -> None:
    with node.linked("zero", "bad", faulty.path):
        volume = node.volume("zero", "bad")
        hardware.fill(faulty.path)
        faulty.fail_in_the_middle()
        node.release(volume)
        first = node.cleaning("zero", "bad", "Failed", "DiskError")["status"]["cleaning"]
        assert first["attempt"] == 1
        assert first["nextAttemptAt"] > first["finishedAt"]
        assert node.volume_is(volume)["status"]["phase"] == "Released"

        faulty.mend()
        node.comes_back("zero", "bad", volume)
        assert node.find("zero", "bad")["status"]["cleaning"]["attempt"] > 1
        assert hardware.is_zero(faulty.path)


def test_new_disk_that_hangs_is_reported_and_offered_when_it_answers(node: Node, faulty: Faulty) -> None:
    faulty.hang()
    try:
        with node.linked("zero", "silent", faulty.path):
            node.refused("zero", "silent", "Hung")
            faulty.go_on()
            node.volume("zero", "silent")
    finally:
        faulty.go_on()


@pytest.mark.seed("DEL-4")
def test_released_disk_that_hangs_is_reported_and_cleaned_when_it_answers(
    node: Node, blank_disk: BlankDisk, faulty: Faulty
) -> None:
    with node.linked("zero", "hung", faulty.path):
        volume = node.volume("zero", "hung")
        hardware.fill(faulty.path)
        faulty.hang()
        try:
            node.release(volume)
            with nobody_else_waits(node, blank_disk):
                node.cleaning("zero", "hung", "Failed", "Hung")
        finally:
            faulty.go_on()
        node.comes_back("zero", "hung", volume)
        assert hardware.is_zero(faulty.path)


@pytest.mark.seed("DEL-5", "DEL-6", "DEL-10")
def test_slow_disk_tells_how_far_it_is_and_delays_nobody(node: Node, blank_disk: BlankDisk, faulty: Faulty) -> None:
    with node.linked("shred", "slow", faulty.path):
        volume = node.volume("shred", "slow")
        hardware.fill(faulty.path)
        faulty.delay_writes(1000)
        node.release(volume)
        disk = node.disk("shred", "slow", lambda disk: disk["status"].get("cleaning", {}).get("bytesDone"))
        assert disk["status"]["cleaning"]["state"] == "Running"
        assert disk["status"]["phase"] == "Cleaning"
        faulty.delay_writes(3_600_000)  # however long the other one takes, this one is not done before
        with nobody_else_waits(node, blank_disk):
            assert node.find("shred", "slow")["status"]["cleaning"]["state"] == "Running"
            assert node.volume_is(volume)["status"]["phase"] == "Released"
        faulty.mend()
        node.comes_back("shred", "slow", volume)
        assert hardware.is_zero(faulty.path)
