"""The scheduler: one pod after another gets a node, and the writes for many of them go on at the same time.

A pod without a node is in one of three states: nobody has looked at it yet; it waits, since no node will do; or it is
assumed to be on a node (see `bind_cycle`).
"""

from __future__ import annotations

import asyncio
import logging

from localpv import errors
from localpv.api.kinds.cluster import Namespace, Node
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from localpv.client.client import Client
from localpv.engine.scheduler import schedule_one
from localpv.engine.scheduler.bind_cycle import BIND_SECONDS, BindCycle, Bound, Later, Lost
from localpv.engine.scheduler.filter_messages import ClusterEvent
from localpv.engine.scheduler.listers import Listers
from localpv.engine.scheduler.node_info import FINISHED
from localpv.engine.scheduler.pod_info import PodInfo
from localpv.engine.scheduler.schedule_one import NoNode
from localpv.engine.scheduler.scheduling_queue import LOOK_AGAIN_SECONDS, MOST_SECONDS, UnschedulablePods
from localpv.engine.scheduler.writes import Writes
from localpv.observe.recorder import ApiRecorder
from localpv.runtime.backoff import KeyedBackoff
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Controller, Done, LookAgain, Outcome
from localpv.runtime.group import Group
from localpv.runtime.queue import WorkQueue
from localpv.volume import fit
from localpv.volume.informers import VolumeInformers

NAME = "default-scheduler"
"""Pods that name another scheduler are left to it."""

WORKERS = 16
"""Pods for which calls to the API server are under way at the same time."""

log = logging.getLogger(__name__)


