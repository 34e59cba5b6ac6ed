"""The volumes that there are, laid out so that the right one for a claim is found without looking at the others.

Free volumes stand on shelves, one for each class, volumeMode, attributes class and set of access modes, the smallest
first. Volumes that name a claim are kept under that claim. So one more binding costs the same however many volumes are
bound already.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from localpv.api.kinds.cluster import Node
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from localpv.volume import fit as fitting
from localpv.volume import placement_annotations
from localpv.volume.fit import Mismatch


class _Shelf(NamedTuple):
    """What all volumes on a shelf have in common, apart from their class."""

    access_modes: frozenset[str]
    volume_mode: str
    attributes_class: str


_Sorted = list[tuple[int, str]]
"""Sizes and names; the name makes the choice among equals the same every time."""


class VolumeIndex:
    """Volumes by what they can be found by. `changed` can be told by a cache; everything else computes."""

    def __init__(self, volumes: Sequence[PersistentVolume] = ()) -> None:
        self._volumes: dict[str, PersistentVolume] = {}
        self._shelves: dict[str, dict[_Shelf, _Sorted]] = {}
        self._reserved: dict[str, dict[str, PersistentVolume]] = {}
        for volume in volumes:
            self.put(volume)

    def get(self, name: str) -> PersistentVolume | None:
        return self._volumes.get(name)

    def changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        """The handler of a cache."""
        if new is not None:
            self.put(new)
        elif old is not None:
            self.remove(old.key)

    def put(self, volume: PersistentVolume) -> None:
        self.remove(volume.key)
        self._volumes[volume.key] = volume
        if volume.spec.claim_ref is not None:
            self._reserved.setdefault(_named_by(volume), {})[volume.key] = volume
        elif fitting.is_free(volume):
            shelves = self._shelves.setdefault(fitting.class_of_volume(volume), {})
            bisect.insort(shelves.setdefault(_shelf(volume), []), (fitting.size(volume), volume.key))

    def remove(self, name: str) -> None:
        volume = self._volumes.pop(name, None)
        if volume is None:
            return
        if volume.spec.claim_ref is not None:
            kept = self._reserved[_named_by(volume)]
            del kept[name]
            if not kept:
                del self._reserved[_named_by(volume)]
        elif fitting.is_free(volume):
            shelves = self._shelves[fitting.class_of_volume(volume)]
            volumes = shelves[_shelf(volume)]
            del volumes[bisect.bisect_left(volumes, (fitting.size(volume), name))]
            if not volumes:
                del shelves[_shelf(volume)]

    def reserved(self, claim_key: str) -> list[PersistentVolume]:
        """Volumes that name the claim with this key, whatever its UID."""
        return [*self._reserved.get(claim_key, {}).values()]

    def free(self, class_name: str) -> Iterator[PersistentVolume]:
        """Every free volume of a class, the smallest of each shelf first."""
        for volumes in self._shelves.get(class_name, {}).values():
            for _, name in volumes:
                yield self._volumes[name]

    def fitting(self, claim: PersistentVolumeClaim) -> Iterator[PersistentVolume]:
        """Every free volume that suits the claim, those with the fewest access modes first, of these the smallest."""
        wanted, selector = fitting.wanted(claim), fitting.selector_of(claim)
        for volumes in self._suitable(claim):
            for _, name in volumes[bisect.bisect_left(volumes, (wanted, "")) :]:
                volume = self._volumes[name]
                if selector is None or selector.matches(volume.metadata.labels):
                    yield volume

    def misses(self, claim: PersistentVolumeClaim) -> Counter[Mismatch]:
        """How many free volumes of the claim's class will not do, by the first thing that is wrong with them."""
        found: Counter[Mismatch] = Counter()
        selector = fitting.selector_of(claim)
        for shelf, volumes in self._shelves.get(fitting.class_of(claim), {}).items():
            if (wrong := _wrong(shelf, claim)) is not None:
                found[wrong] += len(volumes)
                continue
            first = bisect.bisect_left(volumes, (fitting.wanted(claim), ""))
            found[Mismatch.SIZE] += first
            if selector is not None:
                found[Mismatch.SELECTOR] += sum(
                    not selector.matches(self._volumes[name].metadata.labels) for _, name in volumes[first:]
                )
        return +found

    def of_other_mode(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """The smallest free volume that nothing but its volumeMode keeps from the claim."""
        wanted, selector = fitting.wanted(claim), fitting.selector_of(claim)
        found: list[tuple[int, str]] = []
        for shelf, volumes in self._shelves.get(fitting.class_of(claim), {}).items():
            mode = claim.spec.volume_mode or fitting.FILESYSTEM
            if shelf.volume_mode == mode or _wrong(shelf._replace(volume_mode=mode), claim) is not None:
                continue
            suited = volumes[bisect.bisect_left(volumes, (wanted, "")) :]
            labelled = (
                (size, name)
                for size, name in suited
                if selector is None or selector.matches(self._volumes[name].metadata.labels)
            )
            if (first := next(labelled, None)) is not None:
                found.append(first)
        return self._volumes[min(found)[1]] if found else None

    def _suitable(self, claim: PersistentVolumeClaim) -> list[_Sorted]:
        shelves = self._shelves.get(fitting.class_of(claim), {})
        suitable = [
            (len(shelf.access_modes), shelf, each) for shelf, each in shelves.items() if not _wrong(shelf, claim)
        ]
        suitable.sort(key=lambda one: (one[0], sorted(one[1].access_modes)))
        return [each for _, _, each in suitable]


def find(
    claim: PersistentVolumeClaim,
    volume_index: VolumeIndex,
    *,
    storage_class: StorageClass | None,
    node: Node | None = None,
    exclude: Collection[str] = (),
) -> PersistentVolume | None:
    """The best volume for a claim: one that names it, else the smallest that fits.

    Without a node, as the binder asks, claims of a class that waits for a consumer get only what names them. With a
    node, as the scheduler asks, only what can be used there; and when what names the claim cannot, there is nothing.
    Volumes in `exclude`, by name, are promised to others. For claims that want to be together or apart (`wishes`)
    somebody else chooses.
    """
    for volume in volume_index.reserved(claim.key):
        if volume.key in exclude or not fitting.is_for(volume, claim) or not fitting.reserved_fits(volume, claim):
            continue
        return volume if node is None or fitting.fits_node(volume, node) else None
    if placement_annotations.has_wish(claim):
        return None
    if node is None:
        if fitting.waits_for_consumer(storage_class):
            return None
        return next((volume for volume in volume_index.fitting(claim) if volume.key not in exclude), None)
    fits = (
        volume
        for volume in volume_index.fitting(claim)
        if volume.key not in exclude and fitting.fits_node(volume, node)
    )
    return min(fits, key=lambda volume: (fitting.size(volume), volume.key), default=None)


def _named_by(volume: PersistentVolume) -> str:
    reference = volume.spec.claim_ref
    assert reference is not None
    return f"{reference.namespace}/{reference.name}"


def _shelf(volume: PersistentVolume) -> _Shelf:
    spec = volume.spec
    return _Shelf(
        frozenset(spec.access_modes), spec.volume_mode or fitting.FILESYSTEM, spec.volume_attributes_class_name or ""
    )


def _wrong(shelf: _Shelf, claim: PersistentVolumeClaim) -> Mismatch | None:
    if shelf.attributes_class != (claim.spec.volume_attributes_class_name or ""):
        return Mismatch.ATTRIBUTES_CLASS
    if shelf.volume_mode != (claim.spec.volume_mode or fitting.FILESYSTEM):
        return Mismatch.VOLUME_MODE
    return None if shelf.access_modes.issuperset(claim.spec.access_modes) else Mismatch.ACCESS_MODES
