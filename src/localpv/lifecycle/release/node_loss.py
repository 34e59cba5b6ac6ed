"""Volumes whose node is gone: wait for it, let the claim go, or let the volume go too, as the class says.

A node is gone when there is no Node on which the volume could be used, by name or by label: a node's label
kubernetes.io/hostname need not be its name. A Node that was deleted and came back under its name, with another UID, is
not gone: mostly it is the same machine that registered anew, and its disks are still there.

What is left on the lost disk is not forgotten: its LocalDisk remembers the volume, and if the machine ever comes back,
the disk is cleaned before it is offered. The time since a node is gone counts from when we first saw it; after a
restart it begins anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import msgspec

from localpv import errors
from localpv.api.kinds import Node, PersistentVolume, PersistentVolumeClaim
from localpv.api.node_selector import NodeSelector
from localpv.client.client import Client
from localpv.client.pacing import Clock
from localpv.lifecycle.config.settings import NodeLossPolicy
from localpv.lifecycle.events import Events
from localpv.lifecycle.nodes import Nodes
from localpv.lifecycle.surroundings import Surroundings
from localpv.lifecycle.volumes import NODE_LABEL, Volumes, is_unclaimed
from localpv.runtime.controller import Done, LookAgain, Outcome

log = logging.getLogger(__name__)

HOSTNAME = "kubernetes.io/hostname"


class NodeLoss:
    """Looks after the volumes of nodes that are gone, one volume per call."""

    def __init__(
        self,
        client: Client,
        *,
        volumes: Volumes,
        nodes: Nodes,
        is_ours: Callable[[PersistentVolume], bool],
        surroundings: Surroundings,
        events: Events,
        clock: Clock,
    ) -> None:
        self._claims = client.objects(PersistentVolumeClaim)
        self._all_nodes = client.objects(Node)
        self._volumes = volumes
        self._nodes = nodes
        self._is_ours = is_ours
        self._surroundings = surroundings
        self._events = events
        self._clock = clock
        self._gone_since: dict[str, float] = {}
        """By the UID of the volume."""

    async def step(self, name: str) -> Outcome:
        volume = self._volumes.seen(name)
        if volume is None:
            return Done()
        uid = volume.metadata.uid
        settings = self._surroundings.configuration.classes.get(volume.spec.storage_class_name)
        if settings is None or settings.node_loss.policy is NodeLossPolicy.WAIT or not self._is_ours(volume):
            self._gone_since.pop(uid, None)
            return Done()
        if not is_lost(volume, self._nodes.list()):
            self._gone_since.pop(uid, None)
            return Done()
        now = self._clock.monotonic()
        if uid not in self._gone_since:
            self._gone_since[uid] = now
            self._events.tell(volume, "NodeLost", "No node has this volume any more.", warning=True)
        left = self._gone_since[uid] + settings.node_loss.grace_seconds - now
        if left > 0:
            return LookAgain(after=left)
        return await self._give_up(name, settings.node_loss.policy)

    async def _give_up(self, name: str, policy: NodeLossPolicy) -> Outcome:
        # Our view of the nodes may be old, and what follows cannot be taken back.
        volume = await self._volumes.find(name)
        nodes = await self._all_nodes.list()
        if volume is None or not self._is_ours(volume) or not is_lost(volume, nodes.items):
            return Done()
        await self._release_claim(volume)
        if policy is NodeLossPolicy.DELETE and not volume.metadata.deleting and _may_be_deleted(volume):
            await self._volumes.delete(volume)
            self._gone_since.pop(volume.metadata.uid, None)
            self._events.tell(volume, "VolumeDelete", "Its node is gone, and the class says to delete its volumes.")
            log.info("deleted volume of lost node volume=%s uid=%s", volume.key, volume.metadata.uid)
        return Done()

    async def _release_claim(self, volume: PersistentVolume) -> None:
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            return
        claim = await self._claims.find(reference.name, reference.namespace)
        if claim is None or claim.metadata.deleting:
            return
        if claim.metadata.uid != reference.uid or claim.spec.volume_name != volume.metadata.name:
            return  # a younger claim of the same name, which is another volume's
        try:
            await self._claims.delete(reference.name, reference.namespace, uid=reference.uid)
        except (errors.NotFound, errors.Conflict):
            return
        self._events.tell(volume, "ClaimReleased", f"Its node is gone; claim {claim.key} is deleted.", warning=True)
        log.info("released claim of lost node claim=%s volume=%s", claim.key, volume.key)


def is_lost(volume: PersistentVolume, nodes: Iterable[Node]) -> bool:
    """Whether none of the nodes can have the volume; False when nobody can tell."""
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity is not None else None
    names = {volume.metadata.labels.get(NODE_LABEL, "")} - {""}
    if required is not None:
        for term in required.node_selector_terms:
            for expression in term.match_expressions:
                if expression.key == HOSTNAME and expression.operator == "In":
                    names.update(expression.values)
    if required is None and not names:
        return False
    selector = NodeSelector(msgspec.to_builtins(required)) if required is not None else None
    for node in nodes:
        meta = node.metadata
        if meta.name in names or (selector is not None and selector.matches(meta.labels, meta.name)):
            return False
    return True


def _may_be_deleted(volume: PersistentVolume) -> bool:
    released = volume.status.phase == "Released" and volume.spec.persistent_volume_reclaim_policy == "Delete"
    return released or is_unclaimed(volume)
