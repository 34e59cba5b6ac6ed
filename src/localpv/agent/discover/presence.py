"""Rules for every disk, those that volumes have included: is it there, and is it what it was?"""

from __future__ import annotations

from collections.abc import Callable

from localpv.agent.discover import identities
from localpv.agent.discover.candidate import Candidate, Finding
from localpv.api.kinds.localdisk import DiskKind
from localpv.host.folders import FileKind
from localpv.host.model.identity import way_out


def hung(disk: Candidate) -> Finding | None:
    if not disk.facts.hung:
        return None
    return Finding("Hung", f"The disk gives no answer: {disk.facts.trouble}. Look at the kernel log for its errors.")


def other_file(disk: Candidate) -> Finding | None:
    if disk.sighting.entry.kind is not FileKind.OTHER:
        return None
    return Finding(
        "NotADirectoryNorDevice",
        "It is neither a directory nor a block device; move it out of the discovery directory.",
        missing=True,
    )


def dangling_link(disk: Candidate) -> Finding | None:
    entry = disk.sighting.entry
    if entry.kind is not FileKind.DANGLING_LINK:
        return None
    return Finding(
        "DanglingLink",
        f"The link leads to {entry.target}, which is not there, or not for this agent; attach the disk or remove the"
        " link. Links are followed to devices only: bind-mount a directory here.",
        True,
    )


def was_mount_point(disk: Candidate) -> Finding | None:
    record = disk.record
    if record is None or disk.sighting.kind is not DiskKind.DIRECTORY:
        return None
    if record.spec.identity is not None:
        before = record.spec.identity.mount_id > 0
    else:
        before = record.status.kind == DiskKind.MOUNT_POINT
    if not before:
        return None
    return Finding(
        "WasMountPoint",
        "The file system that was mounted here is not mounted any more, and the directory below it is not the same"
        f" volume; mount it again, or, if the directory is meant, delete LocalDisk {record.metadata.name}.",
        missing=True,
    )


def unreadable(disk: Candidate) -> Finding | None:
    if not disk.facts.trouble:
        return None
    return Finding("Unreadable", f"It cannot be looked at: {disk.facts.trouble}.")


def identity_changed(disk: Candidate) -> Finding | None:
    record = disk.record
    if record is None or record.spec.identity is None or not disk.published:
        return None
    was_device = record.status.kind == DiskKind.BLOCK_DEVICE
    if record.status.kind and was_device is not (disk.sighting.kind is DiskKind.BLOCK_DEVICE):
        return _changed(f"it was a {record.status.kind} and is a {disk.sighting.kind}")
    if disk.sighting.kind is DiskKind.MOUNT_POINT and not record.spec.identity.mount_id:
        return _changed("it was a plain directory and something is mounted over it now")
    if disk.facts.identity is None:
        return None
    found = identities.contradictions(record.spec.identity, disk.facts.identity, kind=disk.sighting.kind)
    if any(one.of_earlier_version for one in found):
        return Finding(
            "IdentityChanged",
            f"Whether this is the disk that was published here cannot be told: {'; '.join(map(str, found))}."
            f" Nothing is cleaned or offered until then. If it is, {way_out(found)}.",
            missing=True,
        )
    return _changed("; ".join(map(str, found))) if found else None


def _changed(how: str) -> Finding:
    return Finding(
        "IdentityChanged",
        f"This is not the disk that was published here ({how}); put that one back."
        " Nothing is cleaned or offered until then.",
        missing=True,
    )


def retired(disk: Candidate) -> Finding | None:
    """Also of what is published: a volume that nobody has claimed is withdrawn then, and its link goes after it."""
    if not disk.filter.retired:
        return None
    storage = disk.matched_by.partition(" ")[0]
    return Finding(
        "Retired",
        f"LocalStorage {storage}, or its group that has the device, is being removed. A volume in use stays until its"
        " claim is deleted; nothing new is offered.",
    )


RULES: tuple[Callable[[Candidate], Finding | None], ...] = (
    hung,
    other_file,
    dangling_link,
    was_mount_point,
    unreadable,
    identity_changed,
    retired,
)
