"""The component that cleans: follows the records of its node and does what orders say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from localpv.agent.clean.executor import Executor
from localpv.agent.clean.locks import Locks
from localpv.agent.clean.reconciler import CleaningReconciler, CleaningScope, Limits
from localpv.agent.clean.slots import Slots
from localpv.api.kinds.localdisk import LocalDisk
from localpv.config.settings import MOST_CLEANINGS_AT_ONCE, ClassSettings, Configuration
from localpv.disk.records import Records
from localpv.observe.cleaning import Cleanings
from localpv.runtime.clock import Clock, SystemClock
from localpv.runtime.controller import Controller
from localpv.runtime.queue import Observing, WorkQueue, unobserved

LOOKING = 8
"""Records that are looked at while all places for cleanings are taken; one hung disk holds one for ten seconds."""


class Cleaner:
    """Cleans the disks of one node. `run` it for as long as the agent runs; cancelled, it stops between two writes."""

    def __init__(
        self,
        *,
        scope: CleaningScope,
        records: Records,
        classes: Callable[[], Mapping[str, ClassSettings]],
        executor: Executor,
        state_folder: Path,
        clock: Clock | None = None,
        recorder: Cleanings | None = None,
        observe: Observing = unobserved,
        limits: Limits | None = None,
    ) -> None:
        clock, limits = clock or SystemClock(), limits or Limits()
        self._records = records
        self._queue: WorkQueue[str] = WorkQueue(clock=clock, observer=observe("clean"))
        self._slots = Slots(limits.at_once, call=self._queue.add)
        reconciler = CleaningReconciler(
            scope=scope,
            records=records,
            classes=classes,
            executor=executor,
            locks=Locks(state_folder / "locks"),
            slots=self._slots,
            clock=clock,
            recorder=recorder or Cleanings(),
            limits=limits,
        )
        self._controller = Controller(
            "clean", reconciler.step, queue=self._queue, clock=clock, workers=MOST_CLEANINGS_AT_ONCE + LOOKING
        )

    def configure(self, configuration: Configuration) -> None:
        """Let a new configuration take effect on how many disks are cleaned at once."""
        self._slots.resize(configuration.cleanings_at_once)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controller.run(), name="clean")
            group.create_task(self._follow(), name="records to clean")

    async def _follow(self) -> None:
        await self._records.follow(self._changed, synced=lambda: None)

    def _changed(self, old: LocalDisk | None, new: LocalDisk | None) -> None:
        disk = new or old
        assert disk is not None
        # Most records never have an order; those that had one, also the deleted, may have to leave the line.
        if disk.spec.clean or disk.status.cleaning:
            self._queue.add(disk.metadata.name)
