"""Pods, nodes and whole small worlds, as small as they may be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from localpv.api.kinds.cluster import Node
from localpv.api.kinds.csi import CSIDriver, CSIStorageCapacity
from localpv.api.kinds.localpool import LocalPool, PoolSnapshot, PoolVolume
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from localpv.client.client import Client
from localpv.client.informer_factory import InformerFactory
from localpv.engine.scheduler import schedule_one
from localpv.engine.scheduler.assume_cache import AssumeCache
from localpv.engine.scheduler.claims import Storage
from localpv.engine.scheduler.node_info import NodeInfos
from localpv.engine.scheduler.pod_info import PodInfo
from localpv.engine.scheduler.schedule_one import Chosen, NoNode
from localpv.engine.scheduler.storage_capacity import StorageCapacity
from localpv.engine.scheduler.volumes_by_node import VolumesByNode
from localpv.testing.api import FakeApi
from localpv.testing.clock import FakeClock
from localpv.volume.volume_index import VolumeIndex


def _no_client() -> Client:
    return Client(FakeApi(), field_manager="tests")


HOSTNAME = "kubernetes.io/hostname"


def pod(
    name: str = "pod",
    *claims: str,
    cpu: str = "",
    node: str = "",
    labels: Mapping[str, str] | None = None,
    owner: str = "",
    phase: str = "Pending",
    **spec: Any,
) -> Pod:
    container: dict[str, Any] = {"name": "main"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    whole: dict[str, Any] = {"containers": [container], "nodeName": node}
    whole["volumes"] = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    metadata: dict[str, Any] = {"name": name, "namespace": "tests", "uid": f"uid-of-{name}", "labels": labels or {}}
    if owner:
        owners = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
        metadata["ownerReferences"] = [owners]
    return msgspec.convert({"metadata": metadata, "spec": whole | spec, "status": {"phase": phase}}, Pod)


def node(
    name: str = "node",
    *,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[Mapping[str, str]] = (),
    **room: str,
) -> Node:
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "110"} | room
    made = {
        "metadata": {"name": name, "labels": {HOSTNAME: name} | dict(labels or {})},
        "spec": {"taints": [*taints]},
        "status": {"allocatable": {key.replace("_", "-"): value for key, value in capacity.items() if value}},
    }
    return msgspec.convert(made, Node)


@dataclass
class World:
    """What a scheduler knows, without any API."""

    node_infos: NodeInfos = field(default_factory=NodeInfos)
    claims: dict[str, PersistentVolumeClaim] = field(default_factory=dict)
    classes: dict[str, StorageClass] = field(default_factory=dict)
    namespaces: dict[str, Mapping[str, str]] = field(default_factory=dict)
    volume_index: VolumeIndex = field(default_factory=VolumeIndex)
    informers: InformerFactory = field(default_factory=lambda: InformerFactory(_no_client(), clock=FakeClock()))
    """Of what is told of volumes to be made; nothing is followed, and objects are put into them."""

    _versions: int = 0
    woken: list[str] = field(default_factory=list)
    storage: Storage = field(init=False)

    def __post_init__(self) -> None:
        self.storage = Storage(
            claim=self.claims.get,
            storage_class=self.classes.get,
            volumes=VolumesByNode(self.volume_index),
            assume_cache=(cache := AssumeCache()),
            capacity=StorageCapacity(self.informers, cache, changed=lambda: self.woken.append("capacity")),
        )

    def add(self, *objects: Node | Pod | PersistentVolume | PersistentVolumeClaim | StorageClass) -> World:
        for each in objects:
            match each:
                case Node():
                    self.node_infos.node_changed(None, each)
                case Pod():
                    self.node_infos.pod_changed(None, each)
                case PersistentVolume():
                    self.volume_index.put(each)
                    self.storage.volumes.changed(None, each)
                case PersistentVolumeClaim():
                    self.claims[each.key] = each
                case StorageClass():
                    self.classes[each.key] = each
                    self.storage.capacity.class_changed(None, each)
        return self

    def tell(self, *objects: LocalPool | PoolVolume | PoolSnapshot | CSIDriver | CSIStorageCapacity) -> World:
        """What the API says of room for volumes."""
        for each in objects:
            self._versions += 1
            meta = msgspec.structs.replace(each.metadata, resource_version=str(self._versions), uid=each.metadata.name)
            self.informers.informer(type(each)).wrote(msgspec.structs.replace(each, metadata=meta))
        return self

    def choose(self, wanted: Pod) -> Chosen | NoNode:
        return schedule_one.choose(
            PodInfo.of(wanted),
            node_infos=self.node_infos,
            storage=self.storage,
            labels_of=lambda name: self.namespaces.get(name, {}),
        )

    def node_for(self, wanted: Pod) -> str:
        found = self.choose(wanted)
        assert isinstance(found, Chosen), found
        return found.node

    def refusal(self, wanted: Pod) -> str:
        found = self.choose(wanted)
        assert isinstance(found, NoNode), found
        return found.message

    def node_info(self, wanted: Pod) -> str:
        """Choose, and keep to it."""
        found = self.choose(wanted)
        assert isinstance(found, Chosen), found
        self.node_infos.assume(PodInfo.of(wanted), found.node)
        self.storage.assume_cache.make(found.plan, found.node)
        return found.node
