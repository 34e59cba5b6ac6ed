"""Volumes by the nodes they can be used on.

Nearly every local volume names the one value that a label of its node must have. Volumes are laid out under these, so
that the volumes of one node are found without looking at those of the others; what cannot be laid out so lies apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from localpv.api import volume_affinity
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from localpv.volume import fit, volume_index
from localpv.volume.volume_index import VolumeIndex

MOST_ANCHORS = 16
"""A volume with more values than this is as good as everywhere."""

_Anchor = tuple[str, str]
"""A label and its value."""


class VolumesByNode:
    """All volumes, beside an index that somebody else keeps. `changed` is told after that knows of the change."""

    def __init__(self, volume_index: VolumeIndex) -> None:
        self._volume_index = volume_index
        self._anchored: dict[_Anchor, VolumeIndex] = {}
        self._elsewhere = VolumeIndex()
        self._shelves: dict[str, list[VolumeIndex]] = {}
        """Where each volume lies."""

    def get(self, name: str) -> PersistentVolume | None:
        return self._volume_index.get(name)

    def changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        """The handler of a cache."""
        volume = new or old
        assert volume is not None
        for shelf in self._shelves.pop(volume.key, ()):
            shelf.remove(volume.key)
        # Only free volumes are looked for by node; one that names a claim is found under the claim.
        if new is not None and fit.is_free(new):
            self._shelves[new.key] = self._shelves_for(new)
            for shelf in self._shelves[new.key]:
                shelf.put(new)

    def naming(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """A volume that names the claim and can be bound to it: nothing else will be."""
        return next(
            (
                volume
                for volume in self._volume_index.reserved(claim.key)
                if fit.is_for(volume, claim) and fit.reserved_fits(volume, claim)
            ),
            None,
        )

    def find(
        self,
        claim: PersistentVolumeClaim,
        node: Node,
        *,
        storage_class: StorageClass | None,
        exclude: Collection[str],
    ) -> PersistentVolume | None:
        """The smallest free volume for a claim that no volume names, of those that can be used on the node."""
        found = (
            volume_index.find(claim, shelf, storage_class=storage_class, node=node, exclude=exclude)
            for shelf in self._of(node)
        )
        return min(
            (volume for volume in found if volume is not None),
            key=lambda volume: (fit.size(volume), volume.key),
            default=None,
        )

    def _of(self, node: Node) -> Iterator[VolumeIndex]:
        yield self._elsewhere
        for label in node.metadata.labels.items():
            if (shelf := self._anchored.get(label)) is not None:
                yield shelf

    def _shelves_for(self, volume: PersistentVolume) -> list[VolumeIndex]:
        anchors = volume_affinity.of(volume).anchors(most=MOST_ANCHORS)
        return [self._anchored.setdefault(anchor, VolumeIndex()) for anchor in anchors] or [self._elsewhere]
