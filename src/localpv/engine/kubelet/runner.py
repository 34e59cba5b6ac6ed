"""Runs the pods of one machine: hears of them, gives each its turns, and adopts what ran before this process did."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import Any, Protocol

from localpv.api.kinds.pods import Pod
from localpv.client.client import Client
from localpv.client.informer import Informer
from localpv.engine.kubelet import container_start, garbage_collection, pod_worker
from localpv.engine.kubelet.container_start import ContainerRuntime, NodeFacts, Starter
from localpv.engine.kubelet.environment import Environment, Sources
from localpv.engine.kubelet.events import PodEvents
from localpv.engine.kubelet.garbage_collection import GarbageCollector
from localpv.engine.kubelet.logs import LogRotation
from localpv.engine.kubelet.pod_status import StatusWriter
from localpv.engine.kubelet.pod_worker import Admit, Worker
from localpv.engine.kubelet.probes import Prober
from localpv.engine.kubelet.records import Records
from localpv.engine.kubelet.supervisor import Supervisor
from localpv.observe.recorder import Recorder
from localpv.runtime.backoff import KeyedBackoff
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Controller
from localpv.runtime.queue import WorkQueue
from localpv.volume.informers import claims_of

AT_ONCE = 128
"""Pods that are worked on at the same time: more than a machine has, so that none waits for another's hung volume."""

BY_UID = "uid"

FIRST_RETRY, LONGEST_RETRY = 0.2, 30.0

log = logging.getLogger(__name__)


class Volumes(pod_worker.Volumes, garbage_collection.Volumes, container_start.SubPaths, Protocol):
    """The volumes of pods: `engine.kubelet.volumes.volume_manager.PodVolumes`."""


class PodRunner:
    """Somebody must own the task of `run`; `informer` has the pods of this node."""

    def __init__(
        self,
        client: Client,
        *,
        informer: Informer[Pod],
        node: NodeFacts,
        runtime: ContainerRuntime,
        volumes: Volumes,
        sources: Sources,
        recorder: Recorder,
        clock: Clock,
        admit: Admit | None = None,
    ) -> None:
        paths, containers, sandboxes = runtime.paths, runtime.containers, runtime.sandboxes
        self.pods = informer
        self.pods.add_indexers({BY_UID: _uid_of})
        self.records, self._containers = Records(paths), containers
        self._queue: WorkQueue[str] = WorkQueue(
            clock=clock, backoff=KeyedBackoff(first=FIRST_RETRY, most=LONGEST_RETRY)
        )
        self._tasks: asyncio.TaskGroup | None = None
        self._rotator = LogRotation(containers=containers, records=self.records, clock=clock)
        self._garbage = GarbageCollector(
            containers=containers,
            layers=runtime.layers,
            sandboxes=sandboxes,
            volumes=volumes,
            records=self.records,
            paths=paths,
            clock=clock,
        )
        supervisor = Supervisor(
            containers=containers,
            prober=Prober(containers=containers, sandboxes=sandboxes, clock=clock),
            records=self.records,
            paths=paths,
            recorder=recorder,
            clock=clock,
            wake=self._queue.add,
            own=self._own,
        )
        starter = Starter(
            node=node,
            runtime=runtime,
            records=self.records,
            environment=Environment(sources, machine=node.capacity, host_ip=node.host_ip),
            volumes=volumes,
            clock=clock,
        )
        status = StatusWriter(
            objects=client.objects(Pod), pods=informer, records=self.records, host_ip=node.host_ip, clock=clock
        )
        self._worker = Worker(
            find=self._find,
            volumes=volumes,
            starter=starter,
            supervisor=supervisor,
            garbage=self._garbage,
            status=status,
            events=PodEvents(recorder),
            clock=clock,
            admit=admit,
        )
        self._controller = Controller("pods", self._worker.reconcile, queue=self._queue, clock=clock, workers=AT_ONCE)

    async def run(self) -> None:
        """Run pods until cancelled; the containers go on without us."""
        async with asyncio.TaskGroup() as group:
            self._tasks = group
            await self._garbage.remove_strangers(self.records.load())
            group.create_task(self._rotator.run(), name="logs of pods")
            # Not before all pods are known: those that seem unknown are ended and cleared away.
            await self.pods.wait_synced()
            self.pods.add_event_handler(self._changed)
            for uid in await self._garbage.leftovers():
                self._queue.add(uid)
            await self._controller.run()

    def look_at_all(self) -> None:
        """Something has changed that any pod may wait for."""
        for pod in self.pods.list():
            self._queue.add(pod.metadata.uid)

    def look_at_users(self, claim_key: str) -> None:
        """Something has changed about a claim that its pods see."""
        for pod in self.pods.list():
            if claim_key in claims_of(pod):
                self._queue.add(pod.metadata.uid)

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            if pod is not None:
                self._queue.add(pod.metadata.uid)

    def _find(self, uid: str) -> Pod | None:
        return next(iter(self.pods.find(BY_UID, uid)), None)

    def _own(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        assert self._tasks is not None
        return self._tasks.create_task(_guarded(work))


def _uid_of(pod: Pod) -> Iterable[str]:
    return (pod.metadata.uid,)


async def _guarded(work: Coroutine[Any, Any, None]) -> None:
    """One container's trouble is not the others'."""
    try:
        await work
    except Exception:
        log.exception("unexpected error while a container was supervised")
