"""The state of disks and volumes, worked out from what is known at the moment of the scrape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime

from localpv.api.kinds.localdisk import CleaningState, LocalDisk, Phase
from localpv.api.kinds.volumes import PersistentVolume
from localpv.disk import labels
from localpv.observe.registry import Labels, Registry

_CLASSIC = "local_volume_provisioner"
MISMATCHES = frozenset({"IdentityChanged", "WasMountPoint"})
"""Words of a record that mean: at this path is something else than what was published."""

MODES = ("Block", "Filesystem")
_VOLUME_PHASES = ("Available", "Bound", "Released", "Failed")


class DisksOfNode:
    """The disks of one node, as its agent sees them."""

    def __init__(
        self,
        registry: Registry,
        *,
        disks: Callable[[], Collection[LocalDisk]],
        ignored: Callable[[], Iterable[Labels]],
        hung: Callable[[], int],
        now: Callable[[], datetime],
    ) -> None:
        """`ignored` gives class and reason of each entry without a record, `hung` the calls that never came back."""
        self._disks, self._ignored_entries, self._hung_calls, self._now = disks, ignored, hung, now
        by_phase = ("storage_class", "phase")
        self._count = registry.gauge("localpv_disks", "Disks of this node.", by_phase)
        self._bytes = registry.gauge("localpv_disk_bytes", "Their capacity.", by_phase)
        self._unfit = registry.gauge("localpv_disks_unfit", "Disks that cannot be offered, by reason.", ("reason",))
        self._mismatches = registry.gauge(
            "localpv_disks_identity_mismatch",
            "Disks with a volume where something else is found now than what was published; they are not touched.",
        )
        self._ignored = registry.gauge(
            "localpv_discovery_ignored_entries", "Entries without a LocalDisk, by reason.", ("storage_class", "reason")
        )
        self._hung = registry.gauge("localpv_host_hung_calls", "Calls to the kernel that have not come back.")
        self._running = registry.gauge(f"{_CLASSIC}_proctable_running", "Cleanings that run.")
        self._succeeded = registry.gauge(
            f"{_CLASSIC}_proctable_succeeded", "Disks cleaned, with their volume still there."
        )
        self._failed = registry.gauge(f"{_CLASSIC}_proctable_failed", "Disks whose cleaning failed and is tried again.")
        self._done = registry.gauge("localpv_cleaning_done_bytes", "How far the running cleanings are.")
        self._total = registry.gauge("localpv_cleaning_bytes", "How much the running cleanings have to do.")
        self._oldest = registry.gauge(
            "localpv_clean_oldest_order_seconds", "How long ago the oldest order was given that is not carried out yet."
        )
        registry.before_scrape(self._look)

    def _look(self) -> None:
        disks = self._disks()
        self._count.become(_by_phase(disks, lambda disk: 1))
        self._bytes.become(_by_phase(disks, lambda disk: disk.status.capacity_bytes))
        self._unfit.become(Counter((disk.status.reason,) for disk in disks if disk.status.eligible is False))
        self._mismatches.set(sum(1 for disk in disks if MISMATCHES & {disk.status.reason, _cleaning_reason(disk)}))
        self._ignored.become(Counter(self._ignored_entries()))
        self._hung.set(self._hung_calls())
        self._look_at_cleanings([disk for disk in disks if disk.spec.clean is not None])

    def _look_at_cleanings(self, ordered: list[LocalDisk]) -> None:
        cleanings = [disk.status.cleaning for disk in ordered if disk.status.cleaning is not None]
        states = Counter(cleaning.state for cleaning in cleanings)
        running = [cleaning for cleaning in cleanings if cleaning.state == CleaningState.RUNNING]
        self._running.set(len(running))
        self._succeeded.set(states[CleaningState.VERIFIED])
        self._failed.set(states[CleaningState.FAILED])
        self._done.set(sum(cleaning.bytes_done for cleaning in running))
        self._total.set(sum(cleaning.bytes_total for cleaning in running))
        since = [_seconds_since(disk, self._now()) for disk in ordered if not _is_clean(disk)]
        self._oldest.set(max(since, default=0.0))


class Volumes:
    """Volumes and what keeps disks from being offered, as the manager sees them; nothing while it does not lead."""

    def __init__(
        self,
        registry: Registry,
        *,
        disks: Callable[[], Collection[LocalDisk]],
        volumes: Callable[[], Collection[PersistentVolume]],
    ) -> None:
        self._disks, self._volumes = disks, volumes
        self._capacity = registry.gauge(
            f"{_CLASSIC}_persistentvolume_capacity_bytes", "Capacity of all disks that are volumes.", ("mode",)
        )
        self._count = registry.gauge("localpv_volumes", "Volumes.", ("storage_class", "phase"))
        self._troubles = registry.gauge(
            "localpv_disks_not_offered", "Disks that the agent offers and the manager does not, by reason.", ("reason",)
        )
        registry.before_scrape(self._look)

    def _look(self) -> None:
        disks, volumes = self._disks(), self._volumes()
        capacity = dict.fromkeys(MODES, 0)
        for disk in disks:
            if disk.spec.volume is not None and disk.spec.volume.uid and disk.spec.volume_mode in capacity:
                capacity[disk.spec.volume_mode] += disk.status.capacity_bytes
        self._capacity.become({(mode,): size for mode, size in capacity.items()})
        classes = {volume.spec.storage_class_name for volume in volumes}
        counts: dict[Labels, float] = {(name, phase): 0 for name in sorted(classes) for phase in _VOLUME_PHASES}
        for volume in volumes:
            key = volume.spec.storage_class_name, volume.status.phase or "Pending"
            counts[key] = counts.get(key, 0) + 1
        self._count.become(counts)
        self._troubles.become(
            Counter(
                (condition.reason,)
                for disk in disks
                for condition in disk.status.conditions
                if condition.type == labels.OFFERED and condition.status == "False"
            )
        )


def _by_phase(disks: Collection[LocalDisk], amount: Callable[[LocalDisk], float]) -> Mapping[Labels, float]:
    classes = sorted({disk.spec.storage_class_name for disk in disks})
    made: dict[Labels, float] = {(name, phase.value): 0 for name in classes for phase in Phase}
    for disk in disks:
        key = disk.spec.storage_class_name, disk.status.phase or "Unknown"
        made[key] = made.get(key, 0) + amount(disk)
    return made


def _cleaning_reason(disk: LocalDisk) -> str:
    return disk.status.cleaning.reason if disk.status.cleaning is not None else ""


def _is_clean(disk: LocalDisk) -> bool:
    order, cleaning = disk.spec.clean, disk.status.cleaning
    return (
        order is not None
        and cleaning is not None
        and (cleaning.volume_uid, cleaning.state) == (order.volume_uid, CleaningState.VERIFIED)
    )


def _seconds_since(disk: LocalDisk, now: datetime) -> float:
    try:
        asked = datetime.fromisoformat((disk.spec.clean and disk.spec.clean.requested_at) or "")
    except ValueError:
        return 0.0
    return max(0.0, (now - (asked if asked.tzinfo else asked.replace(tzinfo=UTC))).total_seconds())
