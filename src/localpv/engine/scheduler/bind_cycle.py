"""From the promise of a node to the pod that is bound to it: reserve, wait for the binder, bind; or give it all back.

Promises live in memory only. If the scheduler dies before anything is written, nothing was given. If it dies after a
volume was reserved, the volume names its claim, the binder binds the two, and at the next start the pod follows its
claim. If it dies after the last write, the pod has its node.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from localpv import errors
from localpv.api.kinds import Node, PersistentVolume, PersistentVolumeClaim, Pod
from localpv.engine.scheduler import claims
from localpv.engine.scheduler.assume_cache import Plan
from localpv.engine.scheduler.listers import World
from localpv.engine.scheduler.pod_info import Demand
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
    """The promise cannot be kept: everything is to be given back."""

    reason: str
    error: errors.LocalpvError | None = None
    """What a write met, if that is why."""


@dataclass(slots=True)
class _Placement:
    demand: Demand
    node: str
    plan: Plan
    until: float
    written: bool = False
    broken: str = ""
    """Why the promise cannot be kept; empty while it can."""

    bound: bool = False

    @property
    def pod(self) -> Pod:
        return self.demand.pod


class Placing:
    """The pods that are promised a node. `again` has a pod looked at soon."""

    def __init__(
        self,
        world: World,
        writes: Writes,
        *,
        again: Callable[[str], None],
        clock: Clock,
        bind_seconds: float = BIND_SECONDS,
    ) -> None:
        self._world = world
        self._writes = writes
        self._again = again
        self._clock = clock
        self._bind_seconds = bind_seconds
        self._placements: dict[str, _Placement] = {}
        self._holders: dict[str, list[str]] = {}
        """Keys of the pods that were promised something for a claim, by the claim's UID. Several pods may use one
        claim: the first of them writes, and the others wait with it."""

        world.volumes.on_change(self._volume_changed)
        world.nodes.on_change(self._node_changed)

    def __contains__(self, key: str) -> bool:
        return key in self._placements

    def promise(self, demand: Demand, chosen: Chosen) -> None:
        """Count the pod as being on the node, and its volumes as its own, before anything is written."""
        until = self._clock.monotonic() + self._bind_seconds
        self._placements[demand.key] = _Placement(demand, chosen.node, chosen.plan, until)
        for claim in chosen.plan.claims:
            self._holders.setdefault(claim.metadata.uid, []).append(demand.key)
        self._world.places.assume(demand, chosen.node)
        self._world.promises.make(chosen.plan, chosen.node)

    async def settle(self, key: str, pod: Pod | None, *, wanted: bool) -> None:
        """Forget a placement that has come true, or give it back when the pod, as it is now, does not want it."""
        placement = self._placements[key]
        if pod is not None and pod.metadata.uid == placement.pod.metadata.uid and pod.spec.node_name == placement.node:
            del self._placements[key]
            for claim in placement.plan.claims:
                self._let_go(claim, key)
        elif not wanted or pod is None or pod.metadata.uid != placement.pod.metadata.uid:
            await self.give_back(key)

    async def step(self, key: str) -> Bound | Later | Lost:
        """Take the pod one step nearer to its node. Repeatable: what is written already is not written again."""
        placement = self._placements[key]
        if placement.bound:
            return Bound(placement.node, news=False)
        if not placement.written:
            try:
                await self._write(placement)
            except (errors.ApiError, errors.ConnectionLost) as error:
                return Lost(error.message, error)
        waits = self._waits(placement)
        if placement.broken:
            return Lost(placement.broken)
        if waits and self._clock.monotonic() < placement.until:
            return Later(placement.until - self._clock.monotonic())
        if waits:
            return Lost(f"binding volumes: claims were not bound after {self._bind_seconds:g} s")
        if not await self._writes.bind(placement.pod, placement.node):
            return Lost("the pod was bound by another, or is gone")
        # It stays counted as promised until the pod is seen with its node: caches lag behind what was written.
        placement.bound = True
        return Bound(placement.node)

    async def _write(self, placement: _Placement) -> None:
        # All at once: the shorter the time in which one volume is reserved and another not, the better. Each is waited
        # for, so that what is given back afterwards is what was really written.
        plan, writes = placement.plan, self._writes
        reserving = (writes.reserve(each) for each in plan.bindings if self._leads(placement, each.claim))
        selecting = (
            writes.select_node(each, placement.node) for each in plan.provisions if self._leads(placement, each)
        )
        for result in await asyncio.gather(*reserving, *selecting, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
        placement.written = True

    def _waits(self, placement: _Placement) -> bool:
        """Whether a claim is still without its volume; marks the placement as broken when it will never get one."""
        place = self._world.places.get(placement.node)
        if place is None or place.node is None:
            placement.broken = f"node {placement.node} is gone"
            return False
        waits = False
        for chosen in placement.plan.claims:
            claim = self._world.claims.get(chosen.key)
            if claim is None or claim.metadata.uid != chosen.metadata.uid:
                placement.broken = f'persistentvolumeclaim "{chosen.metadata.name}" not found'
                return False
            if not claims.is_bound(claim):
                waits = True
                continue
            volume = self._world.volumes.get(claim.spec.volume_name)
            if volume is None:
                waits = True
            elif not fit.fits_node(volume, place.node):
                placement.broken = f"volume {volume.metadata.name} of claim {claim.key} is not on {placement.node}"
                return False
        return waits

    async def give_back(self, key: str) -> None:
        """Undo what can be undone: a volume that is bound to its claim by now stays with it."""
        placement = self._placements.pop(key)
        plan = placement.plan
        try:
            for binding in plan.bindings:
                if self._leads(placement, binding.claim):
                    await self._writes.unreserve(binding)
            for claim in plan.provisions:
                if self._leads(placement, claim):
                    await self._writes.unselect_node(claim, placement.node)
        except errors.LocalpvError as error:
            # The claim keeps what it has: the pod will follow it, and no other claim can get the volume.
            log.warning("not given back pod=%s node=%s reason=%s", key, placement.node, error)
        finally:
            # The memory goes last: until the volume is free in the API nobody else may be promised it.
            for claim in plan.claims:
                if self._leads(placement, claim):
                    self._break(claim, "the pod that was placed first with the same claim was given back")
                self._let_go(claim, key, freed=True)
            self._world.places.give_back(key)

    def _leads(self, placement: _Placement, claim: PersistentVolumeClaim) -> bool:
        """Whether this pod is the one that writes for the claim."""
        return self._holders[claim.metadata.uid][0] == placement.pod.key

    def _let_go(self, claim: PersistentVolumeClaim, key: str, *, freed: bool = False) -> None:
        holders = self._holders[claim.metadata.uid]
        holders.remove(key)
        if holders:
            return
        del self._holders[claim.metadata.uid]
        promised = self._world.volumes.get(self._world.promises.volume_of(claim) or "")
        if freed or promised is None or promised.spec.claim_ref is not None:
            self._world.promises.take_back(claim)
        # Otherwise the volume is claimed but not seen to be: it stays promised until it is.

    def _break(self, claim: PersistentVolumeClaim, why: str) -> None:
        """The promises of all pods that wait for the claim cannot be kept."""
        for key in self._holders.get(claim.metadata.uid, ()):
            if (placement := self._placements.get(key)) is not None and not placement.bound:
                placement.broken = why
                self._again(key)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        was = None if old is None else old.spec.claim_ref
        now = None if new is None else new.spec.claim_ref
        if old is None or was is None or (now is not None and now.uid == was.uid) or was.uid not in self._holders:
            return
        for key in self._holders[was.uid]:
            placement = self._placements.get(key)
            if placement is not None and any(each.volume.key == old.key for each in placement.plan.bindings):
                placement.broken = f"volume {old.key} is no longer reserved"
                self._again(key)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None and old is not None:
            for key, placement in self._placements.items():
                if placement.node == old.key:
                    self._again(key)
