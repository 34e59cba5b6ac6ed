"""The claims of a pod: which have their volume, and which wait for the pod's node to get one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from localpv.api import well_known
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from localpv.engine.scheduler import filter_messages
from localpv.engine.scheduler.assume_cache import AssumeCache, Binding, Plan
from localpv.engine.scheduler.filter_messages import ClusterEvent
from localpv.engine.scheduler.pod_info import ClaimUse, PodInfo
from localpv.engine.scheduler.storage_capacity import StorageCapacity
from localpv.engine.scheduler.volumes_by_node import VolumesByNode
from localpv.volume import fit, placement_annotations

ONE_POD_ONLY = "ReadWriteOncePod"

ZONES = {
    well_known.ZONE: well_known.ZONE,
    well_known.REGION: well_known.REGION,
    well_known.BETA_ZONE: well_known.ZONE,
    well_known.BETA_REGION: well_known.REGION,
}
"""Labels of a volume that its node must have too, and how they are called today."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """What is known of claims, volumes and classes, with what is assumed already."""

    claim: Callable[[str], PersistentVolumeClaim | None]
    storage_class: Callable[[str], StorageClass | None]
    volumes: VolumesByNode
    assume_cache: AssumeCache
    capacity: StorageCapacity


class Waits(Exception):
    """No node can be looked for yet: a claim is not ready, whatever the node."""

    def __init__(self, message: str, *wakes: ClusterEvent) -> None:
        super().__init__(message)
        self.wakes = frozenset(wakes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """Of one pod."""

    bound: tuple[PersistentVolume | None, ...] = ()
    """None for a claim whose volume is not there."""

    waiting: tuple[PersistentVolumeClaim, ...] = ()
    """Smallest first, so that a small claim does not take the one volume that is large enough for another."""

    one_pod_only: tuple[str, ...] = ()
    """Keys of claims that no other pod may use at the same time."""

    def problem(self, node: Node) -> str | None:
        """Why the volumes that the pod has cannot be used on a node."""
        for volume in self.bound:
            if volume is None:
                return filter_messages.VOLUME_GONE
            if not fit.fits_node(volume, node):
                return filter_messages.VOLUME_NODE
        return None

    def is_out_of_zone(self, node: Node) -> bool:
        """Whether a volume is in another zone than the node; who has no zones at all is in none of them."""
        labels = node.metadata.labels
        if not any(volume is not None and volume.metadata.labels for volume in self.bound):
            return False
        if not any(key in labels for key in ZONES):
            return False
        return any(
            # Several zones stand in one label with two underscores between them.
            labels.get(key, labels.get(today)) not in zones.split("__")
            for volume in self.bound
            if volume is not None
            for key, today in ZONES.items()
            if (zones := volume.metadata.labels.get(key)) is not None
        )

    def plan(self, node: Node, storage: Storage) -> Plan | str:
        """A volume on the node for every claim that waits, all of them together and none twice; why the node will not
        do when one is left without."""
        if not self.waiting:
            return Plan()
        bindings: list[Binding] = []
        provisions: list[PersistentVolumeClaim] = []
        taken = storage.assume_cache.volumes
        for claim in self.waiting:
            chosen = storage.assume_cache.node_of(claim) or claim.metadata.annotations.get(well_known.SELECTED_NODE)
            if chosen is not None and chosen != node.metadata.name:
                return filter_messages.NO_VOLUME
            volume = None if chosen is not None else _volume(claim, node, storage, taken)
            if volume is not None:
                # Copied only when there is something to add: this is asked about every node.
                taken = {*taken, volume.metadata.name} if len(self.waiting) > 1 else taken
                bindings.append(Binding(claim, volume))
            elif _may_be_provisioned(claim, node, storage):
                provisions.append(claim)
            else:
                return filter_messages.NO_VOLUME
        reserved = storage.capacity.reserve(node, [*_to_reserve(provisions, storage)])
        if isinstance(reserved, str):
            return reserved
        return Plan(bindings=tuple(bindings), provisions=tuple(provisions), reserved=reserved)


def _to_reserve(
    provisions: Sequence[PersistentVolumeClaim], storage: Storage
) -> Iterator[tuple[PersistentVolumeClaim, StorageClass]]:
    """Those for which nothing is reserved yet; several pods may wait for one claim."""
    for claim in provisions:
        storage_class = storage.storage_class(fit.class_of(claim))
        if storage_class is not None and storage.assume_cache.node_of(claim) is None:
            yield claim, storage_class


def read(pod_info: PodInfo, storage: Storage) -> Claims:
    """The claims of a pod as they are now; raises Waits when one of them is not ready for any node."""
    bound: list[PersistentVolume | None] = []
    waiting: list[PersistentVolumeClaim] = []
    alone: list[str] = []
    immediate = False
    for use in pod_info.claims:
        claim = _present(use, pod_info, storage)
        if ONE_POD_ONLY in claim.spec.access_modes and not use.ephemeral:
            alone.append(claim.key)
        if is_bound(claim):
            volume = storage.volumes.get(claim.spec.volume_name)
            if volume is None and not use.ephemeral:
                raise Waits(f'persistentvolume "{claim.spec.volume_name}" not found', ClusterEvent.VOLUME)
            bound.append(volume)
        elif not claim.spec.volume_name and fit.waits_for_consumer(storage.storage_class(fit.class_of(claim))):
            waiting.append(claim)
        else:
            immediate = True
    if immediate:
        raise Waits(filter_messages.UNBOUND_IMMEDIATE, ClusterEvent.CLASS)
    waiting.sort(key=fit.wanted)
    return Claims(bound=tuple(bound), waiting=tuple(waiting), one_pod_only=tuple(alone))


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether the binder is through with the claim."""
    return bool(claim.spec.volume_name) and well_known.BIND_COMPLETED in claim.metadata.annotations


