"""The component that places claims which want to be together or apart.

One worker, so that two groups never choose against each other; what it has written it knows at once. Only one placer
may run in a cluster: on Kubernetes the manager has a lease for that.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from localpv import errors
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim
from localpv.client.client import Client
from localpv.manager.groups import claim_groups, node_choice
from localpv.manager.groups.claim_groups import ClaimGroup
from localpv.manager.groups.consumers import Consumers, Nobody
from localpv.manager.groups.node_choice import Choice, Nodes
from localpv.manager.groups.reservations import Reservations
from localpv.observe.recorder import ApiRecorder, Notice
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Controller, Done, Outcome
from localpv.runtime.group import Group
from localpv.runtime.queue import WorkQueue
from localpv.volume import fit, placement_annotations
from localpv.volume.informers import VolumeInformers
from localpv.volume.placement_annotations import Spread

COMPONENT = "localpv-placer"
BY_GROUP = "group"
BY_SPREAD = "spread"

WAITS = "WaitForGroup"
FAILED = "FailedBinding"
APART = "GroupApart"
AWAITED = "WaitForFirstConsumer"
FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a group's own volumes, and those of claims it keeps its distance from, leave of the nodes."""

    placed: Sequence[PersistentVolume]
    taken: Mapping[Spread, set[str]]
    problem: Callable[[Node], str]
    """Why the pods that use the claims cannot be on a node."""

    problems: Counter[str] = field(default_factory=Counter)
    """Those that were met."""

    def allow(self, node: Node) -> bool:
        if not self._suits(node):
            return False
        if problem := self.problem(node):
            self.problems[problem] += 1
        return not problem

    def _suits(self, node: Node) -> bool:
        if not all(fit.fits_node(volume, node) for volume in self.placed):
            return False
        domains = ((node.metadata.labels.get(spread.key), taken) for spread, taken in self.taken.items())
        return all(domain is not None and domain not in taken for domain, taken in domains)


