"""Disks that a test plugs into the virtual machine and pulls again."""

from __future__ import annotations

from pathlib import Path

from tests.vm import hardware
from tests.vm.disks import Disk
from tests.vm.node import Node
from tests.vm.qmp import Emulator


class Bay:
    """Disks that a test has plugged; they are pulled at the end."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self.plugged: list[Disk] = []

    def plug(self, disk: Disk, *, blank: bool = True) -> Path:
        """Plug a disk, or another path to one, and return the name that the kernel gave it."""
        before = self._seen(disk)
        self._emulator.plug(disk, blank=blank)
        self.plugged.append(disk)
        (new,) = Node.eventually(lambda: self._seen(disk) - before, f"{disk.serial} is seen")
        return new

    def pull(self, disk: Disk) -> None:
        before = self._seen(disk)
        self._emulator.pull(disk)
        self.plugged.remove(disk)
        Node.eventually(lambda: self._seen(disk) < before, f"{disk.serial} is gone")

    def _seen(self, disk: Disk) -> set[Path]:
        return {*hardware.find_all(disk.number)}
