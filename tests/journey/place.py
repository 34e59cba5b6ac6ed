"""A node with its disks, as the agent and the cluster around the manager would treat them."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from localpv import errors
from localpv.api.kinds.cluster import Event, Node, NodeSpec
from localpv.api.kinds.localdisk import (
    Cleaning,
    CleaningState,
    DiskIdentity,
    DiskKind,
    LocalDisk,
    LocalDiskSpec,
    Phase,
)
from localpv.api.kinds.meta import ObjectMeta
from localpv.api.kinds.volumes import PersistentVolume, StorageClass
from localpv.client.client import Client
from localpv.client.informer_factory import InformerFactory
from localpv.config.settings import ClassSettings, Configuration
from localpv.disk.records import Records
from localpv.disk.records.api import ApiRecords
from localpv.manager.agents import HasLooked, nobody
from localpv.manager.manager import WORKERS, Manager, ManagerScope
from localpv.manager.publish import names
from localpv.runtime.clock import SystemClock
from localpv.testing.waiting import PATIENCE_SECONDS

GIB = 1 << 30
HOST_DIR = "/mnt/disks"
PROTECTION = "kubernetes.io/pv-protection"
LOOK_EVERY_SECONDS = 0.01


@dataclass
class Place:
    """A node, a class, and a manager that serves them; names are this test's own."""

    client: Client
    suffix: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    class_prefix: str = "fast"

    @property
    def node(self) -> str:
        return f"node-{self.suffix}"

    @property
    def storage_class(self) -> str:
        return f"{self.class_prefix}-{self.suffix}"

    def configuration(self, **more: Any) -> Configuration:
        settings = ClassSettings(name=self.storage_class, host_dir=HOST_DIR, mount_dir=HOST_DIR)
        return Configuration(classes={self.storage_class: dataclasses.replace(settings, **more)})

    async def set_up(self, *, spec: NodeSpec | None = None) -> None:
        labels = {"kubernetes.io/hostname": f"host-{self.suffix}"}
        await self.client.objects(Node).create(
            Node(metadata=ObjectMeta(name=self.node, labels=labels), spec=spec or NodeSpec())
        )
        await self.create_class()

    async def create_class(self, **more: Any) -> None:
        await self.client.objects(StorageClass).create(
            StorageClass(
                metadata=ObjectMeta(name=self.storage_class),
                provisioner="kubernetes.io/no-provisioner",
                volume_binding_mode="WaitForFirstConsumer",
                **more,
            )
        )

    @asynccontextmanager
    async def managed(
        self,
        configuration: Configuration | None = None,
        *,
        client: Client | None = None,
        records: Records | None = None,
        node: str = "",
        has_looked: HasLooked = nobody,
        workers: int = WORKERS,
    ) -> AsyncIterator[Manager]:
        informers = InformerFactory(client or self.client, clock=SystemClock())
        manager = Manager(
            informers,
            records=records or ApiRecords(self.client),
            configuration=configuration or self.configuration(),
            clock=SystemClock(),
            scope=ManagerScope(node=node, has_looked=has_looked),
            workers=workers,
        )
        tasks = [asyncio.create_task(informers.run()), asyncio.create_task(manager.run())]
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await manager.ready()
            yield manager
        finally:
            for task in reversed(tasks):
                task.cancel()
            await asyncio.wait(tasks)

    async def clear(self) -> None:
        """Take back what the test has made: the server may be shared."""
        for volume in await self.own_volumes():
            await self.volumes.delete(volume.key)
            with contextlib.suppress(errors.NotFound):
                await self.volumes.patch(volume.key, {"metadata": {"finalizers": None}})
        for disk in (await self.disks.list()).items:
            if disk.spec.node_name == self.node:
                await self.disks.delete(disk.key)
        for kind, name in ((Node, self.node), (StorageClass, self.storage_class)):
            with contextlib.suppress(errors.NotFound):
                await self.client.objects(kind).delete(name)

    # The agent.

    async def finds(self, entry: str = "disk1", **more: Any) -> LocalDisk:
        spec = LocalDiskSpec(
            node_name=self.node,
            storage_class_name=self.storage_class,
            entry=entry,
            path=f"{HOST_DIR}/{entry}",
            volume_mode="Filesystem",
        )
        name = names.disk_name(self.node, self.storage_class, entry)
        made = await self.disks.create(LocalDisk(metadata=ObjectMeta(name=name), spec=spec))
        return await self.reports(
            made.key,
            phase=Phase.AVAILABLE,
            eligible=True,
            kind=DiskKind.MOUNT_POINT,
            capacity_bytes=100 * GIB,
            identity=DiskIdentity(serial=f"serial-{entry}", size_bytes=100 * GIB),
            **more,
        )

    async def reports(self, name: str, **status: Any) -> LocalDisk:
        disk = await self.disks.get(name)
        new = msgspec.structs.replace(disk.status, **status)
        return await ApiRecords(self.client).write_status(disk, new, locked=False)

    async def cleans(self, name: str, state: CleaningState = CleaningState.VERIFIED) -> None:
        disk = await self.disks.get(name)
        assert disk.spec.clean is not None
        cleaning = Cleaning(
            volume_uid=disk.spec.clean.volume_uid, state=state, method=disk.spec.clean.method, attempt=1
        )
        await self.reports(name, cleaning=cleaning, phase=Phase.CLEANING)

    # The cluster.

    async def phase(self, name: str, phase: str) -> None:
        await self.volumes.patch(name, {"status": {"phase": phase}}, subresource="status")

    async def claims(self, name: str, claim: str = "data", uid: str = "") -> None:
        reference = {"namespace": "default", "name": claim, "uid": uid or str(uuid.uuid4())}
        await self.volumes.patch(name, {"spec": {"claimRef": reference}})
        await self.phase(name, "Bound")

    @property
    def disks(self) -> Any:
        return self.client.objects(LocalDisk)

    @property
    def volumes(self) -> Any:
        return self.client.objects(PersistentVolume)

    async def own_volumes(self) -> list[PersistentVolume]:
        listed = await self.volumes.list()
        return [each for each in listed.items if each.spec.storage_class_name == self.storage_class]

    async def until(self, is_so: Callable[[], Awaitable[object]]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                if await is_so():
                    return
                await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def until_disk(self, name: str, is_so: Callable[[LocalDisk], Any]) -> LocalDisk:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                disk = await self.disks.get(name)
                if is_so(disk):
                    return disk
                await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def until_volume(self, name: str, is_so: Callable[[PersistentVolume], Any]) -> PersistentVolume:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                volume: PersistentVolume = await self.volumes.get(name)
                if is_so(volume):
                    return volume
                await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def until_gone(self, name: str) -> None:
        """Wait until the volume is deleted; where nobody else does it, take off what protects it."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (volume := await self.volumes.find(name)) is not None:
                if volume.metadata.deleting:
                    await self._unprotect(volume)
                await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def _unprotect(self, volume: PersistentVolume) -> None:
        meta = volume.metadata
        left = [each for each in meta.finalizers if each != PROTECTION]
        if len(left) != len(meta.finalizers):
            patch = {"metadata": {"finalizers": left or None, "resourceVersion": meta.resource_version}}
            with contextlib.suppress(errors.NotFound, errors.Conflict):
                await self.volumes.patch(volume.key, patch)

    async def published(self, name: str) -> PersistentVolume:
        disk = await self.until_disk(name, lambda disk: disk.spec.volume is not None and disk.spec.volume.uid)
        volume = await self.volumes.get(disk.spec.volume.name)
        await self.phase(volume.key, "Available")
        await self.reports(name, phase=Phase.PUBLISHED)
        return volume

    async def fence(self) -> str:
        """Wait until a manager with one worker has looked at all that is written: a later disk had all its turns.

        Returns the name of its volume.
        """
        later = await self.finds(f"later-{uuid.uuid4().hex[:8]}")
        volume = await self.published(later.key)
        await self.claims(volume.key)
        await self.phase(volume.key, "Released")
        await self.until_disk(later.key, lambda disk: disk.spec.clean is not None)
        return volume.key

    async def until_told(self, about: str, reason: str) -> None:
        async def is_told() -> bool:
            return reason in await self.told(about)

        await self.until(is_told)

    async def told(self, about: str) -> set[str]:
        events = await self.client.objects(Event).list()
        return {event.reason for event in events.items if event.involved_object.name == about}
