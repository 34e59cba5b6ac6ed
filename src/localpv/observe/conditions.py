"""What keeps the manager from offering a disk, told where people look: a condition of the LocalDisk, and an event."""

from __future__ import annotations

import msgspec

from localpv.api.kinds.localdisk import DiskCondition, LocalDisk
from localpv.disk import labels
from localpv.disk.records import Records
from localpv.observe.recorder import Recorder
from localpv.runtime.clock import Clock


class DiskConditions:
    """Tells each trouble of a disk once, and takes it back when it is over."""

    def __init__(self, *, records: Records, recorder: Recorder, clock: Clock) -> None:
        self._records = records
        self._recorder = recorder
        self._clock = clock

    async def trouble(self, disk: LocalDisk, reason: str, message: str) -> LocalDisk:
        """The disk is not offered, and why."""
        if self.is_told(disk, reason, message):
            return disk
        known = _known(disk)
        since = known.last_transition_time if known is not None else None
        condition = DiskCondition(
            type=labels.OFFERED,
            status="False",
            reason=reason,
            message=message,
            last_transition_time=since or self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        written = await self._write(disk, (condition,))
        self._recorder.event(disk, reason, message, warning=True)
        return written

    def is_told(self, disk: LocalDisk, reason: str, message: str) -> bool:
        known = _known(disk)
        return known is not None and (known.reason, known.message) == (reason, message)

    async def over(self, disk: LocalDisk) -> LocalDisk:
        """Nothing is wrong any more."""
        return disk if _known(disk) is None else await self._write(disk, ())

    async def caution(self, disk: LocalDisk, message: str) -> LocalDisk:
        """The disk is offered, and users must know something about it; nothing when the message is empty."""
        known = _known(disk, labels.DATA_READABLE)
        if (known.message if known is not None else "") == message:
            return disk
        condition = DiskCondition(
            type=labels.DATA_READABLE,
            status="True",
            reason="CleanerLeavesData",
            message=message,
            last_transition_time=self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        return await self._write(disk, (condition,) if message else (), labels.DATA_READABLE)

    async def _write(self, disk: LocalDisk, ours: tuple[DiskCondition, ...], which: str = labels.OFFERED) -> LocalDisk:
        others = tuple(condition for condition in disk.status.conditions if condition.type != which)
        status = msgspec.structs.replace(disk.status, conditions=(*others, *ours))
        return await self._records.write_status(disk, status)


def _known(disk: LocalDisk, which: str = labels.OFFERED) -> DiskCondition | None:
    return next((condition for condition in disk.status.conditions if condition.type == which), None)
