"""When what was recorded and what is there now cannot be the same disk."""

from __future__ import annotations

from localpv.api.kinds.localdisk import DiskIdentity, DiskKind
from localpv.lifecycle import identity
from localpv.model.identity import Identity, Mismatch


def contradictions(recorded: DiskIdentity, now: Identity, *, kind: DiskKind | None) -> tuple[Mismatch, ...]:
    """What speaks against the disk being the one that was recorded.

    Whoever has a device may make a new file system on it, so there the file system does not count.
    """
    before = identity.read(recorded)
    if kind is not DiskKind.BLOCK_DEVICE and _only_memory(before) and _only_memory(now):
        # A file system without a device (tmpfs, ZFS) has another number after each start, and some change their size
        # with what is in them. Nothing that lasts can be read about it, so nothing can speak against it.
        return ()
    return before.mismatches(now, contents=kind is not DiskKind.BLOCK_DEVICE)


def _only_memory(identity: Identity) -> bool:
    return identity.major_minor.startswith("0:")
