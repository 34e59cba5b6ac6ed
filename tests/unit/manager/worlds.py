"""A cluster with one node in memory: its records, its volumes, and its disk, which remembers what is on it.

Every call of the manager can be made to fail before or after it takes effect, as when a process is killed or an answer
is lost. What must never happen raises Broken at the moment it happens.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
from tests.unit.manager.memory_records import MemoryRecords

from localpv import errors
from localpv.api import well_known
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.localdisk import (
    Cleaning,
    CleaningState,
    DiskIdentity,
    DiskKind,
    LocalDisk,
    LocalDiskSpec,
    LocalDiskStatus,
    OfferedVolume,
    Phase,
)
from localpv.api.kinds.meta import Kind, ObjectMeta
from localpv.api.kinds.volumes import ClaimReference, PersistentVolume, StorageClass
from localpv.api.objects import Object
from localpv.config.settings import ClassSettings, Configuration
from localpv.disk import labels as disk_labels
from localpv.manager import volumes as offers
from localpv.manager.publish import names, ownership
from localpv.manager.publish.publisher import Publisher
from localpv.manager.release.releaser import Releaser
from localpv.observe.conditions import DiskConditions
from localpv.observe.publishing import Publications
from localpv.observe.recorder import Recorder
from localpv.runtime.controller import Outcome
from localpv.testing.clock import FakeClock

NODE, NODE_UID = "n1", "11111111-2222-3333-4444-555555555555"
CLASS, HOST_DIR = "fast", "/mnt/disks"
GIB = 1 << 30

T = TypeVar("T")
replace = msgspec.structs.replace


class Broken(Exception):
    """Something happened that never may."""


class Killed(BaseException):
    """The manager died here."""


@dataclass
class Weather:
    """When the next call fails: after so many others, and whether it takes effect all the same."""

    calls_left: int | None = None
    takes_effect: bool = False
    error: Callable[[], BaseException] = Killed
    calls: int = 0

    def around(self, act: Callable[[], T]) -> T:
        self.calls += 1
        if self.calls_left is None:
            return act()
        self.calls_left -= 1
        if self.calls_left >= 0:
            return act()
        self.calls_left = None
        if self.takes_effect:
            act()
        raise self.error()


class FakeRecords(MemoryRecords):
    """Records whose server can be lost at any call, and that are checked at every write."""

    def __init__(self, weather: Weather) -> None:
        super().__init__()
        self.weather = weather
        self.checks: list[Callable[[LocalDisk, LocalDisk], None]] = []

    async def get(self, name: str) -> LocalDisk | None:
        return self.weather.around(lambda: self.disks.get(name))

    async def write_spec(self, disk: LocalDisk, spec: LocalDiskSpec) -> LocalDisk:
        return self.weather.around(lambda: self.change(disk, spec=spec))

    async def write_status(self, disk: LocalDisk, status: LocalDiskStatus, *, locked: bool = True) -> LocalDisk:
        return self.weather.around(lambda: self.change(disk, locked=locked, status=status))

    def check(self, now: LocalDisk, new: LocalDisk) -> None:
        for check in self.checks:
            check(now, new)


class FakeVolumes:
    """Volumes in a dictionary, and what the manager has seen of them."""

    def __init__(self, weather: Weather) -> None:
        self.weather = weather
        self.now: dict[str, PersistentVolume] = {}
        self.cached: dict[str, PersistentVolume] = {}
        self.others: tuple[str, ...] = ()
        """Finalizers that others have on every volume."""

        self.holds = True
        self.versions = itertools.count(1)
        self.before_create: list[Callable[[PersistentVolume], None]] = []
        self.before_delete: list[Callable[[PersistentVolume], None]] = []
        self.before_free: list[Callable[[PersistentVolume], None]] = []
        self.before_let_go: list[Callable[[PersistentVolume], None]] = []

    def seen(self, name: str) -> PersistentVolume | None:
        return self.cached.get(name)

    def at(self, path: str) -> Sequence[PersistentVolume]:
        return [each for each in self.cached.values() if each.spec.local is not None and each.spec.local.path == path]

    def catch_up(self) -> None:
        self.cached = {name: volume for name, volume in self.now.items() if disk_labels.NODE in volume.metadata.labels}

    async def find(self, name: str) -> PersistentVolume | None:
        return self.weather.around(lambda: self.now.get(name))

    async def create(self, volume: Object) -> PersistentVolume:
        return self.weather.around(lambda: self._create(volume))

    async def delete(self, volume: PersistentVolume) -> bool:
        return self.weather.around(lambda: self._delete(volume))

    async def free(self, volume: PersistentVolume) -> None:
        def free() -> None:
            self._check(volume)
            for check in self.before_free:
                check(self.now[volume.key])
            meta = volume.metadata
            kept = {key: text for key, text in meta.annotations.items() if key != well_known.BOUND_BY_CONTROLLER}
            spec = replace(volume.spec, claim_ref=None)
            self.change(volume.key, spec=spec, metadata=replace(meta, annotations=kept))

        self.weather.around(free)

    async def take_over(self, volume: PersistentVolume, node_label: str) -> PersistentVolume:
        meta = volume.metadata
        labels = {**meta.labels, disk_labels.NODE: node_label} if node_label and self.holds else meta.labels
        held = self.holds and not offers.is_held(volume) and not meta.deleting
        if labels == meta.labels and not held:
            return volume

        def take() -> PersistentVolume:
            self._check(volume)
            finalizers = (*meta.finalizers, disk_labels.FINALIZER) if held else meta.finalizers
            return self.change(volume.key, metadata=replace(meta, labels=labels, finalizers=finalizers))

        return self.weather.around(take)

    async def let_go(self, volume: PersistentVolume) -> PersistentVolume:
        return self.weather.around(lambda: self._let_go(volume)) if offers.is_held(volume) else volume

    async def annotate(self, volume: PersistentVolume, annotation: str, value: str | None) -> None:
        def annotated() -> None:
            self._check(volume)
            meta = self.now[volume.key].metadata
            new = {**meta.annotations, annotation: value}
            kept = {key: text for key, text in new.items() if text is not None}
            self.change(volume.key, metadata=replace(meta, annotations=kept))

        self.weather.around(annotated)

    async def explain(self, volume: PersistentVolume, reason: str, message: str) -> None:
        self.weather.around(
            lambda: self.change(volume.key, status=replace(volume.status, reason=reason, message=message))
        )

    def change(self, name: str, **parts: Any) -> PersistentVolume:
        new = replace(self.now[name], **parts)
        meta = replace(new.metadata, resource_version=str(next(self.versions)))
        self.now[name] = replace(new, metadata=meta)
        return self.now[name]

    def phase(self, name: str, phase: str) -> None:
        self.change(name, status=replace(self.now[name].status, phase=phase))

    def remove(self, name: str) -> bool:
        """Delete as anybody may; whether the volume is gone at once."""
        meta = self.now[name].metadata
        if meta.finalizers:
            self.change(name, metadata=replace(meta, deletion_timestamp="2030-01-01T00:00:00Z"))
            return False
        del self.now[name]
        return True

    def set_others(self, *finalizers: str) -> None:
        """Others begin to hold all volumes, or end it."""
        before, self.others = self.others, finalizers
        for name, volume in [*self.now.items()]:
            meta = volume.metadata
            left = (*(each for each in meta.finalizers if each not in before), *finalizers)
            self.change(name, metadata=replace(meta, finalizers=left))
            if meta.deleting and not left:
                del self.now[name]

    def _let_go(self, volume: PersistentVolume) -> PersistentVolume:
        if volume.key not in self.now:  # by somebody's force
            return replace(volume, metadata=replace(volume.metadata, finalizers=()))
        self._check(volume)
        for check in self.before_let_go:
            check(self.now[volume.key])
        meta = self.now[volume.key].metadata
        left = tuple(each for each in meta.finalizers if each != disk_labels.FINALIZER)
        loose = self.change(volume.key, metadata=replace(meta, finalizers=left))
        if meta.deleting and not left:
            del self.now[volume.key]
        return loose

    def _create(self, volume: Object) -> PersistentVolume:
        typed = msgspec.convert(volume, PersistentVolume)
        if typed.key in self.now:
            raise errors.AlreadyExists(typed.key)
        for check in self.before_create:
            check(typed)
        version = next(self.versions)
        finalizers = (*((disk_labels.FINALIZER,) if self.holds else ()), *self.others)
        meta = replace(typed.metadata, uid=f"pv-{version}", resource_version=str(version), finalizers=finalizers)
        self.now[typed.key] = replace(typed, metadata=meta, status=replace(typed.status, phase="Available"))
        return self.now[typed.key]

    def _delete(self, volume: PersistentVolume) -> bool:
        if volume.key not in self.now:
            return True
        self._check(volume)
        for check in self.before_delete:
            check(self.now[volume.key])
        return self.remove(volume.key)

    def _check(self, read: PersistentVolume) -> None:
        now = self.now.get(read.key)
        if now is None:
            raise errors.NotFound(read.key)
        meta = now.metadata
        if (meta.uid, meta.resource_version) != (read.metadata.uid, read.metadata.resource_version):
            raise errors.Conflict(read.key)


class FakeEvents(Recorder):
    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, str, str]] = []
        self.warnings: list[tuple[str, str]] = []
        """About whom, and the reason, of those that were warnings."""

    def event(self, about: Kind, reason: str, message: str, *, warning: bool = False, part: str = "") -> None:
        self.told.append((about.key, reason, message))
        if warning:
            self.warnings.append((about.key, reason))

    def reasons(self, about: str = "") -> list[str]:
        return [reason for name, reason, _ in self.told if about in ("", name)]


class FakeFigures(Publications):
    """Remembers what was counted."""

    def __init__(self, to: Recorder) -> None:
        super().__init__(to=to)
        self.counted: list[str] = []

    def created(self, disk: LocalDisk, *, seconds: float) -> None:
        super().created(disk, seconds=seconds)
        self.counted.append(f"published {disk.spec.volume_mode}")

    def refused(self, disk: LocalDisk, message: str) -> None:
        super().refused(disk, message)
        self.counted.append(f"refused {disk.spec.volume_mode}")

    def withdrawn(self, disk: LocalDisk, volume: PersistentVolume) -> None:
        super().withdrawn(disk, volume)
        self.counted.append(f"withdrawn {disk.spec.volume_mode}")

    def ordered(self, disk: LocalDisk, volume: OfferedVolume) -> None:
        super().ordered(disk, volume)
        self.counted.append(f"ordered {disk.spec.volume_mode}")

    def deleted(self, disk: LocalDisk, volume: PersistentVolume) -> None:
        super().deleted(disk, volume)
        self.counted.append(f"deleted {disk.spec.volume_mode}")

    def recycled(self, disk: LocalDisk, volume: PersistentVolume) -> None:
        super().recycled(disk, volume)
        self.counted.append(f"recycled {disk.spec.volume_mode}")


def a_node(name: str = NODE, uid: str = NODE_UID, **more: Any) -> Node:
    labels = {"kubernetes.io/hostname": name, **more.pop("labels", {})}
    return Node(metadata=ObjectMeta(name=name, uid=uid, labels=labels, resource_version="1"), **more)


def a_class(**more: Any) -> StorageClass:
    return StorageClass(metadata=ObjectMeta(name=CLASS), provisioner="kubernetes.io/no-provisioner", **more)


def settings(**more: Any) -> ClassSettings:
    return ClassSettings(name=CLASS, host_dir=HOST_DIR, mount_dir=HOST_DIR, **more)


@dataclass
class Listers:
    configuration: Configuration = field(default_factory=lambda: Configuration(classes={CLASS: settings()}))
    classes: dict[str, StorageClass] = field(default_factory=lambda: {CLASS: a_class()})
    nodes: dict[str, Node] = field(default_factory=lambda: {NODE: a_node()})

    def storage_class(self, name: str) -> StorageClass | None:
        return self.classes.get(name)

    def node(self, name: str) -> Node | None:
        return self.nodes.get(name)


class World:
    """One node with one disk, an agent, users, and a manager that can die."""

    def __init__(self, **configured: Any) -> None:
        self.weather = Weather()
        self.clock = FakeClock()
        self.records = FakeRecords(self.weather)
        self.volumes = FakeVolumes(self.weather)
        self.events = FakeEvents()
        self.figures = FakeFigures(self.events)
        self.listers = Listers()
        if configured:
            self.listers.configuration = Configuration(classes={CLASS: settings(**configured)})
        self.fits = True
        self.missing = False
        self.dirty = ""
        """UID of the volume whose tenant has left data on the disk."""

        self.by_cluster = False
        """Whether volumes are bound as a cluster does it, which leaves a mark."""

        self.claims = itertools.count(1)
        self.volumes.before_create.append(self._only_clean_and_once)
        self.volumes.before_delete.append(self._only_withdrawn_or_clean)
        self.volumes.before_free.append(self._only_clean)
        self.volumes.before_let_go.append(self._only_known)
        self.records.checks.append(self._orders_are_right)
        self.restart()

    # The manager.

    def restart(self) -> None:
        """A new process, which remembers nothing and has just loaded its caches."""
        self.weather.calls_left = None
        counted, self.figures = self.figures.counted, FakeFigures(self.events)
        self.figures.counted = counted
        conditions = DiskConditions(records=self.records, recorder=self.figures, clock=self.clock)
        shared: dict[str, Any] = {
            "records": self.records,
            "volumes": self.volumes,
            "listers": self.listers,
            "conditions": conditions,
            "recorder": self.figures,
        }
        self.publisher = Publisher(**shared)
        self.releaser = Releaser(**shared, owns=ownership.owns, clock=self.clock)
        self.see()

    def see(self) -> None:
        """The manager's caches have caught up."""
        self.volumes.catch_up()
        self.view = dict(self.records.disks)

    def step(self, name: str = "") -> Outcome | None:
        """One call, with the disk as it was seen last."""
        disk = self.view.get(name or self.name)
        if disk is None:
            return None
        recorded = disk.spec.volume is not None and disk.spec.volume.uid
        step = self.releaser.step if recorded or disk.spec.clean is not None else self.publisher.step
        return drive(step(disk))

    def settle(self, rounds: int = 12) -> None:
        """Let the manager work until nothing changes; conflicts are tried again, other errors are raised."""
        for _ in range(rounds):
            before = (dict(self.records.disks), dict(self.volumes.now))
            self.see()
            for name in [*self.view]:
                try:
                    self.step(name)
                except errors.Conflict:
                    continue
            if before == (self.records.disks, self.volumes.now):
                return
        raise Broken("the manager does not come to rest")

    # The agent.

    @property
    def name(self) -> str:
        return names.disk_name(NODE, CLASS, "disk1")

    @property
    def disk(self) -> LocalDisk:
        return self.records.disks[self.name]

    def find_disk(self, entry: str = "disk1", *, kind: DiskKind = DiskKind.MOUNT_POINT, node: str = NODE) -> LocalDisk:
        spec = LocalDiskSpec(
            node_name=node,
            storage_class_name=CLASS,
            entry=entry,
            path=f"{HOST_DIR}/{entry}",
            volume_mode="Filesystem",
        )
        name = names.disk_name(node, CLASS, entry)
        made = drive(self.records.create(LocalDisk(metadata=ObjectMeta(name=name), spec=spec)))
        status = LocalDiskStatus(
            phase=Phase.AVAILABLE,
            eligible=True,
            kind=kind,
            capacity_bytes=20 * GIB,
            identity=DiskIdentity(serial=entry, size_bytes=20 * GIB),
        )
        return self.records.change(made, status=status)

    def look(self) -> None:
        """The agent brings the status up to date, as discovery does."""
        disk = self.disk
        order, cleaning = disk.spec.clean, disk.status.cleaning
        fits = self.fits and not self.missing
        if order is not None:
            own = cleaning is not None and cleaning.volume_uid == order.volume_uid
            phase = Phase.CLEANING if own else Phase.RELEASING
            fits = False
        elif disk.spec.volume is not None:
            phase = Phase.MISSING if self.missing else Phase.PUBLISHED
        else:
            unclean = cleaning is not None and cleaning.state != CleaningState.VERIFIED
            fits = fits and not unclean
            phase = Phase.AVAILABLE if fits else Phase.UNAVAILABLE
        self.report(phase=phase, eligible=fits)

    def report(self, **status: Any) -> None:
        self.records.change(self.disk, status=replace(self.disk.status, **status))

    def clean(self, state: CleaningState = CleaningState.VERIFIED, **more: Any) -> None:
        """The agent works on the order."""
        order = self.disk.spec.clean
        assert order is not None
        if state is CleaningState.VERIFIED:
            self.dirty = ""
        cleaning = Cleaning(volume_uid=order.volume_uid, state=state, method=order.method, attempt=1, **more)
        self.report(cleaning=cleaning, phase=Phase.CLEANING, eligible=False)

    # Users, and the controllers of the cluster.

    @property
    def volume(self) -> PersistentVolume | None:
        found = [
            each for each in self.volumes.now.values() if each.spec.local and each.spec.local.path.endswith("/disk1")
        ]
        return found[0] if found else None

    def bind(self) -> None:
        volume = self.volume
        assert volume is not None
        reference = ClaimReference(namespace="default", name="data", uid=f"claim-{next(self.claims)}")
        meta = volume.metadata
        if self.by_cluster:
            meta = replace(meta, annotations={**meta.annotations, well_known.BOUND_BY_CONTROLLER: "yes"})
        self.volumes.change(volume.key, spec=replace(volume.spec, claim_ref=reference), metadata=meta)
        self.volumes.phase(volume.key, "Bound")
        self.dirty = volume.metadata.uid

    def release(self) -> None:
        assert self.volume is not None
        self.volumes.phase(self.volume.key, "Released")

    def policy(self, policy: str) -> None:
        assert self.volume is not None
        spec = replace(self.volume.spec, persistent_volume_reclaim_policy=policy)
        self.volumes.change(self.volume.key, spec=spec)

    def published(self) -> PersistentVolume:
        """A disk that was found and published."""
        self.find_disk()
        self.settle()
        self.look()
        self.settle()
        assert self.volume is not None
        return self.volume

    def released(self) -> PersistentVolume:
        """A volume that was used and released; the manager has not seen it yet."""
        self.published()
        self.bind()
        self.settle()
        self.release()
        assert self.volume is not None
        return self.volume

    # What must never happen.

    def _only_clean_and_once(self, made: PersistentVolume) -> None:
        assert made.spec.local is not None
        for other in self.volumes.now.values():
            if other.spec.local == made.spec.local and other.metadata.labels == made.metadata.labels:
                raise Broken(f"{made.key} is the second volume of a disk after {other.key}")
        if made.spec.local.path.endswith("/disk1") and self.dirty:
            raise Broken(f"{made.key} offers what {self.dirty} has left")

    def _only_clean(self, freed: PersistentVolume) -> None:
        if self.dirty:
            raise Broken(f"{freed.key} is offered again with what {self.dirty} has left")

    def _only_known(self, loose: PersistentVolume) -> None:
        """Who lets a volume go must know that its disk is clean, or have written down that it is not."""
        recorded = self.disk.spec.volume if self.name in self.records.disks else None
        if self.dirty == loose.metadata.uid and (recorded is None or recorded.uid != self.dirty):
            raise Broken(f"{loose.key} is let go, and nobody will know what it has left")
        if loose.status.phase == "Bound":
            raise Broken(f"{loose.key} is let go while it is bound")

    def _only_withdrawn_or_clean(self, gone: PersistentVolume) -> None:
        phase = gone.status.phase
        if phase == "Available" and gone.spec.claim_ref is None and self.disk.status.eligible is False:
            return
        if phase != "Released":
            raise Broken(f"{gone.key} is deleted in phase {phase}")
        cleaning = self.disk.status.cleaning
        if cleaning is None or (cleaning.volume_uid, cleaning.state) != (gone.metadata.uid, CleaningState.VERIFIED):
            raise Broken(f"{gone.key} is deleted before it is clean")
        if gone.spec.persistent_volume_reclaim_policy != "Delete":
            raise Broken(f"{gone.key} is deleted although it is to be kept")

    def _orders_are_right(self, old: LocalDisk, new: LocalDisk) -> None:
        order = new.spec.clean
        if order is None or order == old.spec.clean:
            return
        if new.spec.volume is None or order.volume_uid != new.spec.volume.uid:
            raise Broken("the order is for another volume than that of the disk")
        volume = self.volumes.now.get(order.volume_name)
        if volume is not None and volume.metadata.uid == order.volume_uid:
            if volume.spec.persistent_volume_reclaim_policy != "Delete":
                raise Broken("the order is for a volume that is to be kept")
            given_up = volume.metadata.deleting and volume.spec.claim_ref is None
            if volume.status.phase != "Released" and not given_up:
                raise Broken(f"the order is for a volume in phase {volume.status.phase}")


def drive(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never has to wait, which is so in this world."""
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value  # type: ignore[no-any-return]
    raise AssertionError("something waits in a world where nothing takes time")