class Scheduler:
    """Runs until cancelled, beside the informers it is given. Only one may run for the same pods."""

    def __init__(
        self,
        client: Client,
        *,
        informers: VolumeInformers,
        clock: Clock,
        workers: int = WORKERS,
        bind_seconds: float = BIND_SECONDS,
    ) -> None:
        self.listers = Listers(informers)
        self._writes = Writes(client, informers=informers, clock=clock)
        self._recorder = ApiRecorder(client, component=NAME, clock=clock)
        self._clock = clock
        self._workers = workers
        self._queue: WorkQueue[str] = WorkQueue(clock=clock, backoff=KeyedBackoff(most=MOST_SECONDS))
        self._unschedulable = UnschedulablePods(again=self._queue.add_after, clock=clock)
        self._bind_cycle = BindCycle(
            self.listers, self._writes, again=self._queue.add, clock=clock, bind_seconds=bind_seconds
        )
        self._ready = asyncio.Event()

    async def ready(self) -> None:
        """Wait until everything that exists has been seen."""
        await self._ready.wait()

    async def run(self) -> None:
        """Serve until cancelled."""
        listers = self.listers
        # No pod is looked at before everything is known that it could need.
        await listers.ready()
        listers.namespaces.add_event_handler(self._namespace_changed)
        listers.nodes.add_event_handler(self._node_changed)
        listers.classes.add_event_handler(self._class_changed)
        listers.claims.add_event_handler(self._claim_changed)
        listers.volumes.add_event_handler(self._volume_changed)
        listers.pods.add_event_handler(self._pod_changed)
        listers.on_capacity = lambda: self._unschedulable.wake(ClusterEvent.CAPACITY)
        group = Group(clock=self._clock)
        group.add("events", self._recorder.run)
        controller = Controller(
            "scheduler", self._reconcile, queue=self._queue, clock=self._clock, workers=self._workers
        )
        group.add("scheduler", controller.run)
        await group.run(on_ready=self._ready.set)

    # One pod.

    async def _reconcile(self, key: str) -> Outcome:
        pod = self.listers.pods.by_key(key)
        if key in self._bind_cycle:
            await self._bind_cycle.settle(key, pod, wanted=pod is not None and is_ours(pod))
            pod = self.listers.pods.by_key(key)  # giving back takes a while
        if pod is None or not is_ours(pod):
            self._unschedulable.forget(key)
            return Done()
        if key not in self._bind_cycle:
            if (seconds := self._unschedulable.held_back(key)) > 0:
                return LookAgain(after=seconds)
            # Nothing is waited for between the look at the nodes and the assumption, so no two pods get the same room.
            pod_info = PodInfo.of(pod)
            found = schedule_one.choose(
                pod_info,
                node_infos=self.listers.node_infos,
                storage=self.listers.storage,
                labels_of=self.listers.labels_of,
            )
            if isinstance(found, NoNode):
                return await self._no_node(pod, found)
            self._bind_cycle.assume(pod_info, found)
        match await self._bind_cycle.step(key):
            case Later(seconds):
                return LookAgain(after=seconds)
            case Bound(_, news=False):
                return Done()
            case Bound(node):
                log.debug("scheduled pod=%s node=%s", key, node)
                self._unschedulable.forget(key)
                self._recorder.event(pod, "Scheduled", f"Successfully assigned {key} to {node}")
                return Done()
            case Lost(reason, error):
                return await self._lost(pod, reason, error)

    async def _no_node(self, pod: Pod, found: NoNode) -> Outcome:
        if self._unschedulable.failed(pod.key, found.wakes, found.message):
            log.info("no node pod=%s reason=%s", pod.key, found.message)
            self._recorder.event(pod, "FailedScheduling", found.message, warning=True)
        await self._writes.explain(pod, found.message)
        return LookAgain(after=LOOK_AGAIN_SECONDS)

    async def _lost(self, pod: Pod, reason: str, error: errors.LocalpvError | None) -> Outcome:
        # What is given back is seen as a change, and a change wakes the pod: not before its back-off is over.
        self._unschedulable.failed(pod.key, frozenset(), reason)
        await self._bind_cycle.give_back(pod.key)
        if error is not None:
            raise error
        log.info("assumed node lost pod=%s reason=%s", pod.key, reason)
        self._recorder.event(pod, "FailedScheduling", reason, warning=True)
        self._unschedulable.wake_pod(pod.key)
        return Done()

    # What wakes whom.

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        was_there, is_there = _has_place(old), _has_place(new)
        if was_there and not is_there:
            self._unschedulable.wake(ClusterEvent.POD_LEFT)
        elif is_there and (old is None or not was_there or old.metadata.labels != pod.metadata.labels):
            self._unschedulable.wake(ClusterEvent.POD_CAME)
        if new is None or old is None or _asks_anew(old, new):
            self._unschedulable.forget(pod.key)
            if new is None or pod.key in self._bind_cycle or is_ours(new):
                self._queue.add(pod.key)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        # A node that goes can help too: pods need not be spread over it any more.
        if old is None or new is None or _offers_anew(old, new):
            self._unschedulable.wake(ClusterEvent.NODE)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        for volume in (old, new):
            if volume is not None and (claim := volume.spec.claim_ref) is not None:
                self._wake_users(f"{claim.namespace}/{claim.name}")
        if new is not None and fit.is_free(new):
            self._unschedulable.wake(ClusterEvent.VOLUME)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        claim = new or old
        assert claim is not None
        self._wake_users(claim.key)

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        self._unschedulable.wake(ClusterEvent.CLASS)

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if old is not None and new is not None and old.metadata.labels != new.metadata.labels:
            self._unschedulable.wake(ClusterEvent.POD_CAME)

    def _wake_users(self, claim_key: str) -> None:
        for pod in self.listers.users_of(claim_key):
            if pod.key in self._bind_cycle:
                self._queue.add(pod.key)
            elif is_ours(pod):
                self._unschedulable.wake_pod(pod.key)


def is_ours(pod: Pod) -> bool:
    """Whether this scheduler is to find a node for the pod."""
    spec = pod.spec
    return (
        not spec.node_name
        and spec.scheduler_name in ("", NAME)
        and not spec.scheduling_gates
        and not pod.metadata.deleting
        and pod.status.phase not in FINISHED
    )


def _has_place(pod: Pod | None) -> bool:
    return pod is not None and bool(pod.spec.node_name) and pod.status.phase not in FINISHED


def _asks_anew(old: Pod, new: Pod) -> bool:
    """Whether more changed than the pod's status, which we write ourselves."""
    return (
        (old.metadata.uid, old.metadata.labels, old.metadata.deleting)
        != (new.metadata.uid, new.metadata.labels, new.metadata.deleting)
        or is_ours(old) != is_ours(new)
        or old.spec != new.spec
    )


def _offers_anew(old: Node, new: Node) -> bool:
    """Whether more changed than a heartbeat."""
    return (
        old.metadata.uid != new.metadata.uid
        or old.metadata.labels != new.metadata.labels
        or old.spec != new.spec
        or old.status.allocatable != new.status.allocatable
        or old.status.capacity != new.status.capacity
    )
