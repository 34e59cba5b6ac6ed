"""What the scheduler sees: the objects, and what is worked out of them as they change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from localpv.api.kinds import Namespace, Node, PersistentVolume, Pod, StorageClass
from localpv.api.kinds.meta import NOTHING
from localpv.client.cache import Cache
from localpv.client.client import Client
from localpv.engine.scheduler.assume_cache import AssumeCache
from localpv.engine.scheduler.claims import Storage
from localpv.engine.scheduler.node_info import NodeInfos
from localpv.engine.scheduler.pod_info import claims_of
from localpv.engine.scheduler.volumes_by_node import VolumesByNode
from localpv.runtime.clock import Clock
from localpv.runtime.group import Group
from localpv.volume.informers import VolumeInformers

BY_CLAIM = "claim"


class Listers:
    """Somebody must own the caches: `add_to` a group. The informers of volumes and claims have an owner already."""

    def __init__(self, client: Client, *, informers: VolumeInformers, clock: Clock) -> None:
        self.pods = Cache(client.objects(Pod), clock=clock, indexes={BY_CLAIM: _claims_of})
        self.nodes = Cache(client.objects(Node), clock=clock)
        self.volumes, self.claims = informers.volumes, informers.claims
        self.classes = Cache(client.objects(StorageClass), clock=clock)
        self.namespaces = Cache(client.objects(Namespace), clock=clock)
        self.node_infos = NodeInfos()
        self.assume_cache = AssumeCache()
        self.storage = Storage(
            claim=self.claims.get,
            storage_class=self.classes.by_key,
            volumes=VolumesByNode(informers.volume_index),
            assume_cache=self.assume_cache,
        )
        self.nodes.on_change(self.node_infos.node_changed)
        self.pods.on_change(self.node_infos.pod_changed)
        self.volumes.on_change(self.storage.volumes.changed)
        self.volumes.on_change(self._volume_changed)

    def add_to(self, group: Group) -> None:
        """Pods come last: none is looked at before everything is known that it could need."""
        group.add("namespaces", self.namespaces.run, ready=self.namespaces.wait_synced)
        group.add("nodes", self.nodes.run, ready=self.nodes.wait_synced)
        group.add("classes", self.classes.run, ready=self.classes.wait_synced)
        group.add("pods", self.pods.run, ready=self.pods.wait_synced)

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        found = self.namespaces.get(namespace)
        return NOTHING if found is None else found.metadata.labels

    def users_of(self, claim_key: str) -> Iterable[Pod]:
        return self.pods.find(BY_CLAIM, claim_key)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        volume = new or old
        assert volume is not None
        if new is None or new.spec.claim_ref is not None:
            self.assume_cache.kept(volume.metadata.name)


def _claims_of(pod: Pod) -> Iterable[str]:
    return (f"{pod.metadata.namespace}/{use.name}" for use in claims_of(pod))
