"""A cleaning under way: how far it is goes to the record, and it is stopped when nothing moves any more."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from localpv import errors
from localpv.agent.clean import states
from localpv.api.kinds.localdisk import CleanOrder, LocalDisk
from localpv.disk.records import Records
from localpv.host.model.methods import Progress
from localpv.runtime.clock import Clock

TICK_SECONDS = 1.0
"""Progress is written at most this often."""

ORDER_SECONDS = 10.0
"""How often the order is read again while there is no progress to write."""

STALL_SECONDS = 30.0
"""After so long without progress others may go ahead: a disk that hangs must not hold them up, and one that erases
itself takes nothing from them."""

STOP_SECONDS = 30.0
"""How long a stopped act may take to end; then it is left behind, and with it the lock of its disk."""

FIRST_LONG_SECONDS = 60.0
"""After how long people are told that it takes long; told again after twice as long each time."""

log = logging.getLogger(__name__)


class OrderChanged(errors.LocalpvError):
    """The order was taken back or replaced while its cleaning ran."""


class Watched:
    """Runs one act and keeps an eye on it."""

    def __init__(
        self,
        disk: LocalDisk,
        order: CleanOrder,
        *,
        records: Records,
        clock: Clock,
        hung_seconds: float,
        on_long: Callable[[Progress], None],
        on_stall: Callable[[bool], None],
    ) -> None:
        """`on_stall` is told True when nothing moves for a while, and False when it moves again or has ended."""
        self._disk, self._order = disk, order
        self._records, self._clock = records, clock
        self._hung_seconds = hung_seconds
        self._on_long, self._on_stall = on_long, on_stall
        self._stalled = False
        self._progress = self._told = Progress(done=0)
        self._moved = self._read = clock.monotonic()
        self._writing: asyncio.Task[None] | None = None
        self._withdrawn = False
        self.act: asyncio.Task[None] | None = None

    async def run(self, act: Callable[[Callable[[Progress], None]], Awaitable[None]]) -> None:
        """Run it to its end. HostTimeout when it does not move for too long, OrderChanged when nobody wants it."""
        began, long_after = self._clock.monotonic(), FIRST_LONG_SECONDS

        async def acting() -> None:
            await act(self._moves)

        self.act = asyncio.create_task(acting(), name=f"clean {self._disk.metadata.name}")
        try:
            while not await self._ends_within(self.act, TICK_SECONDS):
                now = self._clock.monotonic()
                self._write_progress(now)
                self._tell_stall(now - self._moved > STALL_SECONDS)
                if self._withdrawn:
                    raise OrderChanged("the order was taken back or replaced while the disk was being cleaned")
                if now - self._moved > self._hung_seconds:
                    raise errors.HostTimeout(
                        f"the disk did not move for {self._hung_seconds:g} s at {self._progress.step or 'its start'}",
                        hint="look at the kernel log for errors of that disk",
                    )
                if now - began >= long_after:
                    long_after *= 2
                    self._on_long(self._progress)
            self.act.result()
        finally:
            try:
                await self._stop()
            finally:
                self._tell_stall(False)

    def _tell_stall(self, stalled: bool) -> None:
        if stalled is not self._stalled:
            self._stalled = stalled
            self._on_stall(stalled)

    def _moves(self, progress: Progress) -> None:
        if progress != self._progress:
            self._progress, self._moved = progress, self._clock.monotonic()

    async def _ends_within(self, task: asyncio.Task[None], seconds: float) -> bool:
        tick = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({task, tick}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            tick.cancel()
            await asyncio.wait({tick})  # which does not take a cancellation of ours for that of the tick
        return task.done()

    def _write_progress(self, now: float) -> None:
        if self._writing is not None and not self._writing.done():
            return
        if self._progress != self._told:
            self._writing, self._read = asyncio.create_task(self._write(self._progress)), now
        elif now - self._read >= ORDER_SECONDS:
            self._writing, self._read = asyncio.create_task(self._read_order()), now

    async def _write(self, progress: Progress) -> None:
        # Progress is for people: a server that is away for a while must not stop the cleaning.
        try:
            disk = await self._records.write_status(self._disk, states.progressed(self._disk, progress), locked=False)
        except errors.NotFound:
            self._withdrawn = True
        except errors.LocalpvError as error:
            log.debug("progress not written disk=%s reason=%s", self._disk.metadata.name, error)
        else:
            self._told = progress
            self._look_at(disk)
            self._disk = disk if disk.status.cleaning is not None else self._disk

    async def _read_order(self) -> None:
        with contextlib.suppress(errors.LocalpvError):
            self._look_at(await self._records.get(self._disk.metadata.name))

    def _look_at(self, disk: LocalDisk | None) -> None:
        order = disk.spec.clean if disk is not None and disk.metadata.uid == self._disk.metadata.uid else None
        # Another way to clean it is for the next order; whose data must go is what this one is about.
        self._withdrawn = order is None or _for_whom(order) != _for_whom(self._order)

    async def _stop(self) -> None:
        """Nothing of this may reach the disk or the record once we have returned; the lock is kept where it might."""
        assert self.act is not None
        if self._writing is not None and not self._writing.done():
            self._writing.cancel()
            await asyncio.wait({self._writing})
        if not self.act.done():
            self.act.cancel()
            if not await self._ends_within(self.act, STOP_SECONDS):
                log.error("does not stop disk=%s seconds=%g", self._disk.metadata.name, STOP_SECONDS)
                return
        if not self.act.cancelled():
            self.act.exception()  # read, so that nobody is warned of an error that nobody waits for


def _for_whom(order: CleanOrder) -> tuple[str, str]:
    return order.volume_uid, order.claim_uid
