"""Who has a block device open. An exclusive open does not see those who opened it without claiming it: a pod's process
that still writes, a loop device, what a killed cleaning left running."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from pathlib import Path
from typing import Protocol

from localpv.host.model.devices import DeviceNumber
from localpv.host.workers import Workers

LOOK_SECONDS = 10.0

_AT_FDCWD, _DONT_SYNC, _TYPE = -100, 0x4000, 0x1
_MODE, _RDEV = 28, 128
_libc = ctypes.CDLL(None)


class Openers(Protocol):
    """Processes and kernel devices that have a block device open."""

    async def of(self, device: DeviceNumber) -> tuple[str, ...]:
        """Each of them in a word or two, such as `dd (process 4711)`; this process itself does not count."""


class KernelOpeners:
    """Processes below /proc and loop devices below /sys. Inside a container that has processes of its own, only those
    are seen."""

    def __init__(self, *, workers: Workers, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> None:
        self._workers, self._proc, self._sys = workers, proc, sys

    async def of(self, device: DeviceNumber) -> tuple[str, ...]:
        return await self._workers.call(
            lambda: (*self._loops(device), *self._processes(device)), key=f"openers of {device}", timeout=LOOK_SECONDS
        )

    def _processes(self, device: DeviceNumber) -> list[str]:
        found = []
        for pid in os.listdir(self._proc):
            if pid.isdecimal() and int(pid) != os.getpid() and self._has_open(pid, device):
                try:
                    name = (self._proc / pid / "comm").read_text(errors="replace").strip()
                except OSError:
                    continue  # it has ended
                found.append(f"{name} (process {pid})")
        return found

    def _has_open(self, pid: str, device: DeviceNumber) -> bool:
        folder = f"{self._proc}/{pid}/fd"
        try:
            return any(_block_device(f"{folder}/{fd}") == device for fd in os.listdir(folder))
        except OSError:
            return False

    def _loops(self, device: DeviceNumber) -> list[str]:
        found = []
        for folder in (self._sys / "block").glob("loop*"):
            try:
                backing = (folder / "loop" / "backing_file").read_text().rstrip("\n")
            except OSError:
                continue
            if backing.startswith("/dev/") and _block_device(backing) == device:
                found.append(f"loop device {folder.name}")
        return found


def _block_device(path: str) -> DeviceNumber | None:
    """Numbers of the block device at a path; never asks a server, for a dead one would never answer."""
    answer = ctypes.create_string_buffer(256)
    if _libc.statx(_AT_FDCWD, os.fsencode(path), _DONT_SYNC, _TYPE, answer) != 0:
        return None
    if not stat.S_ISBLK(struct.unpack_from("H", answer, _MODE)[0]):
        return None
    return DeviceNumber(*struct.unpack_from("II", answer, _RDEV))
