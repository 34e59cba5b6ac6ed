"""Volumes that are made, deleted and given up: told on the volume or its disk, counted under the names that dashboards
of the classic provisioner know, and logged."""

from __future__ import annotations

import logging
from datetime import datetime

from localpv.api.kinds.localdisk import LocalDisk, OfferedVolume
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim
from localpv.observe.cleaning import capacity_step, durations
from localpv.observe.recorder import Recorder
from localpv.observe.registry import Registry

_CLASSIC = "local_volume_provisioner_persistentvolume"
_NODE_LOSS = "local_volume_node_cleanup"
_PROCESS, _JOB = "process", "job"
MODES = ("Block", "Filesystem")


log = logging.getLogger(__name__)


class Publications(Recorder):
    """Is told by the manager what it did."""

    def __init__(self, registry: Registry | None = None, to: Recorder | None = None) -> None:
        super().__init__(to)
        registry = registry or Registry()
        self.made = registry.counter(f"{_CLASSIC}_discovery_total", "Volumes created.", ("mode",))
        self.duration = registry.histogram(
            f"{_CLASSIC}_discovery_duration_seconds", "How long it took to publish a disk.", ("mode",)
        )
        self.gone = registry.counter(
            f"{_CLASSIC}_delete_total", "Volumes deleted after their disk was cleaned.", ("mode", "type")
        )
        self.failures = registry.counter(
            "localpv_publish_failed_total", "Volumes that the API server did not let be created.", ("mode",)
        )
        self.orders = registry.counter("localpv_clean_ordered_total", "Cleanings ordered.", ("mode",))
        self.freed = registry.counter(
            "localpv_volumes_recycled_total", "Volumes offered again after their disk was cleaned.", ("mode",)
        )
        self.withdrawals = registry.counter(
            "localpv_volumes_withdrawn_total", "Volumes nobody had claimed, deleted for their disk is unfit.", ("mode",)
        )
        self.lost = registry.counter(
            f"{_NODE_LOSS}_persistentvolume_delete_total", "Volumes of lost nodes deleted, by phase.", ("phase",)
        )
        self.lost_failed = registry.counter(
            f"{_NODE_LOSS}_persistentvolume_delete_failed_total", "Those that could not be.", ("phase",)
        )
        self.claims = registry.counter(
            f"{_NODE_LOSS}_persistentvolumeclaim_delete_total", "Claims on volumes of lost nodes deleted."
        )
        self.claims_failed = registry.counter(
            f"{_NODE_LOSS}_persistentvolumeclaim_delete_failed_total", "Those that could not be."
        )
        self.cleaned_in_jobs = durations(registry)
        for mode in MODES:
            for family in (self.made, self.failures, self.orders, self.freed, self.withdrawals):
                family.begin(mode)
            self.gone.begin(mode, _PROCESS)
        for phase in ("Available", "Released"):
            self.lost.begin(phase)
            self.lost_failed.begin(phase)

    def created(self, disk: LocalDisk, *, seconds: float) -> None:
        """The volume of a disk is there; it is told as published when it is recorded."""
        mode = disk.spec.volume_mode
        self.made.add(mode)
        self.duration.observe(seconds, mode)

    def published(self, disk: LocalDisk, volume: PersistentVolume) -> None:
        log.info("published disk=%s volume=%s uid=%s", disk.key, volume.key, volume.metadata.uid)
        message = f"Published {disk.spec.path} on node {disk.spec.node_name} as a volume."
        self.event(volume, "VolumePublished", message)

    def refused(self, disk: LocalDisk, message: str) -> None:
        """The API server did not let a volume be created."""
        self.failures.add(disk.spec.volume_mode)
        self.event(disk, "VolumeFailedCreate", message, warning=True)

    def withdrawn(self, disk: LocalDisk, volume: PersistentVolume) -> None:
        """A volume that nobody had claimed went, for its disk is not fit any more."""
        self.withdrawals.add(disk.spec.volume_mode)
        message = f"The disk cannot be offered any more: {disk.status.message or disk.status.reason}"
        self.event(volume, "VolumeWithdrawn", message, warning=True)

    def ordered(self, disk: LocalDisk, volume: OfferedVolume) -> None:
        """The cleaning of a disk was ordered."""
        self.orders.add(disk.spec.volume_mode)
        log.info("ordered cleaning disk=%s volume=%s uid=%s", disk.key, volume.name, volume.uid)

    def deleted(self, disk: LocalDisk, volume: PersistentVolume) -> None:
        """The volume of a clean disk went; the record is as it was when it went."""
        mode, order, cleaning = disk.spec.volume_mode, disk.spec.clean, disk.status.cleaning
        in_job = order is not None and bool(order.job)
        self.gone.add(mode, _JOB if in_job else _PROCESS)
        if in_job and cleaning is not None:
            # Of a cleaning in a Job nobody else tells: its process is gone when somebody asks.
            method = cleaning.method[0] if cleaning.method else ""
            seconds = _seconds(cleaning.started_at, cleaning.finished_at)
            self.cleaned_in_jobs.observe(seconds, mode, _JOB, capacity_step(cleaning.bytes_total), method)
        self.event(volume, "VolumeDelete", "The disk is clean, and the volume is deleted.")
        log.info("deleted volume=%s uid=%s disk=%s", volume.key, volume.metadata.uid, disk.key)

    def recycled(self, disk: LocalDisk, volume: PersistentVolume) -> None:
        """The volume of a clean disk is offered again."""
        self.freed.add(disk.spec.volume_mode)
        self.event(volume, "VolumeRecycled", "The disk is clean, and the volume is offered again.")
        log.info("recycled disk=%s volume=%s uid=%s", disk.key, volume.key, volume.metadata.uid)

    def volume_lost(self, volume: PersistentVolume, *, failed: bool = False) -> None:
        """A volume of a lost node was deleted, or could not be."""
        (self.lost_failed if failed else self.lost).add(volume.status.phase)
        if not failed:
            self.event(volume, "VolumeDelete", "Its node is gone, and the class says to delete its volumes.")
            log.info("deleted volume of lost node volume=%s uid=%s", volume.key, volume.metadata.uid)

    def claim_lost(self, volume: PersistentVolume, claim: PersistentVolumeClaim, *, failed: bool = False) -> None:
        """A claim on a volume of a lost node was deleted, or could not be."""
        (self.claims_failed if failed else self.claims).add()
        if not failed:
            message = f"Its node is gone; claim {claim.key} is deleted."
            self.event(volume, "ClaimReleased", message, warning=True)
            log.info("released claim of lost node claim=%s volume=%s", claim.key, volume.key)


def _seconds(began: str | None, ended: str | None) -> float:
    try:
        return max(0.0, (datetime.fromisoformat(ended or "") - datetime.fromisoformat(began or "")).total_seconds())
    except (ValueError, TypeError):
        return 0.0
