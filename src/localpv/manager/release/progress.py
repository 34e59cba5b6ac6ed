"""Events about cleanings: each start, long wait, failure and end is told once on the volume."""

from __future__ import annotations

from localpv.api import kinds
from localpv.api.kinds import PersistentVolume
from localpv.api.kinds.localdisk import Cleaning, CleaningState, LocalDisk
from localpv.observe.events import Events
from localpv.runtime.clock import Clock

LONG_SECONDS = 600.0
"""After this time people ask why the volume is not back yet."""


class Progress:
    """Remembers what was told about the cleanings under way."""

    def __init__(self, *, events: Events, clock: Clock) -> None:
        self._events = events
        self._clock = clock
        self._told: dict[str, tuple[str, int, bool]] = {}
        """By disk: state, attempt, and whether it is long."""

    def told(self, disk: LocalDisk, volume: PersistentVolume | None) -> float | None:
        """Tell what is new; after how many seconds to look again although nothing changes, if at all."""
        order, cleaning = disk.spec.clean, disk.status.cleaning
        if order is None or cleaning is None or cleaning.volume_uid != order.volume_uid:
            self._told.pop(disk.key, None)
            return None
        left = self._seconds_to_long(cleaning)
        now = (cleaning.state, cleaning.attempt, left is not None and left <= 0)
        if self._told.get(disk.key) != now:
            self._told[disk.key] = now
            if volume is not None:
                self._tell(volume, disk, cleaning, long=now[2])
        return left if left is not None and left > 0 else None

    def _tell(self, volume: PersistentVolume, disk: LocalDisk, cleaning: Cleaning, *, long: bool) -> None:
        path, how = disk.spec.path, " ".join(cleaning.method)
        match cleaning.state:
            case CleaningState.RUNNING if long:
                done = f"; {cleaning.bytes_done * 100 // cleaning.bytes_total} % done" if cleaning.bytes_total else ""
                message = f"Cleaning {path} with {how} takes long and goes on{done}."
                self._events.tell(volume, "CleaningLong", message)
            case CleaningState.RUNNING:
                message = f"Cleaning {path} with {how}; this can take long, and the volume stays until it is done."
                self._events.tell(volume, "CleaningStarted", message)
            case CleaningState.FAILED:
                message = f"Attempt {cleaning.attempt} to clean {path} failed: {cleaning.error}"
                self._events.tell(volume, "CleaningFailed", message, warning=True)
                # Under this name users of the classic provisioner look for it.
                self._events.tell(volume, "VolumeFailedDelete", message, warning=True)
            case CleaningState.VERIFIED:
                self._events.tell(volume, "CleaningFinished", f"{path} is clean, which was checked.")

    def _seconds_to_long(self, cleaning: Cleaning) -> float | None:
        if cleaning.state != CleaningState.RUNNING or cleaning.started_at is None:
            return None
        running = (self._clock.now() - kinds.read_time(cleaning.started_at)).total_seconds()
        return LONG_SECONDS - running
