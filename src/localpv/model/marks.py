"""The mark of a disk that was given to a tenant: it is there before the tenant can write, and goes with his data."""

from __future__ import annotations

from dataclasses import dataclass, field

from localpv.model.identity import Identity

_OF_THIS_BOOT = {"boot_id", "disk_sequence", "major_minor"}
"""Mismatches that say only that nothing lasting tells a disk from others."""

_SHARED = {"twins"}
"""Those that say that several disks go by the marked one's names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Which volume a disk was given to a pod as."""

    volume: str
    uid: str
    entry: str = ""
    """Of a device: its name in the discovery directory."""

    identity: Identity = field(default_factory=Identity)
    """Of a device: which one it was."""

    def is_of(self, entry: str, now: Identity) -> bool:
        """Whether it is about the device that is at an entry now.

        The device itself, wherever it is by now, or any that may be it by its names; and whatever is at its entry,
        unless that is provably another disk: a doubt must not offer old data.
        """
        found = {one.field for one in self.identity.mismatches(now, contents=False)}
        return found <= (_SHARED | _OF_THIS_BOOT if entry == self.entry else _SHARED)
