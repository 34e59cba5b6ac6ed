"""Volumes that somebody has deleted and that are still there because we hold them: each says why.

Who has a LocalDisk is led out by publishing and releasing. Without one nobody knows what is on the disk: the volume is
then the only memory there is, and stays, unless nobody has ever had it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from localpv.api.kinds.localdisk import CleaningState, LocalDisk
from localpv.api.kinds.volumes import PersistentVolume
from localpv.disk import labels
from localpv.manager import volumes as offers
from localpv.manager.volumes import Volumes
from localpv.observe.recorder import Recorder
from localpv.runtime.controller import Done, Outcome

WAITS = "DeletionWaits"
GIVE_UP = "localpv migrate --release-finalizers"
"""What an administrator runs to let volumes go as they are."""

log = logging.getLogger(__name__)


class Holding:
    """Looks after one deleted volume per call."""

    def __init__(
        self, *, volumes: Volumes, disk_of: Callable[[PersistentVolume], LocalDisk | None], recorder: Recorder
    ) -> None:
        self._volumes = volumes
        self._disk_of = disk_of
        self._recorder = recorder

    async def step(self, name: str) -> Outcome:
        volume = self._volumes.seen(name)
        if volume is None or not volume.metadata.deleting or not offers.is_held(volume):
            self._recorder.forget(f"held {name}")
            return Done()
        disk = self._disk_of(volume)
        if disk is None and offers.is_unused(volume):
            # As seen last; had it been claimed since, letting go would be a Conflict.
            if offers.is_held_alone(volume):
                await self._volumes.let_go(volume)
                log.info("let go unused volume=%s uid=%s", volume.key, volume.metadata.uid)
            return Done()
        message = why(volume, disk)
        if self._recorder.is_news(f"held {name}", message):
            self._recorder.event(volume, WAITS, message, warning=disk is None)
        return Done()


def why(volume: PersistentVolume, disk: LocalDisk | None) -> str:
    """What a deleted volume waits for."""
    local = volume.spec.local
    path = local.path if local is not None else "its disk"
    if disk is None:
        return (
            f"No LocalDisk knows what is on {path}, so the volume is kept. The agent of its node makes the LocalDisk"
            f" anew; if there will be none, `{GIVE_UP} {volume.key}` lets the volume go."
        )
    if volume.status.phase == "Bound":
        return f"The volume is in use. It is deleted when its claim is gone and {path} was cleaned."
    cleaning = disk.status.cleaning
    if disk.spec.clean is not None and cleaning is not None and cleaning.state == CleaningState.FAILED:
        return f"The volume is deleted when {path} is clean; the last attempt failed: {cleaning.error}"
    if others := [each for each in volume.metadata.finalizers if each != labels.FINALIZER]:
        return (
            f"The volume is deleted when {path} is clean or known to be unused, and {', '.join(others)} is taken off."
        )
    return f"The volume is deleted when {path} is clean or known to be unused."
