"""Volumes whose node is gone: wait for it, let the claim go, or let the volume go too, as the class says.

A node is gone when there is no Node on which the volume could be used, by name or by label: a node's label
kubernetes.io/hostname need not be its name. A Node that was deleted and came back under its name, with another UID, is
not gone: mostly it is the same machine that registered anew, and its disks are still there.

What is left on the lost disk is not forgotten: its LocalDisk remembers the volume, and if the machine ever comes back,
the disk is cleaned before it is offered. A volume of which no LocalDisk knows stays. The time since a node is gone
counts from when a manager first saw it, which stands on the volume: the next manager goes on with it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime

from localpv import errors
from localpv.api import volume_affinity, well_known
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.meta import read_time, write_time
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim
from localpv.client.client import Client
from localpv.config.settings import NodeLossPolicy
from localpv.disk import labels
from localpv.manager.listers import Listers
from localpv.manager.nodes import Nodes
from localpv.manager.volumes import Volumes, is_held, is_unclaimed, is_unused
from localpv.observe.publishing import Publications
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Done, LookAgain, Outcome

log = logging.getLogger(__name__)


class NodeLoss:
    """Looks after the volumes of nodes that are gone, one volume per call."""

    def __init__(
        self,
        client: Client,
        *,
        volumes: Volumes,
        nodes: Nodes,
        is_ours: Callable[[PersistentVolume], bool],
        remembers: Callable[[PersistentVolume], Awaitable[bool]],
        listers: Listers,
        recorder: Publications,
        clock: Clock,
    ) -> None:
        self._claims = client.objects(PersistentVolumeClaim)
        self._all_nodes = client.objects(Node)
        self._volumes = volumes
        self._nodes = nodes
        self._is_ours = is_ours
        self._remembers = remembers
        self._listers = listers
        self._recorder = recorder
        self._clock = clock

    async def step(self, name: str) -> Outcome:
        volume = self._volumes.seen(name)
        if volume is None:
            return Done()
        if volume.metadata.deleting and is_held(volume) and _may_be_deleted(volume) and self._is_gone(volume):
            return await self._let_go(name)
        settings = self._listers.configuration.classes.get(volume.spec.storage_class_name)
        if (
            settings is None
            or settings.node_loss.policy is NodeLossPolicy.WAIT
            or not self._is_ours(volume)
            or not self._is_gone(volume)
        ):
            if labels.LOST_SINCE in volume.metadata.annotations:
                # Else the next loss would seem to have begun with this one.
                await self._volumes.annotate(volume, labels.LOST_SINCE, None)
            return Done()
        now, since = self._clock.now(), _lost_since(volume)
        if since is None:
            await self._volumes.annotate(volume, labels.LOST_SINCE, write_time(now))
            self._recorder.event(volume, "NodeLost", "No node has this volume any more.", warning=True)
            since = now
        grace = settings.node_loss.grace_seconds
        # A clock that was set back must not make it longer than the grace.
        left = min((since - now).total_seconds() + grace, grace)
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
            await self._delete(volume)
        return Done()

    async def _let_go(self, name: str) -> Outcome:
        """Somebody has deleted the volume, and nobody is there to clean its disk."""
        volume = await self._volumes.find(name)
        nodes = await self._all_nodes.list()
        if volume is None or not volume.metadata.deleting or not is_lost(volume, nodes.items):
            return Done()
        # Who has used it must be written down before it goes. What nobody has used is let go by publishing.
        if _may_be_deleted(volume) and not is_unused(volume) and await self._remembers(volume):
            await self._volumes.let_go(volume)
            log.info("let go volume of lost node volume=%s uid=%s", volume.key, volume.metadata.uid)
        return Done()

    def _is_gone(self, volume: PersistentVolume) -> bool:
        return is_lost(volume, self._nodes.list())

    async def _delete(self, volume: PersistentVolume) -> None:
        # Nobody can clean the disk now, so its record must know what is on it before the volume goes.
        if not is_unused(volume) and not await self._remembers(volume):
            message = "Its node is gone, but no LocalDisk knows of it; delete it by hand, or wait for the node."
            self._recorder.event(volume, "NotRemembered", message, warning=True)
            return
        try:
            await self._volumes.delete(volume)
        except errors.LocalpvError:
            self._recorder.volume_lost(volume, failed=True)
            raise
        self._recorder.volume_lost(volume)

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
        except errors.LocalpvError:
            self._recorder.claim_lost(volume, claim, failed=True)
            raise
        self._recorder.claim_lost(volume, claim)


def is_lost(volume: PersistentVolume, nodes: Iterable[Node]) -> bool:
    """Whether none of the nodes can have the volume; False when nobody can tell."""
    affinity = volume_affinity.of(volume)
    names = {volume.metadata.labels.get(labels.NODE, ""), *affinity.mentioned(well_known.HOSTNAME)} - {""}
    if not affinity.readable or (not affinity.names_nodes and not names):
        return False
    for node in nodes:
        meta = node.metadata
        if meta.name in names or (affinity.names_nodes and affinity.matches(meta.labels, meta.name)):
            return False
    return True


def _lost_since(volume: PersistentVolume) -> datetime | None:
    try:
        since = read_time(volume.metadata.annotations.get(labels.LOST_SINCE, ""))
    except ValueError:
        return None
    return since if since.tzinfo is not None else None


def _may_be_deleted(volume: PersistentVolume) -> bool:
    released = volume.status.phase == "Released" and volume.spec.persistent_volume_reclaim_policy == "Delete"
    return released or is_unclaimed(volume)
