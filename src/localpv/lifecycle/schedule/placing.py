"""From the promise of a node to the pod that is bound to it: reserve, wait for the binder, bind; or give it all back.

Promises live in memory only. If the scheduler dies before anything is written, nothing was given. If it dies after a
volume was reserved, the volume names its claim, the binder binds the two, and at the next start the pod follows its
claim. If it dies after the last write, the pod has its node.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from localpv import errors
from localpv.api.kinds import PersistentVolume, Pod
from localpv.client.pacing import Clock
from localpv.lifecycle.matching import fitting
from localpv.lifecycle.schedule import claims
from localpv.lifecycle.schedule.choosing import Chosen
from localpv.lifecycle.schedule.demands import Demand
from localpv.lifecycle.schedule.promises import Plan
from localpv.lifecycle.schedule.world import World
from localpv.lifecycle.schedule.writes import Writes

BIND_SECONDS = 600.0
"""How long the binder, or a provisioner, may take for the claims of a pod; as long as kube-scheduler gives them."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Bound:
    """The pod has its node."""

    node: str


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
    """The pods that are promised a node."""

    def __init__(self, world: World, writes: Writes, *, clock: Clock, bind_seconds: float = BIND_SECONDS) -> None:
        self._world = world
        self._writes = writes
        self._clock = clock
        self._bind_seconds = bind_seconds
        self._placements: dict[str, _Placement] = {}
        self._volumes: dict[str, str] = {}
        """Keys of pods, by the volumes that are reserved for their claims."""

        world.volumes.on_change(self._volume_changed)

    def __contains__(self, key: str) -> bool:
        return key in self._placements

    def promise(self, demand: Demand, chosen: Chosen) -> None:
        """Count the pod as being on the node, and its volumes as its own, before anything is written."""
        until = self._clock.monotonic() + self._bind_seconds
        self._placements[demand.key] = _Placement(demand, chosen.node, chosen.plan, until)
        self._volumes.update((binding.volume.metadata.name, demand.key) for binding in chosen.plan.bindings)
        self._world.places.assume(demand, chosen.node)
        self._world.promises.make(chosen.plan, chosen.node)

    async def settle(self, key: str, pod: Pod | None, *, wanted: bool) -> None:
        """Forget a placement that has come true, or give it back when the pod, as it is now, does not want it."""
        placement = self._placements.get(key)
        if placement is None:
            return
        if pod is None or pod.metadata.uid != placement.pod.metadata.uid:
            await self.give_back(key)
        elif pod.spec.node_name == placement.node:
            self._forget(placement)
            self._world.promises.keep(placement.plan)
        elif not wanted:
            await self.give_back(key)

    async def step(self, key: str) -> Bound | Later | Lost:
        """Take the pod one step nearer to its node. Repeatable: what is written already is not written again."""
        placement = self._placements[key]
        if placement.bound:
            return Bound(placement.node)
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
        reserving = (self._writes.reserve(binding) for binding in placement.plan.bindings)
        selecting = (self._writes.select_node(claim, placement.node) for claim in placement.plan.provisions)
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
            claim = self._world.claims.by_key(chosen.key)
            if claim is None or claim.metadata.uid != chosen.metadata.uid:
                placement.broken = f'persistentvolumeclaim "{chosen.metadata.name}" not found'
                return False
            if not claims.is_bound(claim):
                waits = True
                continue
            volume = self._world.volumes.get(claim.spec.volume_name)
            if volume is None:
                waits = True
            elif not fitting.fits_node(volume, place.node):
                placement.broken = f"volume {volume.metadata.name} of claim {claim.key} is not on {placement.node}"
                return False
        return waits

    async def give_back(self, key: str) -> None:
        """Undo what can be undone: a volume that is bound to its claim by now stays with it."""
        placement = self._placements[key]
        self._forget(placement)
        try:
            for binding in placement.plan.bindings:
                await self._writes.unreserve(binding)
            for claim in placement.plan.provisions:
                await self._writes.unselect_node(claim, placement.node)
        except errors.LocalpvError as error:
            # The claim keeps what it has: the pod will follow it, and no other claim can get the volume.
            log.warning("not given back pod=%s node=%s reason=%s", placement.pod.key, placement.node, error)
        finally:
            # The memory goes last: until the volume is free in the API nobody else may be promised it.
            self._world.promises.take_back(placement.plan)
            self._world.places.give_back(placement.pod.key)

    def _forget(self, placement: _Placement) -> None:
        del self._placements[placement.pod.key]
        for binding in placement.plan.bindings:
            self._volumes.pop(binding.volume.metadata.name, None)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        volume = new or old
        assert volume is not None
        placement = self._placements.get(self._volumes.get(volume.metadata.name, ""))
        if placement is None:
            return
        was_reserved = old is not None and old.spec.claim_ref is not None
        if new is None or (was_reserved and new.spec.claim_ref is None) or _is_anothers(new, placement):
            placement.broken = f"volume {volume.metadata.name} is no longer reserved"


def _is_anothers(volume: PersistentVolume, placement: _Placement) -> bool:
    reference = volume.spec.claim_ref
    return reference is not None and not any(fitting.is_for(volume, claim) for claim in placement.plan.claims)
