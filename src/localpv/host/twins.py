"""Devices that go by the same lasting names: copies of a disk, copied serial numbers, two paths to one disk.

By names alone nobody can tell them apart, so none of them may pass for a disk that was recorded by its names.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from localpv.host.model.identity import Identity, Twin
from localpv.host.sysfs import Attributes

TWINS_SECONDS = 1.0
"""For how long the list of devices is taken as it is: a scan of 200 disks reads it a few times, not 200 times."""


class Twins:
    """Looks through all devices that the kernel has, and reads none of them: one that hangs must not hold up others."""

    def __init__(
        self, *, sys: Path, names_of: Callable[[str], Identity | None], below_loop: Callable[[str], str]
    ) -> None:
        self._sys, self._names_of, self._below_loop = sys, names_of, below_loop
        self._by_name: dict[str, list[str]] = {}
        self._read_at = float("-inf")

    def of(self, own: str, identity: Identity) -> tuple[Twin, ...]:
        """The names of a device by which others go as well."""
        if time.monotonic() - self._read_at > TWINS_SECONDS:
            self._by_name = self._read()  # whole, or not at all: others ask at the same time
            self._read_at = time.monotonic()
        names = identity.names(contents=True)
        others = {other for name in names for other in self._by_name.get(name, ()) if other != own}
        found: set[Twin] = set()
        for other in others:
            # What is stacked on a disk goes by its names with good reason: multipath on its paths. Read once more: one
            # that has gone meanwhile must not make the names of this one worthless.
            theirs = None if self._stacked(own, other) else self._names_of(other)
            if theirs is not None and self._is_there(self._folder(other)):
                # Where nothing else tells them apart, no name does: links are made for one of them only.
                shared = names if identity.alike(theirs) else names & theirs.names(contents=True)
                found |= {Twin(name, other) for name in shared}
        return tuple(sorted(found))

    def _read(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for device in self._devices():
            identity = self._names_of(device)
            for name in identity.names(contents=True) if identity is not None else ():
                found.setdefault(name, []).append(device)
        return found

    def _devices(self) -> list[str]:
        try:
            names = sorted(os.listdir(self._sys / "class" / "block"))
        except OSError:
            return []
        return [name for name in names if self._is_there(self._folder(name))]

    def _is_there(self, folder: Attributes) -> bool:
        # Without numbers: a hidden path of an NVMe disk. Without a size: a loop device that has no file.
        return folder.text("size") not in ("", "0") and bool(folder.text("dev"))

    def _folder(self, name: str) -> Attributes:
        return Attributes(Path(os.path.realpath(self._sys / "class" / "block" / name)))

    def _stacked(self, one: str, other: str) -> bool:
        return not self._below(one).isdisjoint(self._itself(other)) or not self._below(other).isdisjoint(
            self._itself(one)
        )

    def _itself(self, name: str) -> set[str]:
        folder = self._folder(name)
        return {name, folder.folder.parent.name} if (folder.folder / "partition").exists() else {name}

    def _below(self, name: str) -> set[str]:
        """All devices that one is made of. The disk that a partition is on is none of them: its other partitions are
        not the same."""
        found: set[str] = set()
        waiting = list(self._itself(name))
        while waiting:
            now = waiting.pop()
            for lower in {*self._folder(now).names("slaves"), self._below_loop(now)} - {""}:
                new = self._itself(lower) - found
                found |= new
                waiting += new
        return found
