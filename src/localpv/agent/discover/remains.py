"""Whether a tenant has a disk, and what the last one may have left on it, as any record of this node tells it.

A disk is known by its place, and places change: its link moves to another directory or class. That it was last cleaned
with a method that leaves old blocks must not be forgotten with its place, for who gets it raw can read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from localpv.agent.discover.entry import Place
from localpv.agent.discover.identities import Index
from localpv.api.kinds.localdisk import CleaningState, DiskKind, LocalDisk
from localpv.config import cleaners
from localpv.disk import identity
from localpv.host.model.identity import Identity


def taken(record: LocalDisk) -> bool:
    """Whether the disk belongs to a volume, or did and the order to clean it stands."""
    return record.spec.volume is not None or record.spec.clean is not None


def cleaned(record: LocalDisk, now: Identity | None) -> bool:
    """Whether the disk seen now is the one of the record, and its last cleaning was verified.

    A disk that was used has a volume in its record until then, so nobody has used it since.
    """
    cleaning, recorded = record.status.cleaning, record.status.identity
    if cleaning is None or cleaning.state != CleaningState.VERIFIED or recorded is None or now is None:
        return False
    return identity.read(recorded).same_device(now, contents=False)


def unclean(record: LocalDisk) -> bool:
    """Whether a cleaning of the disk was begun and never ended well."""
    cleaning = record.status.cleaning
    return cleaning is not None and cleaning.state != CleaningState.VERIFIED


def may_show(record: LocalDisk) -> bool:
    """Whether the last cleaning of a device was verified, and may have left old blocks that can be read from it."""
    cleaning = record.status.cleaning
    if cleaning is None or cleaning.state != CleaningState.VERIFIED or record.status.kind != DiskKind.BLOCK_DEVICE:
        return False
    return cleaners.may_leave_data(cleaning.method)


def left_elsewhere(
    place: Place, now: Identity | None, *, records: Mapping[Place, LocalDisk], index: Index
) -> LocalDisk | None:
    """The record of another place by which a device was cleaned last, if that may have left old blocks on it."""
    if now is None:
        return None
    own = records.get(place)
    since = _ended(own) if own is not None and cleaned(own, now) else ""
    others = [other for other in _of_device(now, records, index) if other is not own]
    last = max(others, key=lambda other: (_ended(other), may_show(other)), default=None)
    return last if last is not None and may_show(last) and since <= _ended(last) else None


def told_elsewhere(record: LocalDisk, *, records: Mapping[Place, LocalDisk], index: Index) -> bool:
    """Whether a record of another place tells of a later cleaning of the same device, so that this one need not."""
    if record.status.identity is None:
        return False
    found = _of_device(identity.read(record.status.identity), records, index)
    return any(_ended(other) > _ended(record) for other in found)


def _of_device(now: Identity, records: Mapping[Place, LocalDisk], index: Index) -> Iterator[LocalDisk]:
    for place in index.alike(now, directory=False):
        record = records[place]
        if record.status.kind == DiskKind.BLOCK_DEVICE and cleaned(record, now):
            yield record


def _ended(record: LocalDisk) -> str:
    """When its last cleaning ended; always written in the same form, so that texts compare as times do."""
    cleaning = record.status.cleaning
    return (cleaning.finished_at or "") if cleaning is not None else ""
