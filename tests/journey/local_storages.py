"""A cluster with LocalStorages: the operator that serves them, and what nodes and people would do."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from localpv import errors
from localpv.api import crds
from localpv.api.kinds.cluster import ConfigMap, Event, Node
from localpv.api.kinds.localdisk import LocalDisk
from localpv.api.kinds.localstorage import LocalStorage, LocalStorageNode
from localpv.api.kinds.meta import resource_of
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.volumes import PersistentVolume, StorageClass
from localpv.api.kinds.workloads import DaemonSet
from localpv.api.objects import Object
from localpv.client.client import Client
from localpv.client.objects import Selection
from localpv.config import local_storage
from localpv.config.local_storage import GroupDevices
from localpv.deploy.local_storage import NodePods
from localpv.manager.operator import node_groups
from localpv.manager.operator.operator import Operator
from localpv.runtime.clock import SystemClock
from localpv.testing.waiting import PATIENCE_SECONDS

LOOK_EVERY_SECONDS = 0.05
DEFINITIONS = ("localdisks", "localstorages", "localstoragenodes")


async def define(client: Client, definitions: Any) -> None:
    """The kinds are there, and served."""
    for name in DEFINITIONS:
        with contextlib.suppress(errors.AlreadyExists):
            await definitions.create(crds.load(name))
    async with asyncio.timeout(PATIENCE_SECONDS):
        for kind in (LocalDisk, LocalStorage, LocalStorageNode):
            while True:
                with contextlib.suppress(errors.NotFound):
                    await client.objects(kind).list()
                    break
                await asyncio.sleep(LOOK_EVERY_SECONDS)


@dataclass
class Storages:
    """A namespace with an operator; names are this test's own."""

    client: Client
    suffix: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    image: str = "localpv:1"

    @property
    def namespace(self) -> str:
        return f"storage-{self.suffix}"

    @property
    def label(self) -> dict[str, str]:
        return {"test": self.suffix}

    def node(self, number: int = 1) -> str:
        return f"node-{number}-{self.suffix}"

    def storage_class(self, name: str = "fast") -> str:
        return f"{name}-{self.suffix}"

    async def set_up(self) -> None:
        await self.client.untyped(resource_of("Namespace")).create({"metadata": {"name": self.namespace}})
        for number in (1, 2):
            await self.add_node(number)

    async def add_node(self, number: int, **labels: str) -> None:
        metadata = {"name": self.node(number), "labels": {"kubernetes.io/os": "linux", **self.label, **labels}}
        await self.client.untyped(resource_of("Node")).create({"metadata": metadata})

    async def clear(self) -> None:
        for storage in (await self.storages.list(Selection(namespace=self.namespace))).items:
            await self.storages.delete(storage.metadata.name, self.namespace)
            with contextlib.suppress(errors.NotFound):
                await self.storages.patch(storage.metadata.name, {"metadata": {"finalizers": None}}, self.namespace)
        for kind in (LocalDisk, PersistentVolume, Node, StorageClass):
            objects: Any = self.client.objects(kind)
            for each in (await objects.list()).items:
                if each.metadata.name.endswith(self.suffix):
                    with contextlib.suppress(errors.NotFound):
                        await objects.delete(each.metadata.name)
                        await objects.patch(each.metadata.name, {"metadata": {"finalizers": None}})
        with contextlib.suppress(errors.NotFound):
            await self.client.untyped(resource_of("Namespace")).delete(self.namespace)

    @asynccontextmanager
    async def operated(self, client: Client | None = None) -> AsyncIterator[Operator]:
        operator = Operator(
            client or self.client,
            namespace=self.namespace,
            objects=NodePods(image=self.image),
            clock=SystemClock(),
        )
        task = asyncio.create_task(operator.run())
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await operator.ready()
            yield operator
        finally:
            task.cancel()
            await asyncio.wait({task})

    # People.

    @property
    def storages(self) -> Any:
        return self.client.objects(LocalStorage)

    def devices(self, name: str = "fast", *names: str) -> Object:
        wildcards = list(names or ("sd[b-z]",))
        return {"storageClassName": self.storage_class(name), "volumeMode": "Block", "deviceNames": wildcards}

    def group(self, *devices: Object, **selector: str) -> Object:
        return {"nodeSelector": {**self.label, **selector}, "devices": list(devices or (self.devices(),))}

    async def apply(self, *groups: Object, name: str = "local", namespace: str = "", **spec: Any) -> LocalStorage:
        wanted = {
            "metadata": {"name": name, "namespace": namespace or self.namespace},
            "spec": {"nodes": list(groups or (self.group(),)), **spec},
        }
        await self.client.untyped(LocalStorage.resource).apply(wanted, force=True, field_manager="administrator")
        found: LocalStorage = await self.storages.get(name, namespace or self.namespace)
        return found

    async def delete(self, name: str = "local") -> None:
        await self.storages.delete(name, self.namespace)

    async def until(self, is_so: Callable[[], Awaitable[object]]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                if await is_so():
                    return
                await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def until_storage(self, is_so: Callable[[LocalStorage], object], name: str = "local") -> LocalStorage:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                storage: LocalStorage = await self.storages.get(name, self.namespace)
                if is_so(storage):
                    return storage
                await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def until_gone(self, name: str = "local") -> None:
        async def is_gone() -> bool:
            return await self.storages.find(name, self.namespace) is None

        await self.until(is_gone)

    async def until_told(self, reason: str, name: str = "local") -> Event:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                events = await self.client.objects(Event).list(Selection(namespace=self.namespace))
                for event in events.items:
                    if event.reason == reason and event.involved_object.name == name:
                        return event
                await asyncio.sleep(LOOK_EVERY_SECONDS)

    # What the operator made.

    async def found_class(self, name: str) -> str:
        """The UID of a class; empty when there is none."""
        found = await self.client.objects(StorageClass).find(name)
        return found.metadata.uid if found is not None else ""

    async def until_no_class(self, name: str) -> None:
        async def is_gone() -> bool:
            return not await self.found_class(name)

        await self.until(is_gone)

    async def until_looked_at_classes(self) -> None:
        """A class that was left later than all others is gone, so each of them has been looked at."""
        await self.apply(self.group(self.devices("fence")), name="fence")
        await self.until(lambda: self.found_class(self.storage_class("fence")))
        await self.delete("fence")
        await self.until_gone("fence")
        await self.until_no_class(self.storage_class("fence"))

    async def daemon_sets(self) -> dict[str, DaemonSet]:
        listed = await self.client.objects(DaemonSet).list(Selection(namespace=self.namespace))
        return {each.metadata.name: each for each in listed.items}

    async def config_maps(self) -> dict[str, ConfigMap]:
        listed = await self.client.objects(ConfigMap).list(Selection(namespace=self.namespace))
        return {each.metadata.name: each for each in listed.items if each.metadata.name != "kube-root-ca.crt"}

    async def told(self) -> list[GroupDevices]:
        """What the ConfigMaps say, each about its group."""
        read = [local_storage.read(each.data[local_storage.KEY]) for each in (await self.config_maps()).values()]
        return [group for each in read for group in each.groups.values()]

    async def until_made(self, name: str = "local") -> LocalStorage:
        """Wait until every group of a LocalStorage has what this generation says, and its pods."""
        storage: LocalStorage = await self.storages.get(name, self.namespace)
        wanted = [node_groups.object_name(name, group) for group in local_storage.groups(storage)]

        async def is_made() -> bool:
            maps, sets = await self.config_maps(), await self.daemon_sets()
            read = [local_storage.read(maps[each].data[local_storage.KEY]) for each in wanted if each in maps]
            return all(each in maps and each in sets for each in wanted) and all(
                each.generation == storage.metadata.generation for each in read
            )

        await self.until(is_made)
        return storage

    # Nodes.

    async def reports(self, number: int = 1, *, storage: str = "local", **status: Any) -> None:
        """The discoverer of a node writes what it has done."""
        found = await self.storages.get(storage, self.namespace)
        name, objects = f"{storage}.{self.node(number)}", self.client.untyped(LocalStorageNode.resource)
        spec = {"nodeName": self.node(number), "localStorageName": storage, "localStorageUID": found.metadata.uid}
        with contextlib.suppress(errors.AlreadyExists):
            await objects.create({"metadata": {"name": name, "namespace": self.namespace}, "spec": spec})
        status = {"generation": found.metadata.generation, **status}
        await objects.patch(name, {"status": status}, self.namespace, subresource="status")

    async def leaves(self, number: int = 1, *, storage: str = "local") -> None:
        """The discoverer of a node has taken its rules away."""
        await self.client.objects(LocalStorageNode).delete(f"{storage}.{self.node(number)}", self.namespace)

    async def finds(self, entry: str, number: int = 1, *, storage: str = "local", **status: Any) -> str:
        """The agent of a node sees a device that a rule has matched."""
        name = f"disk-{number}-{entry}-{self.suffix}"
        spec = {
            "nodeName": self.node(number),
            "storageClassName": self.storage_class(),
            "entry": entry,
            "path": f"/dev/disk/kubernetes-local-storage/{self.storage_class()}/block/{entry}",
            "volumeMode": "Block",
        }
        disks = self.client.untyped(LocalDisk.resource)
        await disks.create({"metadata": {"name": name}, "spec": spec})
        matched = f"{self.namespace}/{storage} nodes[0].devices[0].deviceNames[0]"
        status = {"phase": "Available", "eligible": True, "matchedBy": matched, **status}
        await disks.patch(name, {"status": status}, subresource="status")
        return name

    async def publishes(self, disk: str, *, claimed: bool = False) -> str:
        """The manager makes a volume of a disk."""
        volume = f"pv-{disk}"
        found = await self.client.objects(LocalDisk).get(disk)
        await self.client.objects(LocalDisk).patch(disk, {"spec": {"volume": {"name": volume, "uid": "u"}}})
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [found.spec.node_name]}
        spec: Object = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": found.spec.storage_class_name,
            "local": {"path": found.spec.path},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        }
        if claimed:
            spec["claimRef"] = {"namespace": "default", "name": "data", "uid": str(uuid.uuid4())}
        await self.client.untyped(PersistentVolume.resource).create({"metadata": {"name": volume}, "spec": spec})
        return volume

    async def withdraws(self, disk: str) -> None:
        """The volume of a disk is gone, and the disk with its link."""
        with contextlib.suppress(errors.NotFound):
            await self.client.objects(PersistentVolume).delete(f"pv-{disk}")
            await self.client.objects(PersistentVolume).patch(f"pv-{disk}", {"metadata": {"finalizers": None}})
        await self.client.objects(LocalDisk).delete(disk)

    async def runs(self, daemon_set: str, number: int = 1) -> str:
        """A pod of a DaemonSet on a node."""
        found = (await self.daemon_sets())[daemon_set]
        labels = found.spec.template["metadata"]["labels"]
        name = f"pod-{number}-{self.suffix}"
        containers = [{"name": "c", "image": "i"}]
        pods = self.client.untyped(Pod.resource)
        await pods.create(
            {
                "metadata": {"name": name, "namespace": self.namespace, "labels": dict(labels)},
                "spec": {"containers": containers, "nodeName": self.node(number)},
            }
        )
        return name

    async def ends(self, pod: str) -> None:
        await self.client.objects(Pod).delete(pod, self.namespace, grace_seconds=0)
