"""From a node that is assumed to one that is bound: reserve, wait for the binder, bind; or give it all back.

What is assumed lives in memory only. If the scheduler dies before anything is written, nothing was given. If it dies
after a volume was reserved, the volume names its claim, the binder binds the two, and at the next start the pod follows
its claim. If it dies after the last write, the pod has its node.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from localpv import errors
from localpv.api import well_known
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim
from localpv.engine.scheduler import claims
from localpv.engine.scheduler.assume_cache import Plan
from localpv.engine.scheduler.listers import Listers
from localpv.engine.scheduler.pod_info import PodInfo
from localpv.engine.scheduler.schedule_one import Chosen
from localpv.engine.scheduler.writes import Writes
from localpv.runtime.clock import Clock
from localpv.volume import fit

BIND_SECONDS = 600.0
"""How long the binder, or a provisioner, may take for the claims of a pod; as long as kube-scheduler gives them."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Bound:
    """The pod has its node."""

    node: str
    news: bool = True


@dataclass(frozen=True, slots=True)
class Later:
    """Its claims are not bound yet. Whoever changes them wakes the pod; after so many seconds it is too late."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Lost:
    """The assumption cannot be kept: everything is to be given back."""

    reason: str
    error: errors.LocalpvError | None = None
    """What a write met, if that is why."""


@dataclass(slots=True)
class _AssumedPod:
    pod_info: PodInfo
    node: str
    plan: Plan
    until: float
    written: bool = False
    broken: str = ""
    """Why the assumption cannot be kept; empty while it can."""

    bound: bool = False

    @property
    def pod(self) -> Pod:
        return self.pod_info.pod


class BindCycle:
    """The pods that are assumed to be on a node. `again` has a pod looked at soon."""

    def __init__(
        self,
        listers: Listers,
        writes: Writes,
        *,
        again: Callable[[str], None],
        clock: Clock,
        bind_seconds: float = BIND_SECONDS,
    ) -> None:
        self._listers = listers
        self._writes = writes
        self._again = again
        self._clock = clock
        self._bind_seconds = bind_seconds
        self._assumed: dict[str, _AssumedPod] = {}
        self._holders: dict[str, list[str]] = {}
        """Keys of the pods for which something is assumed of a claim, by the claim's UID. Several pods may use one
        claim: the first of them writes, and the others wait with it."""

        listers.volumes.add_event_handler(self._volume_changed)
        listers.nodes.add_event_handler(self._node_changed)

    def __contains__(self, key: str) -> bool:
        return key in self._assumed

    def assume(self, pod_info: PodInfo, chosen: Chosen) -> None:
        """Count the pod as being on the node, and its volumes as its own, before anything is written."""
        until = self._clock.monotonic() + self._bind_seconds
        self._assumed[pod_info.key] = _AssumedPod(pod_info, chosen.node, chosen.plan, until)
        for claim in chosen.plan.claims:
            self._holders.setdefault(claim.metadata.uid, []).append(pod_info.key)
        self._listers.node_infos.assume(pod_info, chosen.node)
        self._listers.assume_cache.make(chosen.plan, chosen.node)

    async def settle(self, key: str, pod: Pod | None, *, wanted: bool) -> None:
        """Forget an assumption that has come true, or give it back when the pod, as it is now, does not want it."""
        assumed = self._assumed[key]
        if pod is not None and pod.metadata.uid == assumed.pod.metadata.uid and pod.spec.node_name == assumed.node:
            del self._assumed[key]
            for claim in assumed.plan.claims:
                self._let_go(claim, key)
        elif not wanted or pod is None or pod.metadata.uid != assumed.pod.metadata.uid:
            await self.give_back(key)

    async def step(self, key: str) -> Bound | Later | Lost:
        """Take the pod one step nearer to its node. Repeatable: what is written already is not written again."""
        assumed = self._assumed[key]
        if assumed.bound:
            return Bound(assumed.node, news=False)
        if not assumed.written:
            try:
                await self._write(assumed)
            except (errors.ApiError, errors.ConnectionLost) as error:
                return Lost(error.message, error)
        waits = self._waits(assumed)
        if assumed.broken:
            return Lost(assumed.broken)
        if waits and self._clock.monotonic() < assumed.until:
            return Later(assumed.until - self._clock.monotonic())
        if waits:
            return Lost(f"binding volumes: claims were not bound after {self._bind_seconds:g} s")
        if not await self._writes.bind(assumed.pod, assumed.node):
            return Lost("the pod was bound by another, or is gone")
        # It stays assumed until the pod is seen with its node: caches lag behind what was written.
        assumed.bound = True
        return Bound(assumed.node)

    async def _write(self, assumed: _AssumedPod) -> None:
        # All at once: the shorter the time in which one volume is reserved and another not, the better. Each is waited
        # for, so that what is given back afterwards is what was really written.
        plan, writes = assumed.plan, self._writes
        reserving = (writes.reserve(each) for each in plan.bindings if self._leads(assumed, each.claim))
        selecting = (writes.select_node(each, assumed.node) for each in plan.provisions if self._leads(assumed, each))
        for result in await asyncio.gather(*reserving, *selecting, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
        assumed.written = True

    def _waits(self, assumed: _AssumedPod) -> bool:
        """Whether a claim is still without its volume; marks the assumption as broken when it will never get one."""
        node_info = self._listers.node_infos.get(assumed.node)
        if node_info is None or node_info.node is None:
            assumed.broken = f"node {assumed.node} is gone"
            return False
        waits = False
        for chosen in assumed.plan.claims:
            claim = self._listers.claims.by_key(chosen.key)
            if claim is None or claim.metadata.uid != chosen.metadata.uid:
                assumed.broken = f'persistentvolumeclaim "{chosen.metadata.name}" not found'
                return False
            if not claims.is_bound(claim):
                waits = True
                chosen_node = claim.metadata.annotations.get(well_known.SELECTED_NODE)
                if assumed.written and chosen in assumed.plan.provisions and chosen_node != assumed.node:
                    # Whoever makes volumes cannot make one there, and asks for another node that way.
                    assumed.broken = f'provisioning failed for PVC "{claim.metadata.name}"'
                    return False
                continue
            volume = self._listers.volumes.by_key(claim.spec.volume_name)
            if volume is None:
                waits = True
            elif not fit.fits_node(volume, node_info.node):
                assumed.broken = f"volume {volume.metadata.name} of claim {claim.key} is not on {assumed.node}"
                return False
        return waits

    async def give_back(self, key: str) -> None:
        """Undo what can be undone: a volume that is bound to its claim by now stays with it."""
        assumed = self._assumed.pop(key)
        plan = assumed.plan
        try:
            for binding in plan.bindings:
                if self._leads(assumed, binding.claim):
                    await self._writes.unreserve(binding)
            for claim in plan.provisions:
                if self._leads(assumed, claim):
                    await self._writes.unselect_node(claim, assumed.node)
        except errors.LocalpvError as error:
            # The claim keeps what it has: the pod will follow it, and no other claim can get the volume.
            log.warning("not given back pod=%s node=%s reason=%s", key, assumed.node, error)
        finally:
            # The memory goes last: until the volume is free in the API nobody else may be given it.
            for claim in plan.claims:
                if self._leads(assumed, claim):
                    self._break(claim, "the pod that was placed first with the same claim was given back")
                self._let_go(claim, key, freed=True)
            self._listers.node_infos.give_back(key)

    def _leads(self, assumed: _AssumedPod, claim: PersistentVolumeClaim) -> bool:
        """Whether this pod is the one that writes for the claim."""
        return self._holders[claim.metadata.uid][0] == assumed.pod.key

    def _let_go(self, claim: PersistentVolumeClaim, key: str, *, freed: bool = False) -> None:
        holders = self._holders[claim.metadata.uid]
        holders.remove(key)
        if holders:
            return
        del self._holders[claim.metadata.uid]
        volume = self._listers.volumes.by_key(self._listers.assume_cache.volume_of(claim) or "")
        if freed or volume is None or volume.spec.claim_ref is not None:
            self._listers.assume_cache.take_back(claim)
        # Otherwise the volume is claimed but not seen to be: it stays assumed until it is.

    def _break(self, claim: PersistentVolumeClaim, why: str) -> None:
        """What is assumed of all pods that wait for the claim cannot be kept."""
        for key in self._holders.get(claim.metadata.uid, ()):
            if (assumed := self._assumed.get(key)) is not None and not assumed.bound:
                assumed.broken = why
                self._again(key)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        was = None if old is None else old.spec.claim_ref
        now = None if new is None else new.spec.claim_ref
        if old is None or was is None or (now is not None and now.uid == was.uid) or was.uid not in self._holders:
            return
        for key in self._holders[was.uid]:
            assumed = self._assumed.get(key)
            if assumed is not None and any(each.volume.key == old.key for each in assumed.plan.bindings):
                assumed.broken = f"volume {old.key} is no longer reserved"
                self._again(key)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None and old is not None:
            for key, assumed in self._assumed.items():
                if assumed.node == old.key:
                    self._again(key)
