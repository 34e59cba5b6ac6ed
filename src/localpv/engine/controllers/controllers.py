"""The controllers of workloads put together: what they watch, and what wakes which of them.

All keys are `NAMESPACE/NAME`. A change of a pod wakes whoever controls it; one that nobody controls wakes those whose
selectors mean it, who may take it in. Nothing here looks around by itself: without a change there is no work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from localpv.api import selectors
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.meta import Kind, OwnerReference
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.volumes import PersistentVolumeClaim
from localpv.api.kinds.workloads import ControllerRevision, DaemonSet, Deployment, Job, ReplicaSet, StatefulSet
from localpv.client.client import Client
from localpv.client.informer import Index
from localpv.client.informer_factory import InformerFactory
from localpv.engine.controllers import controller_refs, job_tracking, pod_identity
from localpv.engine.controllers.cached_objects import CachedObjects, owner_words
from localpv.engine.controllers.daemon_sets import DaemonSets
from localpv.engine.controllers.deployments import Deployments
from localpv.engine.controllers.ephemeral import EphemeralClaims
from localpv.engine.controllers.jobs import Jobs
from localpv.engine.controllers.replica_sets import ReplicaSets
from localpv.engine.controllers.stateful_sets import StatefulSets
from localpv.observe.recorder import ApiRecorder
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Controller, Reconcile
from localpv.runtime.group import Group
from localpv.runtime.queue import WorkQueue

K = TypeVar("K", bound=Kind)

WORKERS = 8
"""Objects of one kind that are worked on at the same time: a step is a few calls to the server, and mostly waits."""


class Workloads:
    """Runs until cancelled."""

    def __init__(
        self, client: Client, *, informers: InformerFactory, clock: Clock, component: str = "localpv-workloads"
    ) -> None:
        def known(kind: type[K], indexes: Mapping[str, Index[K]] | None = None) -> CachedObjects[K]:
            return CachedObjects(client, kind, informers.informer(kind), indexes=indexes)

        by_owner = {"owner": owner_words}
        self._clock = clock
        self._recorder = ApiRecorder(client, component=component, clock=clock)
        self._pods = known(Pod, by_owner)
        self._claims = known(PersistentVolumeClaim)
        self._sets = known(ReplicaSet, by_owner)
        self._deployments = known(Deployment)
        self._stateful = known(StatefulSet)
        self._revisions = known(ControllerRevision, by_owner)
        self._jobs = known(Job)
        self._daemons = known(DaemonSet)
        self._nodes = known(Node)
        self._informers_synced = informers.wait_synced

        self._queues: dict[str, WorkQueue[str]] = {}
        self._ready = asyncio.Event()

    async def ready(self) -> None:
        """Wait until everything that exists has been seen."""
        await self._ready.wait()

    async def run(self) -> None:
        """Serve until cancelled."""
        recorder, clock, members = self._recorder, self._clock, self._pods
        await self._informers_synced()
        replica_sets = ReplicaSets(sets=self._sets, members=members, recorder=recorder, clock=clock)
        deployments = Deployments(
            deployments=self._deployments, sets=self._sets, members=members, recorder=recorder, clock=clock
        )
        stateful_sets = StatefulSets(
            sets=self._stateful,
            members=members,
            claims=self._claims,
            revisions=self._revisions,
            recorder=recorder,
            clock=clock,
        )
        daemon_sets = DaemonSets(
            sets=self._daemons,
            members=members,
            nodes=self._nodes,
            revisions=self._revisions,
            recorder=recorder,
            clock=clock,
        )
        jobs = Jobs(jobs=self._jobs, members=members, recorder=recorder, clock=clock)
        ephemeral = EphemeralClaims(members=members, claims=self._claims, recorder=recorder)
        work: dict[str, Reconcile[str]] = {
            "ReplicaSet": replica_sets.reconcile,
            "Deployment": deployments.reconcile,
            "StatefulSet": stateful_sets.reconcile,
            "DaemonSet": daemon_sets.reconcile,
            "Job": jobs.reconcile,
            "orphans of Jobs": jobs.release_orphan,
            "ephemeral claims": ephemeral.reconcile,
        }
        self._queues = {name: WorkQueue(clock=clock) for name in work}
        self._listen()
        group = Group(clock=clock)
        group.add("events", recorder.run)
        for name, reconcile in work.items():
            controller = Controller(name, reconcile, queue=self._queues[name], clock=clock, workers=WORKERS)
            group.add(name, controller.run)
        await group.run(on_ready=self._ready.set)

    # What wakes whom.

    def _listen(self) -> None:
        self._pods.add_event_handler(self._pod_changed)
        self._sets.add_event_handler(self._changed_with(self._wake_self, self._wake_owner, self._wake_deployments))
        self._deployments.add_event_handler(self._changed_with(self._wake_self))
        self._stateful.add_event_handler(self._changed_with(self._wake_self))
        self._jobs.add_event_handler(self._job_changed)
        self._daemons.add_event_handler(self._changed_with(self._wake_self))
        self._nodes.add_event_handler(self._node_changed)
        self._claims.add_event_handler(self._claim_changed)

    def _changed_with(self, *wakers: Callable[[Kind], None]) -> Callable[[Kind | None, Kind | None], None]:
        def changed(old: Kind | None, new: Kind | None) -> None:
            present = new or old
            assert present is not None
            for wake in wakers:
                wake(present)
            if (
                old is not None
                and new is not None
                and controller_refs.controller_of(old) != controller_refs.controller_of(new)
            ):
                self._wake_owner(old)

        return changed

    def _wake_self(self, obj: Kind) -> None:
        self._queues[obj.resource.kind].add(obj.key)

    def _wake_owner(self, obj: Kind) -> None:
        controller = controller_refs.controller_of(obj)
        if controller is not None and (queue := self._queue_of(controller)) is not None:
            queue.add(f"{obj.metadata.namespace}/{controller.name}")

    def _queue_of(self, controller: OwnerReference) -> WorkQueue[str] | None:
        return self._queues.get(controller.kind)

    def _wake_deployments(self, replica_set: Kind) -> None:
        if controller_refs.controller_of(replica_set) is None:
            self._wake_those_who_mean(replica_set, self._deployments.list())

    def _wake_those_who_mean(self, obj: Kind, owners: Iterable[Kind]) -> None:
        for owner in owners:
            if owner.metadata.namespace != obj.metadata.namespace:
                continue
            selector = selectors.from_object(owner.spec.selector)  # type: ignore[attr-defined]
            if not selector.empty and selector.matches(obj.metadata.labels):
                self._wake_self(owner)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        if controller_refs.controller_of(pod) is None:
            everyone: tuple[Kind, ...] = (
                *(*self._sets.list(), *self._stateful.list()),
                *(*self._jobs.list(), *self._daemons.list()),
            )
            self._wake_those_who_mean(pod, everyone)
        else:
            self._wake_owner(pod)
            self._wake_deployment_of(pod, gone=new is None)
        if (
            old is not None
            and new is not None
            and controller_refs.controller_of(old) != controller_refs.controller_of(new)
        ):
            self._wake_owner(old)
        if new is not None and job_tracking.is_tracked(new):
            self._queues["orphans of Jobs"].add(new.key)
        if new is not None and old is None and any(volume.ephemeral is not None for volume in new.spec.volumes):
            self._queues["ephemeral claims"].add(new.key)

    def _wake_deployment_of(self, pod: Pod, *, gone: bool) -> None:
        """One that recreates its pods waits for the last of the old ones to be gone."""
        controller = controller_refs.controller_of(pod)
        if not gone or controller is None or controller.kind != ReplicaSet.resource.kind:
            return
        replica_set = self._sets.get(controller.name, pod.metadata.namespace)
        if replica_set is not None:
            self._wake_owner(replica_set)

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        job = new or old
        assert job is not None
        self._wake_self(job)
        if new is None:
            for pod in self._pods.find("owner", job.metadata.uid):
                self._queues["orphans of Jobs"].add(pod.key)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is not None and new is not None:
            same = (old.metadata.labels, old.spec) == (new.metadata.labels, new.spec)
            if same and old.metadata.uid == new.metadata.uid:
                return  # a heartbeat
        for daemon_set in self._daemons.list():
            self._wake_self(daemon_set)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        claim = new or old
        assert claim is not None
        if new is not None and old is not None:
            return
        for stateful_set in self._stateful.list():
            if stateful_set.metadata.namespace == claim.metadata.namespace and pod_identity.makes_claim(
                stateful_set, claim.metadata.name
            ):
                self._wake_self(stateful_set)
        if new is None:
            self._wake_pod_of(claim)

    def _wake_pod_of(self, claim: PersistentVolumeClaim) -> None:
        """A pod may wait for a claim that was in its way, or have lost the one that was made for it."""
        name = claim.metadata.name
        cuts = [position for position, letter in enumerate(name) if letter == "-"]
        for cut in cuts:
            pod = self._pods.get(name[:cut], claim.metadata.namespace)
            if pod is not None and any(
                volume.ephemeral is not None and volume.name == name[cut + 1 :] for volume in pod.spec.volumes
            ):
                self._queues["ephemeral claims"].add(pod.key)