def _present(use: ClaimUse, pod_info: PodInfo, storage: Storage) -> PersistentVolumeClaim:
    namespace = pod_info.pod.metadata.namespace
    claim = storage.claim(f"{namespace}/{use.name}")
    if claim is None and use.ephemeral:
        raise Waits(f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{use.name}"')
    if claim is None:
        raise Waits(f'persistentvolumeclaim "{use.name}" not found')
    if claim.status.phase == fit.LOST:
        volume = claim.spec.volume_name
        raise Waits(f'persistentvolumeclaim "{use.name}" bound to non-existent persistentvolume "{volume}"')
    if claim.metadata.deleting:
        raise Waits(f'persistentvolumeclaim "{use.name}" is being deleted')
    owners = claim.metadata.owner_references
    if use.ephemeral and not any(owner.controller and owner.uid == pod_info.pod.metadata.uid for owner in owners):
        # Somebody else's data: the pod must not get at it by a name that happens to fit.
        pod = pod_info.pod.metadata.name
        raise Waits(f"PVC {claim.key} was not created for pod {namespace}/{pod} (pod is not owner)")
    return claim


def _volume(
    claim: PersistentVolumeClaim, node: Node, storage: Storage, taken: Collection[str]
) -> PersistentVolume | None:
    assumed = storage.assume_cache.volume_of(claim)
    volume = storage.volumes.get(assumed) if assumed is not None else storage.volumes.naming(claim)
    if volume is not None:
        return volume if fit.fits_node(volume, node) else None
    if placement_annotations.has_wish(claim):
        return None  # chosen together with other claims, by those who look after that
    storage_class = storage.storage_class(fit.class_of(claim))
    return storage.volumes.find(claim, node, storage_class=storage_class, exclude=taken)


def _may_be_provisioned(claim: PersistentVolumeClaim, node: Node, storage: Storage) -> bool:
    if storage.assume_cache.volume_of(claim) is not None or storage.volumes.naming(claim) is not None:
        return False
    if placement_annotations.has_wish(claim):
        return False
    storage_class = storage.storage_class(fit.class_of(claim))
    if storage_class is None or storage_class.provisioner in ("", well_known.NO_PROVISIONER):
        return False
    return fit.class_allows(storage_class, node)
