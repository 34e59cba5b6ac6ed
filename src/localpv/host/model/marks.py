"""The mark of a disk that was given to a tenant: it is there before the tenant can write, and goes with his data."""

from __future__ import annotations

from dataclasses import dataclass, field

from localpv.host.model.identity import Identity

_OF_THIS_BOOT = {"boot_id", "disk_sequence", "major_minor"}
"""Mismatches that say only that nothing lasting tells a disk from others."""

_SHARED = {"twins"}
"""Those that say that several disks go by the marked one's names."""

_RESIZED = {"size_bytes"}
"""A disk that grew or shrank still has the data."""


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
        found = self._doubts(now)
        if entry != self.entry:
            return found <= _SHARED
        if self.identity.names(contents=False) & now.names(contents=False):
            found -= _RESIZED
        return found <= _SHARED | _OF_THIS_BOOT

    def ends_with(self, entry: str, now: Identity) -> bool:
        """Whether it goes when the device at an entry is clean: not while another device may be the marked one."""
        return self.is_of(entry, now) if entry == self.entry else not self._doubts(now)

    def _doubts(self, now: Identity) -> set[str]:
        return {one.field for one in self.identity.mismatches(now, contents=False)}
