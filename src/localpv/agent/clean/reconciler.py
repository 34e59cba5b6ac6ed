"""One step for one record: from an order to a verified disk.

1. Is there an order that is still open, and is its time come?
2. Is the disk where it should be, of the recorded kind and the recorded one? If not: Failed, nothing is touched.
3. Does anybody still use it? Then it waits.
4. Running is written, and only then the first byte is touched.
5. The disk is cleaned and verified.
6. Verified is written, for the volume that the order named.

What if we die? Before 4 nothing has happened. From 4 on the record says Running or Failed for this volume, and whoever
comes next begins again at 1: an order is open until its Verified is written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from localpv import errors
from localpv.agent.clean import orders, paths, plans, states
from localpv.agent.clean.executor import Executor, Target
from localpv.agent.clean.locks import Held, Locks
from localpv.agent.clean.progress import OrderChanged, Watched
from localpv.agent.clean.slots import Slots
from localpv.agent.clean.states import Reason
from localpv.api.kinds.localdisk import CleaningState, CleanOrder, DiskKind, LocalDisk, LocalDiskStatus
from localpv.config.settings import CLEANINGS_AT_ONCE, ClassSettings
from localpv.disk.records import Ours, Records, every_record
from localpv.host.model.methods import Progress
from localpv.observe.cleaning import Cleanings
from localpv.runtime.backoff import Backoff, KeyedBackoff
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Done, LookAgain, Outcome

REFUSED_SECONDS = 15.0
"""How soon a disk is looked at again that a person must put right; looking touches nothing and costs little."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much at once, and how long nothing may move."""

    at_once: int = CLEANINGS_AT_ONCE

    hung_seconds: float = 600.0
    """Without progress for this long a cleaning is given up: longer than any drive tries to save one bad block."""

    silent_seconds: float = 26 * 3600.0
    """The same for ways that tell no progress; large drives take most of a day to erase themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningScope:
    """Whose orders are carried out."""

    node: str
    only: str = ""
    """In a Job: the one record that it came for. An agent leaves the orders of Jobs to them."""

    ours: Ours = every_record
    """Which records whose class or directory is not configured are not left to an agent that knows it."""


class CleaningReconciler:
    """Does what an order says, one step per call; any number of records at the same time."""

    def __init__(
        self,
        *,
        scope: CleaningScope,
        records: Records,
        classes: Callable[[], Mapping[str, ClassSettings]],
        executor: Executor,
        locks: Locks,
        slots: Slots,
        clock: Clock,
        recorder: Cleanings,
        limits: Limits,
    ) -> None:
        self._scope, self._records, self._classes = scope, records, classes
        self._executor, self._locks, self._slots = executor, locks, slots
        self._clock, self._recorder, self._limits = clock, recorder, limits
        self._patience: KeyedBackoff[str] = KeyedBackoff(first=1.0, most=15.0, jitter=0.1)

    async def step(self, name: str) -> Outcome:
        """Look at one record and go on with its order, if it has an open one."""
        disk = await self._records.get(name)
        if disk is not None and not self._is_configured(disk) and not self._scope.ours(disk):
            self._forget(name)
            return Done()
        order = orders.open_order(disk) if disk is not None and disk.spec.node_name == self._scope.node else None
        if order is not None and (name != self._scope.only if self._scope.only else bool(order.job)):
            self._forget(name)
            return Done()
        if disk is None or order is None:
            self._forget(name)
            if disk is not None and disk.spec.node_name == self._scope.node and disk.spec.clean is None:
                await self._tidy_up(disk)
            return Done()
        seconds = states.seconds_until_due(
            orders.cleaning_for(disk, order), self._clock.now(), requested_at=order.requested_at
        )
        if seconds > 0:
            self._forget(name)
            return LookAgain(after=seconds)
        try:
            settings = self._settings(disk)
            kind, mode = _kind(disk), disk.spec.volume_mode
            plan = plans.plan(order, settings, kind=kind, volume_mode=mode)
            target = await self._executor.look(disk, paths.find(disk, settings))
        except (errors.HostError, OSError) as error:
            self._forget(name)
            return await self._refuse(disk, order, error)
        words = plans.words(order, settings, kind=kind, volume_mode=mode)
        try:
            held = self._locks.take(target.lock, owner=name)
        except errors.DeviceBusy as error:
            return await self._wait(disk, order, Reason("CleanedAlready", str(error)), words)
        try:
            return await self._step_with_lock(disk, order, target, plan, words, held)
        finally:
            held.give_up()

    async def _step_with_lock(
        self, disk: LocalDisk, order: CleanOrder, target: Target, plan: plans.Plan, words: tuple[str, ...], held: Held
    ) -> Outcome:
        name = disk.metadata.name
        try:
            users = await self._executor.users(target)
        except (errors.HostError, OSError) as error:
            self._forget(name)
            return await self._refuse(disk, order, error)
        if users:
            self._slots.leave(name)
            return await self._wait(disk, order, Reason("InUse", f"{target.place.host_path} {users}"), words)
        if not self._slots.take(name):
            why = Reason("InLine", f"{self._slots.count} other disks of this node are being cleaned first")
            await self._write(disk, states.waiting(disk, order, why, method=words))
            return Done()  # called when it is this one's turn
        try:
            self._patience.worked(name)
            return await self._clean(disk, order, target, plan, words, held)
        finally:
            self._slots.give_back()

    async def _clean(
        self, disk: LocalDisk, order: CleanOrder, target: Target, plan: plans.Plan, words: tuple[str, ...], held: Held
    ) -> Outcome:
        began, method = self._clock.monotonic(), words[0]
        status = states.running(disk, order, method=words, now=self._clock.now(), size=target.size_bytes)
        disk = await self._records.write_status(disk, status)
        self._recorder.started(disk, order, method)
        watched = Watched(
            disk,
            order,
            records=self._records,
            clock=self._clock,
            hung_seconds=self._limits.hung_seconds if plans.tells_progress(plan) else self._limits.silent_seconds,
            on_long=lambda progress: self._recorder.runs_long(disk, order, _how_far(disk, progress)),
            on_stall=lambda stalled: self._slots.lend() if stalled else self._slots.take_back(),
        )
        try:
            await watched.run(lambda report: self._executor.clean(target, plan, on_progress=report))
        except Exception as error:
            why = _reason(error)
            if not isinstance(error, errors.LocalpvError | OSError):
                log.exception("unexpected error disk=%s", disk.metadata.name)
            self._recorder.failed(disk, order, method, reason=why.word, message=why.sentence)
            await self._conclude(disk, lambda now: states.failed(now, why, now=self._clock.now()))
            return LookAgain(after=0.1)
        finally:
            if watched.act is not None:
                held.leave_to(watched.act)
        seconds = self._clock.monotonic() - began
        await self._conclude(disk, lambda now: states.verified(now, now=self._clock.now()))
        self._recorder.verified(disk, order, method, seconds=seconds, size_bytes=target.size_bytes)
        return Done()

    async def _tidy_up(self, disk: LocalDisk) -> None:
        """The order was taken back: what was never begun is forgotten, what was cut short says so and stays."""
        cleaning = disk.status.cleaning
        if cleaning is None or cleaning.state == CleaningState.VERIFIED:
            return
        if cleaning.attempt == 0:
            await self._write(disk, states.untouched(disk))
        elif cleaning.state != CleaningState.FAILED:
            why = Reason("OrderChanged", "the order was taken back before the disk was clean")
            await self._write(disk, states.failed(disk, why, now=self._clock.now()))

    async def _conclude(self, disk: LocalDisk, end: Callable[[LocalDisk], LocalDiskStatus]) -> None:
        """Write how it ended. A server that is away just now must not cost hours of wiping, so this waits for it."""
        pause, name, attempt = Backoff(), disk.metadata.name, disk.status.cleaning
        assert attempt is not None
        while True:
            try:
                now = await self._records.get(name)
                ours = now.status.cleaning if now is not None and now.metadata.uid == disk.metadata.uid else None
                if now is None or ours is None or not _same_attempt(ours.volume_uid, ours.attempt, ours.state, disk):
                    log.warning("record changed hands while its disk was cleaned disk=%s", name)
                    return
                await self._records.write_status(now, end(now))
                return
            except errors.NotFound:
                return
            except errors.LocalpvError as error:
                wait = pause.next()
                log.warning("end of cleaning not written disk=%s seconds=%.1f reason=%s", name, wait, error)
                await self._clock.sleep(wait)

    async def _refuse(self, disk: LocalDisk, order: CleanOrder, error: Exception) -> Outcome:
        why = _reason(error)
        method = order.method
        if await self._write(disk, states.refused(disk, order, why, method=method)):
            self._recorder.refused(disk, order, reason=why.word, message=why.sentence)
        return LookAgain(after=REFUSED_SECONDS)

    async def _wait(self, disk: LocalDisk, order: CleanOrder, why: Reason, method: tuple[str, ...]) -> Outcome:
        await self._write(disk, states.waiting(disk, order, why, method=method))
        return LookAgain(after=self._patience.failed(disk.metadata.name))

    async def _write(self, disk: LocalDisk, status: LocalDiskStatus) -> bool:
        """Whether there was anything new to write."""
        if status == disk.status:
            return False
        await self._records.write_status(disk, status)
        return True

    def _is_configured(self, disk: LocalDisk) -> bool:
        settings = self._classes().get(disk.spec.storage_class_name)
        return settings is not None and settings.folder_of(disk.spec.path) is not None

    def _settings(self, disk: LocalDisk) -> ClassSettings:
        name = disk.spec.storage_class_name
        if (settings := self._classes().get(name)) is None:
            raise errors.OutsideFolder(
                f"class {name} is not configured on this node any more, so nothing of it may be touched",
                hint="put the class back into the configuration until its disks are clean",
            )
        return settings

    def _forget(self, name: str) -> None:
        self._slots.leave(name)
        self._patience.worked(name)


def _kind(disk: LocalDisk) -> DiskKind:
    try:
        return DiskKind(disk.status.kind)
    except ValueError:
        raise errors.DeviceChanged(
            "nobody has seen yet what kind of disk this is", hint="it is looked at again when discovery has seen it"
        ) from None


def _same_attempt(uid: str, attempt: int, state: str, disk: LocalDisk) -> bool:
    ours = disk.status.cleaning
    return ours is not None and (uid, attempt, state) == (ours.volume_uid, ours.attempt, CleaningState.RUNNING)


_WORDS: tuple[tuple[type[Exception], str], ...] = (
    (errors.DeviceChanged, "IdentityChanged"),
    (errors.OutsideFolder, "OutsideFolder"),
    (errors.DeviceBusy, "InUse"),
    (errors.HostTimeout, "Hung"),
    (errors.CommandFailed, "CommandFailed"),
    (errors.NotSupported, "NotSupported"),
    (errors.NotClean, "NotClean"),
    (OrderChanged, "OrderChanged"),
    (OSError, "DiskError"),
    (errors.LocalpvError, "HostError"),
)


def _reason(error: Exception) -> Reason:
    word = next((word for kind, word in _WORDS if isinstance(error, kind)), "UnexpectedError")
    hint = getattr(error, "hint", "")
    text = str(error) or type(error).__name__
    return Reason(word, f"{text} ({hint})" if hint else text)


def _how_far(disk: LocalDisk, progress: Progress) -> str:
    if progress.total:
        amount = f"{progress.done * 100 // progress.total} % done"
    else:
        amount = f"{progress.done} entries removed" if progress.done else "still at it"
    step = f" ({progress.step})" if progress.step else ""
    return f"Cleaning of {disk.spec.path} is under way: {amount}{step}."
