"""The binder: a component that brings claims and volumes together, and releases volumes whose claim is gone.

Two loops, one over claims and one over volumes. Whatever happens only puts keys into their queues; each look reads the
world as it is. Two claims never get one volume: what a look has chosen is promised until the server has answered, and
the server refuses a write that was decided on an older version of the volume.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from localpv import errors
from localpv.api import well_known
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from localpv.client.client import Client
from localpv.engine.binder import claims, defaults
from localpv.engine.binder.unbound_claims import Waiting
from localpv.engine.binder.volume_phases import CATCH_UP_SECONDS, Keeper
from localpv.engine.binder.writes import LOST, PENDING, Writes
from localpv.observe import claim_events
from localpv.observe.recorder import ApiRecorder, Notice
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Controller, Done, LookAgain, Outcome, Reconcile
from localpv.runtime.group import Group
from localpv.runtime.queue import WorkQueue
from localpv.volume import fit
from localpv.volume.informers import BY_CLAIM, VolumeInformers, claims_of

WORKERS = 64
"""Claims, and as many volumes, that are worked on at the same time: each mostly waits for the server's disk."""

PATIENCE_SECONDS = 0.5
"""How long a claim waits for any volume before people are told. Mostly its volume is just being made Available."""

BY_VOLUME = "volume"


