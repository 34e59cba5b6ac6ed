"""Logs of containers are kept small: one that has grown too long is put aside, and the oldest go."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from localpv.engine.kubelet.records import Records
from localpv.host.containers import Containers
from localpv.runtime.clock import Clock

LOOK_SECONDS = 10.0
LOG_BYTES = 10 * 1024 * 1024
"""How long a log grows before a new one is begun."""

LOG_FILES = 5
"""How many files of a container's log are kept, the present one included."""

log = logging.getLogger(__name__)


class Rotator:
    """Somebody must own the task of `run`."""

    def __init__(
        self, *, containers: Containers, records: Records, clock: Clock, most: int = LOG_BYTES, files: int = LOG_FILES
    ) -> None:
        self._containers, self._records, self._clock = containers, records, clock
        self._most, self._files = most, files

    async def run(self) -> None:
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Put aside every log that is too long."""
        for uid in self._records.uids():
            for record in self._records.latest(uid).values():
                bundle = self._records.bundle(record)
                try:
                    if not record.running:
                        continue
                    if not bundle.log.exists():
                        # We died between the two steps below: the monitor still writes to the file put aside.
                        await self._containers.reopen_log(bundle)
                        continue
                    if bundle.log.stat().st_size < self._most:
                        continue
                    stamp = self._clock.now().strftime("%Y%m%d-%H%M%S")
                    os.rename(bundle.log, bundle.log.with_name(f"{bundle.log.name}.{stamp}"))
                    await self._containers.reopen_log(bundle)
                    for path in older(bundle.log)[: -(self._files - 1)]:
                        path.unlink(missing_ok=True)
                except OSError as error:
                    log.debug("log not put aside log=%s reason=%s", bundle.log, error)


def older(path: Path) -> list[Path]:
    """The files of a log that were put aside, oldest first."""
    return sorted(path.parent.glob(f"{path.name}.*"))