class Placer:
    """Runs until cancelled, beside the informers it is given."""

    def __init__(
        self, client: Client, *, informers: VolumeInformers, clock: Clock, consumers: Consumers | None = None
    ) -> None:
        self._clock = clock
        self._consumers = consumers or Nobody()
        self._claim_objects = client.objects(PersistentVolumeClaim)
        self._claims, self._volumes, self._volume_index = informers.claims, informers.volumes, informers.volume_index
        self._claims.add_indexers({BY_GROUP: _group_of, BY_SPREAD: _spread_of})
        self._nodes = informers.informer(Node)
        self._recorder = ApiRecorder(client, component=COMPONENT, clock=clock)
        self._reservations = Reservations(client, volumes=self._volumes)
        self._queue: WorkQueue[str] = WorkQueue(clock=clock)
        self._unplaced: set[str] = set()
        """Parties that a free volume, a node or a claim that goes may help."""

        self._ready = asyncio.Event()

    async def ready(self) -> None:
        """Wait until everything that exists has been seen."""
        await self._ready.wait()

    async def run(self) -> None:
        """Serve until cancelled."""
        for informer in (self._volumes, self._claims, self._nodes):
            await informer.wait_synced()
        await self._consumers.ready()
        self._consumers.on_change(self._pod_changed)
        self._volumes.add_event_handler(self._volume_changed)
        self._claims.add_event_handler(self._claim_changed)
        self._nodes.add_event_handler(self._node_changed)
        group = Group(clock=self._clock)
        group.add("events", self._recorder.run)
        group.add("placer", Controller("placer", self._look, queue=self._queue, clock=self._clock).run)
        await group.run(on_ready=self._ready.set)

    async def _look(self, key: str) -> Outcome:
        claims = self._claims.find(BY_GROUP, key)
        held = claim_groups.held(key, self._volume_index)
        self._unplaced.discard(key)
        try:
            group = claim_groups.gather(claims)
        except errors.ConfigurationError as error:
            for claim in claims:
                self._tell(claim, FAILED, f"{error.message}; {error.hint}", warning=True)
            group = None
        if group is None or not group.complete:
            if group is not None:
                self._tell_incomplete(group)
            await self._let_go(held)
            return Done()
        for claim in group.surplus:
            self._tell(claim, WAITS, f'group "{group.name}" has its {group.count} claims already; this is one more')
        waiting = claim_groups.unplaced(group, self._volume_index)
        nodes = Nodes(self._nodes.list())
        if not waiting:
            await self._let_go(held)
            self._tell_if_apart(group, nodes)
            return Done()
        self._unplaced.add(key)
        if self._consumers.are_awaited(group.members):
            await self._let_go(held)
            for claim in waiting:
                self._tell(claim, AWAITED, "waiting for first consumer to be created before binding")
            return Done()
        bounds = self._bounds(group, nodes)
        choice = node_choice.choose(
            waiting, nodes=nodes, volume_index=self._volume_index, held=held, allowed=bounds.allow
        )
        if choice is None:
            await self._let_go(held)
            for claim in waiting:
                self._tell(claim, FAILED, _why_not(group, len(waiting), bounds), warning=True)
            return Done()
        if not await self._are_there(waiting):
            return Done()  # the change is seen in a moment, and looked at
        await self._place(key, waiting, choice, held)
        self._consumers.placed(group.members, choice.node)
        return Done()

    async def _are_there(self, claims: Sequence[PersistentVolumeClaim]) -> bool:
        """Whether the claims still want volumes: one given to a claim that is gone comes back only as Released."""
        for claim in claims:
            fresh = await self._claim_objects.find(claim.metadata.name, claim.metadata.namespace)
            if fresh is None or fresh.metadata.uid != claim.metadata.uid:
                return False
            if fresh.metadata.deleting or fresh.spec.volume_name:
                return False
        return True

    async def _place(
        self, key: str, claims: Sequence[PersistentVolumeClaim], choice: Choice, held: Sequence[PersistentVolume]
    ) -> None:
        chosen = {volume.key for volume in choice.volumes.values()}
        await self._let_go([volume for volume in held if volume.key not in chosen])
        ours = {volume.key: volume for volume in held}
        if len(claims) > 1:
            for volume in choice.volumes.values():
                if volume.key not in ours:
                    ours[volume.key] = await self._reservations.hold(volume, key)
        for claim in claims:
            volume = choice.volumes[claim.key]
            await self._reservations.give(ours.get(volume.key, volume), claim)
            self._recorder.forget(claim.key)

    async def _let_go(self, held: Iterable[PersistentVolume]) -> None:
        for volume in held:
            await self._reservations.free(volume)

    def _bounds(self, group: ClaimGroup, nodes: Nodes) -> Bounds:
        """Where the group may go: where those volumes are that it has, and away from those of others."""
        own = {claim.key for claim in group.members}
        placed = [
            one for claim in group.members if (one := claim_groups.place_of(claim, self._volume_index)) is not None
        ]
        taken: dict[Spread, set[str]] = {}
        for spread in group.spreads():
            taken[spread] = set()
            for claim in self._claims.find(BY_SPREAD, f"{group.namespace}/{spread.name}"):
                other = claim_groups.place_of(claim, self._volume_index) if claim.key not in own else None
                if other is not None:
                    taken[spread] |= nodes.domains(other, spread.key)
        return Bounds(placed=placed, taken=taken, problem=lambda node: self._consumers.problem(group.members, node))

    def _tell_if_apart(self, group: ClaimGroup, nodes: Nodes) -> None:
        """On Kubernetes, claims of a class that binds at once are bound one by one before anybody can hold them."""
        placed = [
            one for claim in group.members if (one := claim_groups.place_of(claim, self._volume_index)) is not None
        ]
        common = [{node.key for node in nodes.of(volume)} for volume in placed]
        if len(placed) < 2 or not all(common) or set.intersection(*common):
            return
        message = (
            f'the claims of group "{group.name}" were bound on different nodes before they could be placed together;'
            " use a storage class with volumeBindingMode WaitForFirstConsumer"
        )
        for claim in group.members:
            self._tell(claim, APART, message, warning=True)

    def _tell_incomplete(self, group: ClaimGroup) -> None:
        message = f'{len(group.members)} of {group.count} claims of group "{group.name}" are there'
        for claim in group.members:
            if not claim.spec.volume_name:
                self._tell(claim, WAITS, message)

    def _tell(self, claim: PersistentVolumeClaim, reason: str, message: str, *, warning: bool = False) -> None:
        self._recorder.event_once(claim, Notice(reason=reason, message=message, warning=warning))

    # What wakes whom.

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        for claim in (old, new):
            if claim is not None and (key := claim_groups.key_of(claim)):
                self._queue.add(key)
        if new is None and old is not None:
            self._recorder.forget(old.key)
            if placement_annotations.has_wish(old):
                self._wake_all()  # its domain is free for another

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        volume = new or old
        assert volume is not None
        reference = volume.spec.claim_ref
        if reference is not None and claim_groups.is_group(key := f"{reference.namespace}/{reference.name}"):
            self._queue.add(key)
        elif new is None or fit.is_free(new):
            self._wake_all()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """A pod may be the consumer that is waited for, and one that goes leaves room for others."""
        if new is None or (new.status.phase in FINISHED and (old is None or old.status.phase not in FINISHED)):
            self._wake_all()
        elif old is None or old.spec != new.spec:
            for claim_key in self._consumers.claims_of(new):
                claim = self._claims.by_key(claim_key)
                if claim is not None and (key := claim_groups.key_of(claim)):
                    self._queue.add(key)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or _matters(old) != _matters(new):
            self._wake_all()

    def _wake_all(self) -> None:
        for key in self._unplaced:
            self._queue.add(key)


def _why_not(group: ClaimGroup, waiting: int, bounds: Bounds) -> str:
    apart = "".join(
        f", in another {spread.key} than {', '.join(sorted(domains)) or 'none yet'}"
        for spread, domains in sorted(bounds.taken.items(), key=lambda one: one[0].name)
    )
    if bounds.problems:
        met = ", ".join(f"{count} {problem}" for problem, count in sorted(bounds.problems.items()))
        apart += f", and room for the pods that use them: {met}"
    if group.count == 1:
        return f"no node has a free volume that suits this claim{apart}"
    missing = "" if waiting == group.count else f" ({group.count - waiting} of them have theirs)"
    return f'no node has free volumes for all {group.count} claims of group "{group.name}"{missing}{apart}'


def _matters(node: Node) -> tuple[object, ...]:
    spec, status = node.spec, node.status
    room = status.allocatable or status.capacity
    return node.metadata.labels, spec.unschedulable, spec.taints, room, node.metadata.deleting


def _group_of(claim: PersistentVolumeClaim) -> Iterable[str]:
    key = claim_groups.key_of(claim)
    return (key,) if key else ()


def _spread_of(claim: PersistentVolumeClaim) -> Iterable[str]:
    try:
        spread = placement_annotations.spread_of(claim)
    except errors.ConfigurationError:
        return ()
    return () if spread is None else (f"{claim.metadata.namespace}/{spread.name}",)
