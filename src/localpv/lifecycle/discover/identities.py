"""Whether what is there now is the disk that was recorded."""

from __future__ import annotations

from localpv.api.kinds.localdisk import DiskIdentity, DiskKind
from localpv.lifecycle import identity
from localpv.model.identity import Identity, Mismatch


def contradictions(recorded: DiskIdentity, now: Identity, *, kind: DiskKind | None) -> tuple[Mismatch, ...]:
    """What speaks against the disk being the one that was recorded; also that nothing speaks for it.

    Whoever has a device may make a new file system on it, so there the file system does not count.
    """
    return identity.read(recorded).mismatches(now, contents=kind is not DiskKind.BLOCK_DEVICE)
