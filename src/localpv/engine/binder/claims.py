"""What to do about a claim. It computes and never waits; the binder acts on it.

Everything follows from the objects as they are now, so it can be asked at any time, after any crash.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from localpv.api import well_known
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from localpv.observe import claim_events
from localpv.observe.recorder import Notice
from localpv.volume import fit, placement_annotations, volume_index
from localpv.volume.volume_index import VolumeIndex

PROVISIONER = well_known.STORAGE_PROVISIONER
BETA_PROVISIONER = well_known.BETA_STORAGE_PROVISIONER
BUILT_IN = "kubernetes.io/"
"""How the names of provisioners begin that are part of Kubernetes, and not of us."""


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind the two, or finish what was begun."""

    volume: PersistentVolume


@dataclass(frozen=True, slots=True)
class Stay:
    """The claim stays Pending until something changes."""

    why: Sequence[Notice] = ()
    for_any: bool = False
    """Whether a volume that becomes free can help. Never so for a class that waits: the scheduler chooses there."""


@dataclass(frozen=True, slots=True)
class Lose:
    """The claim was bound, and its volume is not there any more, or another's."""

    why: Notice


@dataclass(frozen=True, slots=True)
class Assign:
    """The claim says nothing about its class, and there is a default."""

    class_name: str


@dataclass(frozen=True, slots=True)
class Ask:
    """Somebody outside makes volumes for this class."""

    provisioner: str
    for_any: bool = False


Action = Bind | Stay | Lose | Assign | Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Listers:
    """What is known beside the claim and the volumes."""

    classes: Callable[[str], StorageClass | None]
    default_class: Callable[[], str]
    """The name of the default class; empty when there is none."""

    unscheduled_pods: Callable[[str], Sequence[str]]
    """Names of the pods that use the claim with this key and have no node yet."""


def decide(claim: PersistentVolumeClaim, volumes: VolumeIndex, around: Listers, *, promised: Collection[str]) -> Action:
    """What to do about a claim; `promised` are volumes that are being given to other claims at this moment."""
    if well_known.BIND_COMPLETED in claim.metadata.annotations:
        return _was_bound(claim, volumes)
    if claim.spec.volume_name:
        return _asks_by_name(claim, volumes)
    storage_class = around.classes(fit.class_of(claim))
    found = volume_index.find(claim, volumes, storage_class=storage_class, exclude=promised)
    if found is not None:
        return Bind(found)
    if not fit.names_class(claim) and (name := around.default_class()):
        return Assign(name)
    if placement_annotations.has_wish(claim):
        return Stay()
    waits = fit.waits_for_consumer(storage_class)
    if waits and well_known.SELECTED_NODE not in claim.metadata.annotations:
        return Stay([claim_events.waits_for_pod(around.unscheduled_pods(claim.key))])
    if storage_class is not None and not storage_class.provisioner.startswith(BUILT_IN):
        return Ask(storage_class.provisioner, for_any=not waits)
    return Stay(claim_events.no_volume(claim, storage_class, volumes.misses(claim)), for_any=not waits)


def _asks_by_name(claim: PersistentVolumeClaim, volumes: VolumeIndex) -> Action:
    name = claim.spec.volume_name
    volume = volumes.get(name)
    if volume is None:
        return Stay([claim_events.not_there(name)])
    if volume.spec.claim_ref is None:
        wrong = fit.mismatch(volume, claim)
        return Bind(volume) if wrong is None else Stay([claim_events.mismatched(volume, wrong)])
    return Bind(volume) if fit.is_for(volume, claim) else Stay([claim_events.taken(name)])


def _was_bound(claim: PersistentVolumeClaim, volumes: VolumeIndex) -> Action:
    if not claim.spec.volume_name:
        return Lose(claim_events.LOST_REFERENCE)
    volume = volumes.get(claim.spec.volume_name)
    if volume is None:
        return Lose(claim_events.LOST_VOLUME)
    reference = volume.spec.claim_ref
    # A volume that lost its reference, by hand or because we died, is this claim's as long as nobody else has it.
    return Bind(volume) if reference is None or reference.uid == claim.metadata.uid else Lose(claim_events.MISBOUND)
