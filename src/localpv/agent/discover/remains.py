"""Whether a tenant has a disk, and what the last one may have left on it, as any record of this node tells it.

A disk is known by its place, and places change: its link moves to another directory or class. That it was last cleaned
with a method that leaves old blocks must not be forgotten with its place, for who gets it raw can read them. Nor when
another disk takes its place: the record of the place remembers those that were there before. And a disk whose cleaning
did not end well is not clean elsewhere either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

import msgspec

from localpv.agent.discover import identities
from localpv.agent.discover.entry import Place
from localpv.agent.discover.identities import Index
from localpv.api.kinds.localdisk import CleaningState, DiskKind, EarlierDevice, LocalDisk
from localpv.api.kinds.meta import read_time
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


def unclean_other(record: LocalDisk, now: Identity | None, kind: DiskKind | None) -> bool:
    """Whether a record is kept for a disk whose cleaning did not end well, and another one is in its place."""
    recorded = identities.recorded_in(record)
    if taken(record) or not unclean(record) or recorded is None or now is None:
        return False
    return bool(identities.contradictions(recorded, now, kind=kind))


def was_here(earlier: Iterable[EarlierDevice], now: Identity | None) -> EarlierDevice | None:
    """What is remembered of a device that was here before."""
    if now is None:
        return None
    return next((each for each in earlier if identity.read(each.identity).same_device(now, contents=False)), None)


def may_show(record: LocalDisk) -> bool:
    """Whether the last cleaning of a device was verified, and may have left old blocks that can be read from it."""
    cleaning = record.status.cleaning
    if cleaning is None or cleaning.state != CleaningState.VERIFIED or record.status.kind != DiskKind.BLOCK_DEVICE:
        return False
    return cleaners.may_leave_data(cleaning.method)


def left_elsewhere(
    place: Place, now: Identity | None, *, records: Mapping[Place, LocalDisk], index: Index
) -> LocalDisk | None:
    """The record of another place, or of this one from before, by which a device was cleaned last, if that may have
    left old blocks on it."""
    if now is None:
        return None
    own = records.get(place)
    since = _ended(own) if own is not None and cleaned(own, now) else _NEVER
    others = [other for other in _of_device(now, records, index) if other is not own]
    last = max(others, key=lambda other: (_ended(other), may_show(other)), default=None)
    return last if last is not None and may_show(last) and since <= _ended(last) else None


def made_good(record: LocalDisk, *, records: Mapping[Place, LocalDisk], index: Index) -> bool:
    """Whether a device whose cleaning did not end well by this record was cleaned by another since."""
    recorded, cleaning = identities.recorded_in(record), record.status.cleaning
    if recorded is None or cleaning is None or record.status.kind != DiskKind.BLOCK_DEVICE:
        return False
    begun = max(_moment(cleaning.started_at), _moment(cleaning.finished_at))
    return any(_ended(other) > begun for other in _of_device(identity.read(recorded), records, index))


def left_by(record: LocalDisk, *, records: Mapping[Place, LocalDisk], index: Index) -> Iterator[LocalDisk]:
    """What a record must be kept for: cleanings that may have left old blocks, of the device that is or was here last
    and of those before, unless a later cleaning of the same device is known."""
    for memory in (record, *_earlier(record)):
        if may_show(memory) and not _told_elsewhere(memory, records, index):
            yield memory


def still_told(record: LocalDisk, *, records: Mapping[Place, LocalDisk], index: Index) -> tuple[EarlierDevice, ...]:
    """Devices of before that must still be remembered."""
    told = zip(record.status.earlier, _earlier(record), strict=True)
    return tuple(each for each, memory in told if not _told_elsewhere(memory, records, index))


def _told_elsewhere(memory: LocalDisk, records: Mapping[Place, LocalDisk], index: Index) -> bool:
    """Whether another memory tells of a later cleaning of the same device, so that this one need not."""
    if memory.status.identity is None:
        return False
    found = _of_device(identity.read(memory.status.identity), records, index)
    return any(_ended(other) > _ended(memory) for other in found)


def _of_device(now: Identity, records: Mapping[Place, LocalDisk], index: Index) -> Iterator[LocalDisk]:
    for place in index.alike(now, directory=False):
        for memory in (records[place], *_earlier(records[place])):
            if memory.status.kind == DiskKind.BLOCK_DEVICE and cleaned(memory, now):
                yield memory


def _earlier(record: LocalDisk) -> Iterator[LocalDisk]:
    """What a record would say if devices that were there before were there still."""
    for each in record.status.earlier:
        kind = DiskKind.BLOCK_DEVICE.value
        then = msgspec.structs.replace(record.status, kind=kind, identity=each.identity, cleaning=each.cleaning)
        yield msgspec.structs.replace(record, status=then)


_NEVER = datetime.min.replace(tzinfo=UTC)


def _ended(record: LocalDisk) -> datetime:
    """When its last cleaning ended."""
    return _moment(record.status.cleaning.finished_at if record.status.cleaning is not None else None)


def _moment(text: str | None) -> datetime:
    try:
        return read_time(text) if text else _NEVER
    except ValueError:
        return _NEVER