class Binder:
    """Runs until cancelled, beside the informers it is given."""

    def __init__(self, client: Client, *, informers: VolumeInformers, clock: Clock, workers: int = WORKERS) -> None:
        self._clock = clock
        self._workers = workers
        self._claims, self._volumes, self._volume_index = informers.claims, informers.volumes, informers.volume_index
        self._classes, self._pods = informers.informer(StorageClass), informers.informer(Pod)
        self._claims.add_indexers({BY_VOLUME: _volume_of})
        self._pods.add_indexers({BY_CLAIM: claims_of})
        self._volume_objects = client.objects(PersistentVolume)
        self._recorder = ApiRecorder(client, component=claim_events.COMPONENT, clock=clock)
        self._writes = Writes(client, volumes=self._volumes, claims=self._claims)
        self._keeper = Keeper(client, informers=informers, writes=self._writes, recorder=self._recorder)
        self._waiting = Waiting()
        self._promised: set[str] = set()
        """Volumes that were chosen, and of which the server has not said yet whether it is so."""

        self._since: dict[str, float] = {}
        """By claim, since when it waits for any volume."""

        self._around = claims.Listers(
            classes=self._classes.get,
            default_class=lambda: defaults.default_class(self._classes.list()),
            unscheduled_pods=self._unscheduled_pods,
        )
        self._claim_queue: WorkQueue[str] = WorkQueue(clock=clock)
        self._volume_queue: WorkQueue[str] = WorkQueue(clock=clock)
        self._ready = asyncio.Event()

    async def ready(self) -> None:
        """Wait until everything that exists has been seen."""
        await self._ready.wait()

    async def run(self) -> None:
        """Serve until cancelled."""
        # Nothing is decided before both sides are known: a claim whose volume was not heard of yet is not lost.
        for informer in (self._volumes, self._claims, self._classes, self._pods):
            await informer.wait_synced()
        self._volumes.add_event_handler(self._volume_changed)
        self._claims.add_event_handler(self._claim_changed)
        self._classes.add_event_handler(self._class_changed)
        self._pods.add_event_handler(self._pod_changed)
        group = Group(clock=self._clock)
        group.add("events", self._recorder.run)
        group.add("binder of volumes", self._controller("volumes", self._keeper.look, self._volume_queue).run)
        group.add("binder of claims", self._controller("claims", self._look_at_claim, self._claim_queue).run)
        await group.run(on_ready=self._ready.set)

    def _controller(self, name: str, reconcile: Reconcile[str], queue: WorkQueue[str]) -> Controller[str]:
        return Controller(name, reconcile, queue=queue, clock=self._clock, workers=self._workers)

    # Claims.

    async def _look_at_claim(self, key: str) -> Outcome:
        claim = self._claims.by_key(key)
        if claim is None:
            return Done()
        self._waiting.remove(key)
        action = claims.decide(claim, self._volume_index, self._around, promised=self._promised)
        if isinstance(action, claims.Ask | claims.Stay) and action.for_any:
            # Before anything is waited for: a volume that becomes free meanwhile must find this claim.
            self._waiting.add(claim)
        try:
            return await self._serve(claim, action)
        except errors.NotFound:
            # The claim or the volume is gone, which the watch tells in a moment. If it is the volume, another may do.
            return LookAgain(after=CATCH_UP_SECONDS)
        finally:
            for name in self._waiting.looked(key):
                self._offer(name)

    async def _serve(self, claim: PersistentVolumeClaim, action: claims.Action) -> Outcome:
        match action:
            case claims.Bind(volume):
                await self._bind(volume, claim)
            case claims.Stay(why, for_any):
                await self._writes.set_unbound(claim, PENDING)
                if for_any and (left := self._patience_left(claim.key)) > 0:
                    return LookAgain(after=left)
                self._recorder.event_once(claim, *why)
            case claims.Lose(why):
                return await self._lose(claim, why)
            case claims.Assign(class_name):
                await self._writes.assign_class(claim, class_name)
            case claims.Ask(provisioner):
                await self._writes.ask_provisioner(claim, provisioner)
                self._recorder.event_once(claim, claim_events.external(provisioner))
        return Done()

    async def _bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        self._promised.add(volume.key)
        try:
            await self._writes.bind(volume, claim)
        except BaseException:
            self._promised.discard(volume.key)
            self._not_bound(volume.key, claim.key)
            raise
        self._promised.discard(volume.key)
        self._forget(claim.key)

    def _not_bound(self, name: str, claim_key: str) -> None:
        """Half-way, or somebody else was faster: whoever was not woken while the volume was promised is woken now.

        Not the claim itself: it is tried again after a while, and to look at once would be to fail on the same view.
        """
        self._volume_queue.add(name)
        volume = self._volumes.by_key(name)
        reference = volume.spec.claim_ref if volume is not None else None
        if reference is not None and (key := f"{reference.namespace}/{reference.name}") != claim_key:
            self._claim_queue.add(key)
        self._offer(name)

    async def _lose(self, claim: PersistentVolumeClaim, why: Notice) -> Outcome:
        name = claim.spec.volume_name
        if why is claim_events.LOST_VOLUME and await self._volume_objects.find(name) is not None:
            return LookAgain(after=CATCH_UP_SECONDS)  # only our view of the volumes was behind
        if claim.status.phase != LOST:
            await self._writes.set_unbound(claim, LOST)
            self._recorder.event_once(claim, why)
        return Done()

    def _patience_left(self, key: str) -> float:
        now = self._clock.monotonic()
        return self._since.setdefault(key, now) + PATIENCE_SECONDS - now

    def _forget(self, key: str) -> None:
        """What was told before says nothing about what comes now."""
        self._recorder.forget(key)
        self._since.pop(key, None)

    def _offer(self, name: str) -> None:
        volume = self._volume_index.get(name)
        if volume is not None and fit.is_free(volume) and name not in self._promised:
            key = self._waiting.wake(volume)
            if key is not None:
                self._claim_queue.add(key)

    # What wakes whom.

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        volume = new or old
        assert volume is not None
        if self._writes.own and volume.key in self._promised:
            return  # a step of a binding, by whoever takes the next
        if new is None:
            self._recorder.forget(volume.key)
        else:
            self._volume_queue.add(volume.key)
        references = {one.spec.claim_ref for one in (old, new) if one is not None and one.spec.claim_ref is not None}
        for reference in references:
            self._claim_queue.add(f"{reference.namespace}/{reference.name}")
        for claim in self._claims.find(BY_VOLUME, volume.key):
            self._claim_queue.add(claim.key)
        if new is not None:
            self._offer(new.key)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        claim = new or old
        assert claim is not None
        if self._writes.own and claim.spec.volume_name in self._promised:
            return
        if new is None:
            self._forget(claim.key)
            self._waiting.remove(claim.key)
            for name in self._waiting.looked(claim.key):
                self._offer(name)
        else:
            self._claim_queue.add(claim.key)
        if old is None or new is None or _whose(old) != _whose(new):
            for volume in self._volume_index.reserved(claim.key):
                self._volume_queue.add(volume.key)

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        changed = new or old
        assert changed is not None
        for claim in self._claims.list():
            unbound = well_known.BIND_COMPLETED not in claim.metadata.annotations
            if unbound and (fit.class_of(claim) == changed.key or not fit.names_class(claim)):
                self._claim_queue.add(claim.key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        for key in claims_of(pod):
            claim = self._claims.by_key(key)
            if claim is not None and well_known.BIND_COMPLETED not in claim.metadata.annotations:
                self._claim_queue.add(key)

    def _unscheduled_pods(self, claim_key: str) -> Sequence[str]:
        pods = self._pods.find(BY_CLAIM, claim_key)
        return sorted(
            pod.metadata.name
            for pod in pods
            if not pod.spec.node_name and pod.status.phase not in ("Succeeded", "Failed")
        )


def _volume_of(claim: PersistentVolumeClaim) -> Iterable[str]:
    return (claim.spec.volume_name,) if claim.spec.volume_name else ()


def _whose(claim: PersistentVolumeClaim) -> tuple[str, str]:
    return claim.metadata.uid, claim.spec.volume_name
