"""What is mounted where, read from the kernel's own table, and told when it changes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import select
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Protocol

from localpv.host.feeds import Feed
from localpv.host.model.devices import DeviceNumber

_ESCAPE = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One line of /proc/self/mountinfo."""

    mount_id: int
    device: DeviceNumber
    root: str
    """Which directory of the file system is seen at the mount point; not / for a bind mount of a part."""

    mount_point: Path
    options: tuple[str, ...] = ()
    fs_type: str = ""
    source: str = ""
    super_options: tuple[str, ...] = ()

    @property
    def device_node(self) -> str:
        """Path below /dev of the device that is bind-mounted as such, as kubelet maps raw volumes; else empty."""
        return self.root.removeprefix("/") if self.fs_type == "devtmpfs" else ""

    @property
    def read_only(self) -> bool:
        return "ro" in self.options or "ro" in self.super_options


@dataclass(frozen=True, slots=True)
class MountTable:
    """All mounts, in the order in which the kernel lists them."""

    mounts: tuple[Mount, ...] = ()

    def __iter__(self) -> Iterator[Mount]:
        return iter(self.mounts)

    def at(self, path: PurePath) -> Mount | None:
        """The mount that is seen at exactly this path: the last one, where several are stacked."""
        return next((mount for mount in reversed(self.mounts) if mount.mount_point == path), None)

    def is_mount_point(self, path: PurePath) -> bool:
        return self.at(path) is not None

    def containing(self, path: PurePath) -> Mount | None:
        """The mount that a file at this path lies in."""
        parts = path.parts
        last = {mount.mount_point.parts: mount for mount in self.mounts}
        return next((last[part] for size in range(len(parts), 0, -1) if (part := parts[:size]) in last), None)

    def below(self, path: PurePath) -> tuple[Mount, ...]:
        """Mounts strictly below this path."""
        return tuple(mount for mount in self.at_or_below(path) if mount.mount_point != path)

    def at_or_below(self, path: PurePath) -> tuple[Mount, ...]:
        own = path.parts
        size = len(own)
        # Not by `parents`, which are made anew for each of the mounts: a busy machine has thousands.
        return tuple(mount for mount in self.mounts if mount.mount_point.parts[:size] == own)

    def of(self, device: DeviceNumber) -> tuple[Mount, ...]:
        """Every place where this device is mounted."""
        return tuple(mount for mount in self.mounts if mount.device == device)


class Mounts(Protocol):
    """The mount table."""

    async def table(self) -> MountTable:
        """The mounts that this process sees."""

    async def everywhere(self, device: DeviceNumber) -> tuple[Mount, ...]:
        """Every mount of a device, also those that only the machine's first process sees."""

    def changes(self) -> Feed[str]:
        """Tells "mounts" whenever something was mounted, moved or unmounted."""


class KernelMounts:
    """The mount tables below /proc."""

    def __init__(self, *, proc: Path = Path("/proc")) -> None:
        self._own = proc / "self" / "mountinfo"
        self._first = proc / "1" / "mountinfo"

    async def table(self) -> MountTable:
        return parse(self._own.read_bytes())

    async def everywhere(self, device: DeviceNumber) -> tuple[Mount, ...]:
        return self.everywhere_now(device)

    def everywhere_now(self, device: DeviceNumber, *, node: str = "") -> tuple[Mount, ...]:
        """As `everywhere`, for callers that run in a worker thread; with `node` also the bind mounts of that node of
        /dev, by which a raw device is given to pods."""

        def of(table: MountTable) -> dict[int, Mount]:
            return {
                mount.mount_id: mount
                for mount in table
                if mount.device == device or (node and mount.device_node == node)
            }

        found = of(parse(self._own.read_bytes()))
        # Inside a container our own table does not show what the host has mounted. Where that is not ours to read:
        # a device that is mounted there still does not open exclusively.
        with contextlib.suppress(OSError):
            found |= of(parse(self._first.read_bytes()))
        return tuple(found.values())

    def changes(self) -> Feed[str]:
        table = os.open(self._own, os.O_RDONLY | os.O_CLOEXEC)
        # The table is always "readable"; only priority and error events mean a change, and event loops cannot wait
        # for those. An epoll set inside the loop's own can.
        waiting = select.epoll()
        waiting.register(table, select.EPOLLPRI | select.EPOLLERR)
        loop = asyncio.get_running_loop()

        def close() -> None:
            loop.remove_reader(waiting.fileno())
            waiting.close()
            os.close(table)

        feed = Feed(overflow="mounts", on_close=close)

        def changed() -> None:
            waiting.poll(0)
            feed.put("mounts")

        loop.add_reader(waiting.fileno(), changed)
        return feed


def parse(text: bytes) -> MountTable:
    """The table in a mountinfo file. A line that makes no sense is an error: a mount not seen is data lost."""
    return MountTable(tuple(_line(line) for line in text.split(b"\n") if line))


@lru_cache(maxsize=2048)  # the table is read at every change of it, and nearly all lines are those of the last time
def _line(line: bytes) -> Mount:
    # Optional fields, any number of them, end at a lone dash; before them are exactly six, after them at most three.
    fields = line.split(b" ")
    try:
        dash = fields.index(b"-", 6)
        fs_type, source, *rest = fields[dash + 1 :]
        return Mount(
            mount_id=int(fields[0]),
            device=DeviceNumber.parse(fields[2].decode()),
            root=_unescape(fields[3]),
            mount_point=Path(_unescape(fields[4])),
            options=_options(fields[5]),
            fs_type=_unescape(fs_type),
            source=_unescape(source),
            super_options=_options(rest[0]) if rest else (),
        )
    except (ValueError, IndexError) as error:
        raise ValueError(f"not a line of a mount table: {line!r}") from error


def _options(field: bytes) -> tuple[str, ...]:
    return tuple(_unescape(option) for option in field.split(b","))


def _unescape(field: bytes) -> str:
    return os.fsdecode(_ESCAPE.sub(lambda found: bytes((int(found[1], 8),)), field))
