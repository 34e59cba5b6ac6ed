"""Devices that go by the same lasting names: copies of a disk, copied serial numbers, two paths to one disk.

By names alone nobody can tell them apart, so none of them may pass for a disk that was recorded by its names.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from localpv.host.sysfs import Attributes
from localpv.model.identity import Identity

TWINS_SECONDS = 1.0
"""For how long the list of devices is taken as it is: a scan of 200 disks reads it a few times, not 200 times."""


class Twins:
    """Looks through all devices that the kernel has, of the same size."""

    def __init__(self, *, sys: Path, names_of: Callable[[str], Identity | None]) -> None:
        self._sys, self._names_of = sys, names_of
        self._sizes: dict[str, list[str]] = {}
        self._known: dict[str, Identity | None] = {}
        self._read_at = float("-inf")

    def of(self, name: str, identity: Identity) -> tuple[str, ...]:
        """Kernel names of the others."""
        now = time.monotonic()
        if now - self._read_at > TWINS_SECONDS:
            self._sizes, self._known, self._read_at = self._by_size(), {}, now
        size = self._folder(name).text("size")
        others = [other for other in self._sizes.get(size, ()) if other != name]
        # What is stacked on a disk goes by its names with good reason: multipath on its paths.
        return tuple(other for other in others if self._alike(other, identity) and not self._stacked(name, other))

    def _alike(self, other: str, identity: Identity) -> bool:
        if other not in self._known:
            self._known[other] = self._names_of(other)
        found = self._known[other]
        return found is not None and identity.alike(found)

    def _by_size(self) -> dict[str, list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        try:
            names = sorted(os.listdir(self._sys / "class" / "block"))
        except OSError:
            return {}
        for name in names:
            folder = self._folder(name)
            size = folder.text("size")
            if size not in ("", "0") and folder.text("dev"):  # without numbers: a hidden path of an NVMe disk
                found[size].append(name)
        return found

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
        """All devices that one is made of."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            now = waiting.pop()
            for lower in {*self._folder(now).names("slaves"), *self._itself(now)} - found - {name}:
                found.add(lower)
                waiting.append(lower)
        return found
