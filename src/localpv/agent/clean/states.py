"""status.cleaning from the first look to the end. Pure: what the record says next, never how it is written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from localpv.api.kinds.localdisk import Cleaning, CleaningState, CleanOrder, DiskKind, LocalDisk, LocalDiskStatus
from localpv.api.kinds.meta import write_time
from localpv.disk.phase import decide
from localpv.host.model.methods import Progress

FIRST_WAIT_SECONDS = 10.0
MOST_WAIT_SECONDS = 1800.0
"""A cleaning that failed is tried again after 10 s, then after twice as long each time, at most half an hour: long
enough that a dying disk is not worn out, short enough that a mended one is back while somebody still looks."""

_FORM = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something waits or failed: a word for programs and a sentence for people."""

    word: str
    sentence: str


def timestamp(when: datetime) -> str:
    return when.astimezone(UTC).strftime(_FORM)


def instant(text: str | None) -> datetime | None:
    """The instant that a record names; None for what nobody can read, which then holds nothing up."""
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None


def seconds_until_due(cleaning: Cleaning | None, now: datetime, *, requested_at: str | None = None) -> float:
    """How long a failed cleaning still has to wait; 0 when it may begin.

    An order that was given after the failure does not wait: a person has seen it and wants another try, perhaps by
    another method.
    """
    if cleaning is None or cleaning.state != CleaningState.FAILED:
        return 0.0
    requested, ended, due = map(instant, (requested_at, cleaning.finished_at, cleaning.next_attempt_at))
    if requested and ended and requested > ended:
        return 0.0
    # A clock that was set back must not hold a disk up for years.
    return min(max(0.0, (due - now).total_seconds()), MOST_WAIT_SECONDS) if due else 0.0


def waiting(disk: LocalDisk, order: CleanOrder, why: Reason, *, method: tuple[str, ...]) -> LocalDiskStatus:
    """Nothing has been touched: somebody still uses the disk, or others are cleaned first."""
    return _status(disk, _kept(disk, order, method, state=CleaningState.WAITING, why=why))


def refused(disk: LocalDisk, order: CleanOrder, why: Reason, *, method: tuple[str, ...]) -> LocalDiskStatus:
    """Nothing has been touched, and a person must put something right. It is looked at again all the time."""
    return _status(disk, _kept(disk, order, method, state=CleaningState.FAILED, why=why))


def running(
    disk: LocalDisk, order: CleanOrder, *, method: tuple[str, ...], now: datetime, size: int
) -> LocalDiskStatus:
    """From here on data may be half gone. Stands in the record before the first byte is touched."""
    before = disk.status.cleaning
    attempt = before.attempt if before is not None and before.volume_uid == order.volume_uid else 0
    return _status(
        disk,
        Cleaning(
            volume_uid=order.volume_uid,
            state=CleaningState.RUNNING,
            method=method,
            attempt=attempt + 1,
            bytes_total=size,
            started_at=timestamp(now),
        ),
    )


def progressed(disk: LocalDisk, progress: Progress) -> LocalDiskStatus:
    """How far it is; the state stays what it is."""
    cleaning = disk.status.cleaning
    assert cleaning is not None
    if disk.status.kind == DiskKind.BLOCK_DEVICE:
        counts = {"bytes_done": progress.done, "bytes_total": progress.total or cleaning.bytes_total}
    else:
        counts = {"entries_done": progress.done}
    return msgspec.structs.replace(
        disk.status, cleaning=msgspec.structs.replace(cleaning, step=progress.step, **counts)
    )


def untouched(disk: LocalDisk) -> LocalDiskStatus:
    """The order was taken back before anything was begun, so there is nothing to tell."""
    return msgspec.structs.replace(disk.status, cleaning=None)


def failed(disk: LocalDisk, why: Reason, *, now: datetime) -> LocalDiskStatus:
    """The attempt under way came to nothing; the next one is after a while, which is longer every time."""
    cleaning = disk.status.cleaning
    assert cleaning is not None
    wait = min(FIRST_WAIT_SECONDS * 2.0 ** min(max(cleaning.attempt - 1, 0), 30), MOST_WAIT_SECONDS)
    return _status(
        disk,
        msgspec.structs.replace(
            cleaning,
            state=CleaningState.FAILED,
            reason=why.word,
            error=why.sentence,
            finished_at=timestamp(now),
            # Rounded up: what is written ends at whole seconds.
            next_attempt_at=timestamp(now + timedelta(seconds=wait + 0.999)),
        ),
    )


def verified(disk: LocalDisk, *, now: datetime) -> LocalDiskStatus:
    """Nothing of the old data is left. Said of one volume, and of no other."""
    cleaning = disk.status.cleaning
    assert cleaning is not None
    return _status(
        disk,
        msgspec.structs.replace(
            cleaning,
            state=CleaningState.VERIFIED,
            bytes_done=cleaning.bytes_total,
            step="",
            reason="",
            error="",
            # To the microsecond: of two cleanings of a device, by records of two places, the later one counts.
            finished_at=write_time(now),
            next_attempt_at=None,
        ),
    )


def _kept(
    disk: LocalDisk, order: CleanOrder, method: tuple[str, ...], *, state: CleaningState, why: Reason
) -> Cleaning:
    """Without an attempt: the count of those before stays, or a disk that is busy now and then never backs off."""
    before = disk.status.cleaning
    attempt = before.attempt if before is not None and before.volume_uid == order.volume_uid else 0
    return Cleaning(
        volume_uid=order.volume_uid, state=state, method=method, attempt=attempt, reason=why.word, error=why.sentence
    )


def _status(disk: LocalDisk, cleaning: Cleaning) -> LocalDiskStatus:
    state = CleaningState(cleaning.state)
    if state is CleaningState.RUNNING:
        reason, message = "Cleaning", "The disk is being cleaned."
    elif state is CleaningState.VERIFIED:
        reason, message = "Cleaned", _next(disk)
    else:
        reason, message = cleaning.reason, cleaning.error
    phase = decide(disk, cleaning, None)
    return msgspec.structs.replace(
        disk.status,
        cleaning=cleaning,
        phase=phase.value if phase else disk.status.phase,
        reason=reason,
        message=message,
    )


def _next(disk: LocalDisk) -> str:
    volume = disk.spec.volume
    if volume is not None and volume.reclaim_policy == "Retain":
        return f"The disk is clean; it is offered again when somebody deletes volume {volume.name}, which is retained."
    return "The disk is clean; the manager offers it again."
