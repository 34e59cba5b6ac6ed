"""What users of a class must know about its volumes: that the next tenant of a disk can read what the last one wrote.

That is so for raw devices that are cleaned with `fs-reset`. Who configures it gets it, and so does who runs the
drop-in, whose default it is; and it is told where people look: by an event on the StorageClass and a condition of each
disk.
"""

from __future__ import annotations

from localpv.api.kinds import Node, StorageClass
from localpv.api.kinds.localdisk import DiskKind, LocalDisk, VolumeMode
from localpv.config import cleaners
from localpv.config.settings import ClassSettings
from localpv.disk import labels
from localpv.manager.conditions import Reports
from localpv.manager.listers import Surroundings
from localpv.observe.events import Events


class Cautions:
    """Tells each class once, and keeps the condition of its disks true."""

    def __init__(self, *, reports: Reports, events: Events, surroundings: Surroundings) -> None:
        self._reports, self._events, self._surroundings = reports, events, surroundings
        self._told: dict[str, str] = {}
        """By class, where it was told: the UID of the StorageClass, or of the Node where there is no such class."""

    async def step(self, disk: LocalDisk) -> LocalDisk:
        name = disk.spec.storage_class_name
        settings = self._surroundings.configuration.classes.get(name)
        message = caution(disk, settings) if settings is not None else ""
        if message:
            self._tell(name, disk.spec.node_name, message)
        return await self._reports.caution(disk, message)

    def _tell(self, name: str, node_name: str, message: str) -> None:
        about: StorageClass | Node | None = self._surroundings.storage_class(name)
        about = about or self._surroundings.node(node_name)
        if about is not None and self._told.get(name) != about.metadata.uid:
            self._told[name] = about.metadata.uid
            self._events.tell(about, labels.DATA_READABLE, message, warning=True)


def caution(disk: LocalDisk, settings: ClassSettings) -> str:
    """What to tell about the volumes that this disk is offered as; empty when nothing of a tenant's is left."""
    if disk.spec.volume_mode != VolumeMode.BLOCK or disk.status.kind != DiskKind.BLOCK_DEVICE:
        return ""
    method = settings.cleaner(on_device=True, volume_mode=disk.spec.volume_mode).method
    if not cleaners.leaves_data(method):
        return ""
    return (
        f"Raw devices of class {settings.name} are cleaned with {method[0]}, which leaves old blocks on them: the next"
        " user of a disk can read what the last one wrote. Set blockCleanerCommand: [zeroout] for the class."
    )
