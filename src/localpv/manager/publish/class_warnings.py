"""What users of a class must know about its volumes: that the next tenant of a disk can read what the last one wrote.

That is so for raw devices that are cleaned with `fs-reset`. Who configures it gets it, and so does who runs the
drop-in, whose default it is; and it is told where people look: by an event on the StorageClass and a condition of each
disk.
"""

from __future__ import annotations

from localpv.api.kinds.cluster import Node
from localpv.api.kinds.localdisk import DiskKind, LocalDisk, VolumeMode
from localpv.api.kinds.volumes import StorageClass
from localpv.config import cleaners
from localpv.config.settings import ClassSettings
from localpv.disk import labels
from localpv.manager.listers import Listers
from localpv.observe.conditions import DiskConditions
from localpv.observe.recorder import Recorder


class ClassWarnings:
    """Tells each class once, and keeps the condition of its disks true."""

    def __init__(self, *, conditions: DiskConditions, recorder: Recorder, listers: Listers) -> None:
        self._conditions, self._recorder, self._listers = conditions, recorder, listers

    async def step(self, disk: LocalDisk) -> LocalDisk:
        name = disk.spec.storage_class_name
        settings = self._listers.configuration.classes.get(name)
        message = caution(disk, settings) if settings is not None else ""
        if message:
            self._tell(name, disk.spec.node_name, message)
        return await self._conditions.caution(disk, message)

    def _tell(self, name: str, node_name: str, message: str) -> None:
        about: StorageClass | Node | None = self._listers.storage_class(name)
        about = about or self._listers.node(node_name)
        # By class, on the StorageClass, or on the Node where there is no such class.
        if about is not None and self._recorder.is_news(f"class {name}", about.metadata.uid):
            self._recorder.event(about, labels.DATA_READABLE, message, warning=True)


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
