"""Events about cleanings: each start, long wait, failure and end is told once on the volume."""

from __future__ import annotations

from localpv.api.kinds.localdisk import Cleaning, CleaningState, LocalDisk
from localpv.api.kinds.meta import read_time
from localpv.api.kinds.volumes import PersistentVolume
from localpv.observe.recorder import Recorder
from localpv.runtime.clock import Clock

LONG_SECONDS = 600.0
"""After this time people ask why the volume is not back yet."""


class Progress:
    """Each is told once: by disk the state, the attempt, and whether it is long."""

    def __init__(self, *, recorder: Recorder, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock

    def told(self, disk: LocalDisk, volume: PersistentVolume | None) -> float | None:
        """Tell what is new; after how many seconds to look again although nothing changes, if at all."""
        order, cleaning = disk.spec.clean, disk.status.cleaning
        if order is None or cleaning is None or cleaning.volume_uid != order.volume_uid:
            self._recorder.forget(f"cleaning {disk.key}")
            return None
        left = self._seconds_to_long(cleaning)
        now = (cleaning.state, cleaning.attempt, left is not None and left <= 0)
        if self._recorder.is_news(f"cleaning {disk.key}", now) and volume is not None:
            self._tell(volume, disk, cleaning, long=now[2])
        return left if left is not None and left > 0 else None

    def _tell(self, volume: PersistentVolume, disk: LocalDisk, cleaning: Cleaning, *, long: bool) -> None:
        path, how = disk.spec.path, " ".join(cleaning.method)
        match cleaning.state:
            case CleaningState.RUNNING if long:
                done = f"; {cleaning.bytes_done * 100 // cleaning.bytes_total} % done" if cleaning.bytes_total else ""
                message = f"Cleaning {path} with {how} takes long and goes on{done}."
                self._recorder.event(volume, "CleaningLong", message)
            case CleaningState.RUNNING:
                message = f"Cleaning {path} with {how}; this can take long, and the volume stays until it is done."
                self._recorder.event(volume, "CleaningStarted", message)
            case CleaningState.FAILED:
                message = f"Attempt {cleaning.attempt} to clean {path} failed: {cleaning.error}"
                self._recorder.event(volume, "CleaningFailed", message, warning=True)
                # Under this name users of the classic provisioner look for it.
                self._recorder.event(volume, "VolumeFailedDelete", message, warning=True)
            case CleaningState.VERIFIED:
                self._recorder.event(volume, "CleaningFinished", f"{path} is clean, which was checked.")

    def _seconds_to_long(self, cleaning: Cleaning) -> float | None:
        if cleaning.state != CleaningState.RUNNING or cleaning.started_at is None:
            return None
        running = (self._clock.now() - read_time(cleaning.started_at)).total_seconds()
        return LONG_SECONDS - running
