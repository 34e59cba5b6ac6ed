"""What is left of containers and pods: taken note of, then taken away, in order and from the disk alone."""

from __future__ import annotations

import contextlib
import logging
import shutil
from typing import Protocol

import msgspec

from localpv import errors
from localpv.api.kinds.pods import Pod
from localpv.engine.kubelet import container_start, logs, termination
from localpv.engine.kubelet.container_start import LAYERS, now
from localpv.engine.kubelet.paths import KubeletPaths
from localpv.engine.kubelet.records import Record, Records
from localpv.engine.kubelet.supervisor import PodState, container_of
from localpv.host.containers import Containers, Seen
from localpv.host.sandboxes import Layers, Sandboxes
from localpv.runtime.clock import Clock

log = logging.getLogger(__name__)


class Volumes(Protocol):
    async def tear_down(self, pod_uid: str) -> None: ...

    async def leftovers(self) -> frozenset[str]: ...


class GarbageCollector:
    """Sees containers that have ended, and clears them away."""

    def __init__(
        self,
        *,
        containers: Containers,
        layers: Layers,
        sandboxes: Sandboxes,
        volumes: Volumes,
        records: Records,
        paths: KubeletPaths,
        clock: Clock,
    ) -> None:
        self._containers, self._layers, self._sandboxes = containers, layers, sandboxes
        self._volumes, self._records, self._paths, self._clock = volumes, records, paths, clock

    async def collect(self, uid: str, pod: Pod | None, live: PodState) -> None:
        """Note the ends of containers of a pod, and give back what they held."""
        for record in self._records.all(uid):
            if record.end is None:
                record = await self._look(record, pod, live)
            if record.end is not None and not record.buried:
                live.let_go(record.id)
                await self._bury(record)

    async def _look(self, record: Record, pod: Pod | None, live: PodState) -> Record:
        if record.undone:
            return await self._take_back(record)
        bundle = self._records.bundle(record)
        seen = self._containers.look(bundle)
        if not record.started_at and not seen.started:
            # We died while it was being made, or with the runtime that starts it and goes on without us.
            seen = await self._containers.settled(bundle)
            if not seen.started:
                # Nothing of it has run, so the same attempt is made again.
                return await self._take_back(record)
        if seen.running:
            if not record.started_at:
                # We died between starting it and saying so.
                record = msgspec.structs.replace(record, started_at=record.created_at)
                self._records.save(record)
                live.taken_over.add(record.id)
            return record
        return self._end(record, seen, pod)

    async def _take_back(self, record: Record) -> Record:
        await container_start.take_back(record, records=self._records, containers=self._containers, layers=self._layers)
        return record

    def _end(self, record: Record, seen: Seen, pod: Pod | None) -> Record:
        container = container_of(pod, record.container)
        bundle = self._records.bundle(record)
        message = termination.end_message(bundle.folder, bundle.log, container, failed=seen.exit_code != 0)
        end = termination.end_of(seen, message=message, now=now(self._clock))
        ended = msgspec.structs.replace(record, end=end, started_at=record.started_at or record.created_at)
        self._records.save(ended)
        log.info(
            "container ended pod=%s/%s container=%s attempt=%d code=%d reason=%s",
            *(record.namespace, record.pod_name, record.container, record.attempt, end.exit_code, end.reason),
        )
        return ended

    async def _bury(self, record: Record) -> None:
        await self._containers.delete(self._records.bundle(record))
        await self._layers.remove(self._paths.container(record.id) / LAYERS)
        self._records.save(msgspec.structs.replace(record, buried=True))

    async def forget_old(self, newest: Record) -> None:
        """Keep the attempt before the newest, whose log people may want to see, and none older."""
        for record in [*self._records.of(newest.pod_uid).get(newest.container, ())]:
            if record.attempt < newest.attempt - 1 and record.buried:
                await self._remove(record)

    async def release(self, uid: str) -> None:
        """Give back what a pod without running containers holds: volumes, then namespaces."""
        await self._volumes.tear_down(uid)
        await self._sandboxes.remove(self._paths.sandbox(uid))

    async def bury_pod(self, uid: str) -> None:
        """Remove the last traces of a pod that has been released."""
        for record in self._records.all(uid):
            await self._remove(record)
        for name in ("log", "etc"):
            shutil.rmtree(self._paths.pod(uid) / name, ignore_errors=True)
        for pods in self._paths.layout.folders_of_pods():
            try:
                (pods / uid).rmdir()
            except FileNotFoundError:
                pass
            except OSError as error:
                raise errors.HostError(f"{pods / uid} cannot be removed: {error.strerror}") from error

    async def _remove(self, record: Record) -> None:
        bundle = self._records.bundle(record)
        await self._containers.delete(bundle)
        await container_start.remove_folder(self._layers, self._paths.container(record.id))
        for path in [bundle.log, *logs.older(bundle.log)]:
            path.unlink(missing_ok=True)
        self._records.drop(record)

    async def remove_strangers(self, folders: list[str]) -> None:
        """Folders and containers of which there is no record: cut off in their first moments."""
        known = {record.id for uid in self._records.uids() for record in self._records.all(uid)}
        for id_ in {*folders, *(await self._containers.ids())} - known:
            stranger = Record(
                id=id_,
                pod_uid="",
                pod_name="",
                namespace="",
                container="",
                attempt=0,
                image="",
                image_id="",
                boot="",
                created_at="",
            )
            try:
                await self._containers.delete(self._records.bundle(stranger))
                await container_start.remove_folder(self._layers, self._paths.container(id_))
            except errors.HostError as error:
                # It harms nobody, and the next start tries again.
                log.warning("container of an unknown pod cannot be removed id=%s reason=%s", id_, error)

    async def leftovers(self) -> frozenset[str]:
        """Pods of which anything is on the disk."""
        folders: set[str] = set()
        for pods in self._paths.layout.folders_of_pods():
            with contextlib.suppress(FileNotFoundError):
                folders.update(path.name for path in pods.iterdir())
        return frozenset(folders) | self._records.uids() | await self._volumes.leftovers()
