"""What the scheduler sees: the objects, and what is worked out of them as they change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from localpv.api.kinds.cluster import Namespace, Node
from localpv.api.kinds.meta import NOTHING
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.volumes import PersistentVolume, StorageClass
from localpv.engine.scheduler.assume_cache import AssumeCache
from localpv.engine.scheduler.claims import Storage
from localpv.engine.scheduler.node_info import NodeInfos
from localpv.engine.scheduler.storage_capacity import StorageCapacity
from localpv.engine.scheduler.volumes_by_node import VolumesByNode
from localpv.volume.informers import BY_CLAIM, VolumeInformers, claims_of


class Listers:
    """The informers have an owner already."""

    def __init__(self, informers: VolumeInformers) -> None:
        self.pods, self.nodes = informers.informer(Pod), informers.informer(Node)
        self.pods.add_indexers({BY_CLAIM: claims_of})
        self.volumes, self.claims = informers.volumes, informers.claims
        self.classes, self.namespaces = informers.informer(StorageClass), informers.informer(Namespace)
        self.node_infos = NodeInfos()
        self.assume_cache = AssumeCache()
        self.storage = Storage(
            claim=self.claims.by_key,
            storage_class=self.classes.by_key,
            volumes=VolumesByNode(informers.volume_index),
            assume_cache=self.assume_cache,
            capacity=StorageCapacity(informers, self.assume_cache, changed=self._capacity_changed),
        )
        self.on_capacity: Callable[[], None] = lambda: None
        """Called when there may be more room for volumes to be made."""

        self.classes.add_event_handler(self.storage.capacity.class_changed)
        self.nodes.add_event_handler(self.node_infos.node_changed)
        self.pods.add_event_handler(self.node_infos.pod_changed)
        self.volumes.add_event_handler(self.storage.volumes.changed)
        self.volumes.add_event_handler(self._volume_changed)

    async def ready(self) -> None:
        """Wait until everything is known that a pod could need."""
        for informer in (self.volumes, self.claims, self.namespaces, self.nodes, self.classes, self.pods):
            await informer.wait_synced()
        await self.storage.capacity.ready()

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        found = self.namespaces.get(namespace)
        return NOTHING if found is None else found.metadata.labels

    def users_of(self, claim_key: str) -> Iterable[Pod]:
        return self.pods.find(BY_CLAIM, claim_key)

    def _capacity_changed(self) -> None:
        self.on_capacity()

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        volume = new or old
        assert volume is not None
        if new is None or new.spec.claim_ref is not None:
            self.assume_cache.kept(volume.metadata.name)
