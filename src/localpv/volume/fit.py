"""One claim and one volume: whose the volume is, and whether it would do."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

import msgspec

from localpv.api import selectors, volume_affinity, well_known
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.volumes import (
    LabelSelector,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
)
from localpv.api.quantity import Quantity

FILESYSTEM = "Filesystem"
STORAGE = "storage"
AVAILABLE = "Available"
BOUND = "Bound"
LOST = "Lost"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"


class Mismatch(Enum):
    """Why a volume will not do, in the words of an event."""

    DELETING = "being deleted"
    CLASS = "of another storage class"
    ATTRIBUTES_CLASS = "of another volumeAttributesClass"
    VOLUME_MODE = "of another volumeMode"
    ACCESS_MODES = "without the access modes"
    SIZE = "too small"
    SELECTOR = "not selected by the claim"
    NODE = "on another node"


def class_of(claim: PersistentVolumeClaim) -> str:
    """The name of the class that a claim asks for; empty for a volume without a class."""
    annotations = claim.metadata.annotations
    if (named := annotations.get(well_known.BETA_STORAGE_CLASS)) is not None:
        return named
    if claim.spec.storage_class_name is not None:
        return claim.spec.storage_class_name
    return annotations.get(well_known.ALPHA_STORAGE_CLASS, "")


def names_class(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim says which class, be it none; otherwise the default class is meant, once there is one."""
    annotations = claim.metadata.annotations
    return (
        claim.spec.storage_class_name is not None
        or well_known.BETA_STORAGE_CLASS in annotations
        or well_known.ALPHA_STORAGE_CLASS in annotations
    )


def class_of_volume(volume: PersistentVolume) -> str:
    return volume.metadata.annotations.get(well_known.BETA_STORAGE_CLASS, volume.spec.storage_class_name)


def waits_for_consumer(storage_class: StorageClass | None) -> bool:
    """Whether claims of the class are bound only together with a pod."""
    return storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


@lru_cache(maxsize=4096)
def amount(text: str) -> int:
    """A quantity in billionths; the same few are read over and over."""
    return Quantity.parse(text).nanos


def wanted(claim: PersistentVolumeClaim) -> int:
    return amount(claim.spec.resources.requests.get(STORAGE, "0"))


def size(volume: PersistentVolume) -> int:
    return amount(volume.spec.capacity.get(STORAGE, "0"))


def same_mode(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """The nine rows of the matrix: what is not said means Filesystem, on both sides."""
    return (volume.spec.volume_mode or FILESYSTEM) == (claim.spec.volume_mode or FILESYSTEM)


def is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume names this claim: bound to it, or reserved for whichever claim has its name.

    A claim that was made anew under the same name is another claim, and what was its predecessor's is not its own.
    """
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.namespace, reference.name) == (claim.metadata.namespace, claim.metadata.name)
        and reference.uid in ("", claim.metadata.uid)
    )


def is_free(volume: PersistentVolume) -> bool:
    """Whether anybody may have the volume."""
    return volume.spec.claim_ref is None and volume.status.phase == AVAILABLE and not volume.metadata.deleting


def fits_node(volume: PersistentVolume, node: Node) -> bool:
    """Whether the volume can be used on a node; without node affinity it can be on every one."""
    return volume_affinity.of(volume).matches(node.metadata.labels)


def class_allows(storage_class: StorageClass, node: Node) -> bool:
    """Whether volumes of the class may be made on a node. A term without expressions allows none."""
    terms = storage_class.allowed_topologies
    return not terms or any(_allows(term, node) for term in terms)


def _allows(term: TopologySelectorTerm, node: Node) -> bool:
    wanted = term.match_label_expressions
    return bool(wanted) and all(node.metadata.labels.get(one.key) in one.values for one in wanted)


def mismatch(volume: PersistentVolume, claim: PersistentVolumeClaim) -> Mismatch | None:
    """What keeps the claim from getting a volume that it asks for by name; None when nothing does.

    By name even a volume that the claim's selector leaves out can be asked for.
    """
    if volume.metadata.deleting:
        return Mismatch.DELETING
    if size(volume) < wanted(claim):
        return Mismatch.SIZE
    if class_of_volume(volume) != class_of(claim):
        return Mismatch.CLASS
    return _of_another_kind(volume, claim)


def reserved_fits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume that names the claim can be bound to it. Class and selector are not asked: somebody chose it."""
    return not volume.metadata.deleting and size(volume) >= wanted(claim) and _of_another_kind(volume, claim) is None


def _of_another_kind(volume: PersistentVolume, claim: PersistentVolumeClaim) -> Mismatch | None:
    if (volume.spec.volume_attributes_class_name or "") != (claim.spec.volume_attributes_class_name or ""):
        return Mismatch.ATTRIBUTES_CLASS
    if not same_mode(volume, claim):
        return Mismatch.VOLUME_MODE
    if not set(claim.spec.access_modes) <= set(volume.spec.access_modes):
        return Mismatch.ACCESS_MODES
    return None


def selector_of(claim: PersistentVolumeClaim) -> selectors.LabelSelector | None:
    return None if claim.spec.selector is None else _read_selector(claim.spec.selector)


def _read_selector(selector: LabelSelector) -> selectors.LabelSelector:
    return selectors.from_object(msgspec.to_builtins(selector))
