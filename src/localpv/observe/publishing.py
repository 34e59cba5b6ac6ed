"""Volumes that are made, deleted and given up, under the names that dashboards of the classic provisioner know."""

from __future__ import annotations

from datetime import datetime

from localpv.api.kinds.localdisk import LocalDisk
from localpv.observe.cleaning import capacity_step, durations
from localpv.observe.registry import Registry

_CLASSIC = "local_volume_provisioner_persistentvolume"
_NODE_LOSS = "local_volume_node_cleanup"
_PROCESS, _JOB = "process", "job"
MODES = ("Block", "Filesystem")


class Publications:
    """Is told by the manager what it did."""

    def __init__(self, registry: Registry) -> None:
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

    def published(self, mode: str, *, seconds: float) -> None:
        self.made.add(mode)
        self.duration.observe(seconds, mode)

    def refused(self, mode: str) -> None:
        self.failures.add(mode)

    def ordered(self, mode: str) -> None:
        self.orders.add(mode)

    def deleted(self, disk: LocalDisk) -> None:
        mode, order, cleaning = disk.spec.volume_mode, disk.spec.clean, disk.status.cleaning
        in_job = order is not None and bool(order.job)
        self.gone.add(mode, _JOB if in_job else _PROCESS)
        if in_job and cleaning is not None:
            # Of a cleaning in a Job nobody else tells: its process is gone when somebody asks.
            method = cleaning.method[0] if cleaning.method else ""
            seconds = _seconds(cleaning.started_at, cleaning.finished_at)
            self.cleaned_in_jobs.observe(seconds, mode, _JOB, capacity_step(cleaning.bytes_total), method)

    def recycled(self, mode: str) -> None:
        self.freed.add(mode)

    def withdrawn(self, mode: str) -> None:
        self.withdrawals.add(mode)

    def volume_lost(self, phase: str, *, failed: bool = False) -> None:
        (self.lost_failed if failed else self.lost).add(phase)

    def claim_lost(self, *, failed: bool = False) -> None:
        (self.claims_failed if failed else self.claims).add()


def _seconds(began: str | None, ended: str | None) -> float:
    try:
        return max(0.0, (datetime.fromisoformat(ended or "") - datetime.fromisoformat(began or "")).total_seconds())
    except (ValueError, TypeError):
        return 0.0
