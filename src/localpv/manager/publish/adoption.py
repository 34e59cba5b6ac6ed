"""Volumes that the classic provisioner made get our label, by which they are watched from then on, and our finalizer,
without which one could be used and deleted before its disk is looked at."""

from __future__ import annotations

import logging

from localpv import errors
from localpv.api import well_known
from localpv.api.kinds.volumes import PersistentVolume
from localpv.client.objects import Objects, Selection
from localpv.config.settings import Configuration
from localpv.disk import labels
from localpv.manager.publish import names, ownership
from localpv.manager.volumes import Volumes

log = logging.getLogger(__name__)

UNLABELLED = Selection(labels=f"!{labels.NODE}")


async def adopt_all(
    objects: Objects[PersistentVolume], *, volumes: Volumes, configuration: Configuration, node: str = ""
) -> int:
    """Label every volume of the configured classes, of one node or of all, that has no label yet; how many there were.

    The volumes of a cluster are read page by page and not kept.
    """
    count = 0
    async for page in objects.pages(UNLABELLED):
        for volume in page.items:
            maker = node_of(volume, configuration)
            if maker and node in ("", maker):
                try:
                    await volumes.take_over(volume, names.node_label(maker))
                except (errors.Conflict, errors.NotFound):
                    # It is changed just now. Publishing finds it under its name at the latest.
                    continue
                log.info("labelled volume=%s node=%s", volume.key, maker)
                count += 1
    return count


def node_of(volume: PersistentVolume, configuration: Configuration) -> str:
    """The node on which a provisioner made a volume in the directory of a configured class; empty for all others."""
    settings = configuration.classes.get(volume.spec.storage_class_name)
    if settings is None or volume.spec.local is None:
        return ""
    if settings.folder_of(volume.spec.local.path) is None:
        return ""
    return ownership.maker(volume.metadata.annotations.get(well_known.PROVISIONED_BY, ""))
