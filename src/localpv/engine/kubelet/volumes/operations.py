"""What is done to volumes of pods, measured: how long it took, and whether it failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Protocol

from localpv.runtime.clock import Clock


class Operation(StrEnum):
    """Under the names that a kubelet's metrics have for them."""

    MOUNT = "volume_mount"
    UNMOUNT = "volume_unmount"
    MOUNT_DEVICE = "mount_device"
    """A part of `volume_mount`, for which a kubelet has no name of its own."""

    UNMOUNT_DEVICE = "unmount_device"
    MAP = "map_volume"
    UNMAP = "unmap_volume"
    UNMAP_DEVICE = "unmap_device"


class Observer(Protocol):
    """Told every operation after its end."""

    def operated(self, plugin: str, operation: str, *, seconds: float, failed: bool) -> None: ...


class Operations:
    """Measures operations for an observer, if there is one."""

    def __init__(self, observer: Observer | None, *, clock: Clock) -> None:
        self._observer, self._clock = observer, clock

    @contextmanager
    def measured(self, plugin: str, operation: Operation) -> Iterator[None]:
        """Around one operation. One that is cancelled has neither succeeded nor failed."""
        began = self._clock.monotonic()
        try:
            yield
        except Exception:
            self._tell(plugin, operation, began, failed=True)
            raise
        self._tell(plugin, operation, began, failed=False)

    def _tell(self, plugin: str, operation: Operation, began: float, *, failed: bool) -> None:
        if self._observer is not None:
            self._observer.operated(plugin, operation, seconds=self._clock.monotonic() - began, failed=failed)
