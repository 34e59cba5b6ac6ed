"""What the operator sees of the cluster: caches that hold of each object only what it reads.

With 1,000 nodes there are 10,000 LocalDisks and more. Their structs here name a handful of fields, so that the operator
costs little beside a manager that has the whole of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from localpv.api.kinds.cluster import ConfigMap, Node
from localpv.api.kinds.localdisk import LOCAL_DISKS, OfferedVolume
from localpv.api.kinds.localstorage import LOCAL_STORAGE_NODES, LocalStorage, LocalStorageNodeSpec
from localpv.api.kinds.meta import Kind, Part, read_time
from localpv.api.kinds.volumes import StorageClass
from localpv.api.kinds.workloads import DaemonSet
from localpv.api.resources import Resource
from localpv.client.client import Client
from localpv.client.informer import SharedInformer
from localpv.client.objects import Selection
from localpv.disk import labels
from localpv.runtime.clock import Clock

AWAY_SECONDS = 300.0
"""A node that has not been ready for so long is not waited for."""

BY_STORAGE = "storage"


class _DiskSpec(Part, frozen=True, kw_only=True):
    node_name: str = ""
    storage_class_name: str = ""
    volume: OfferedVolume | None = None


class _DiskStatus(Part, frozen=True, kw_only=True):
    eligible: bool | None = None
    reason: str = ""
    matched_by: str = ""


class Disk(Kind, frozen=True, kw_only=True):
    """A LocalDisk: which LocalStorage it comes from, and whether it is offered."""

    resource: ClassVar[Resource] = LOCAL_DISKS
    shared: ClassVar[tuple[str, ...]] = (
        *Kind.shared,
        "spec.node_name",
        "spec.storage_class_name",
        "status.reason",
        "status.matched_by",
    )

    spec: _DiskSpec = _DiskSpec()
    status: _DiskStatus = _DiskStatus()

    @property
    def storage(self) -> str:
        """NAMESPACE/NAME of the LocalStorage whose rule matched the device; empty for a disk of another kind."""
        return self.status.matched_by.partition(" ")[0]


class _ReportStatus(Part, frozen=True, kw_only=True):
    generation: int = 0
    matched: int = 0
    error: str = ""


class Report(Kind, frozen=True, kw_only=True):
    """A LocalStorageNode, without its devices."""

    resource: ClassVar[Resource] = LOCAL_STORAGE_NODES
    shared: ClassVar[tuple[str, ...]] = (*Kind.shared, "spec.local_storage_name", "spec.local_storage_uid")

    spec: LocalStorageNodeSpec
    status: _ReportStatus = _ReportStatus()

    @property
    def storage(self) -> str:
        return f"{self.metadata.namespace}/{self.spec.local_storage_name}"


def _storage_of(obj: Disk | Report) -> Iterable[str]:
    return (obj.storage,) if obj.storage else ()


def _owner_of(obj: ConfigMap | DaemonSet) -> Iterable[str]:
    return (obj.metadata.labels.get(labels.LOCAL_STORAGE, ""),)


@dataclass(slots=True)
class Informers:
    """Everything that is looked at, kept up to date. Somebody must own the tasks of their `run`."""

    client: Client
    namespace: str
    clock: Clock
    storages: SharedInformer[LocalStorage] = field(init=False)
    reports: SharedInformer[Report] = field(init=False)
    disks: SharedInformer[Disk] = field(init=False)
    nodes: SharedInformer[Node] = field(init=False)
    classes: SharedInformer[StorageClass] = field(init=False)
    config_maps: SharedInformer[ConfigMap] = field(init=False)
    """Those that the operator made, by the UID of their LocalStorage; so with DaemonSets."""

    daemon_sets: SharedInformer[DaemonSet] = field(init=False)

    def __post_init__(self) -> None:
        client, clock = self.client, self.clock
        here = Selection(namespace=self.namespace)
        ours = Selection(namespace=self.namespace, labels=labels.LOCAL_STORAGE)
        self.storages = SharedInformer(client.objects(LocalStorage), clock=clock)
        reports = client.objects(Report)
        self.reports = SharedInformer(reports, clock=clock, selection=here, indexes={BY_STORAGE: _storage_of})
        self.disks = SharedInformer(client.objects(Disk), clock=clock, indexes={BY_STORAGE: _storage_of})
        self.nodes = SharedInformer(client.objects(Node), clock=clock)
        self.classes = SharedInformer(client.objects(StorageClass), clock=clock)
        maps, sets = client.objects(ConfigMap), client.objects(DaemonSet)
        self.config_maps = SharedInformer(maps, clock=clock, selection=ours, indexes={BY_STORAGE: _owner_of})
        self.daemon_sets = SharedInformer(sets, clock=clock, selection=ours, indexes={BY_STORAGE: _owner_of})

    def is_away(self, name: str) -> bool:
        """Whether a node is gone, or has not been ready for so long that nothing waits for it."""
        node = self.nodes.get(name)
        if node is None:
            return True
        ready = next((each for each in node.status.conditions if each.type == "Ready"), None)
        if ready is None or ready.status == "True" or not ready.last_transition_time:
            return False
        since = read_time(ready.last_transition_time)
        return (self.clock.now() - since).total_seconds() > AWAY_SECONDS
