"""Which claims are placed in one go: those of a group, or a claim by itself that keeps its distance from others."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from localpv import errors
from localpv.api import well_known
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim
from localpv.volume import fit, placement_annotations
from localpv.volume.placement_annotations import Spread
from localpv.volume.volume_index import VolumeIndex

HOLDER = "held-for-group."
"""How the names begin that volumes are held under while a group is being placed; no claim should be called so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimGroup:
    """Claims that are placed together, oldest first, and how many there should be."""

    name: str
    count: int
    members: tuple[PersistentVolumeClaim, ...]
    surplus: tuple[PersistentVolumeClaim, ...] = ()
    """Younger claims of the group beyond its count."""

    @property
    def namespace(self) -> str:
        return self.members[0].metadata.namespace

    @property
    def complete(self) -> bool:
        return len(self.members) == self.count

    def spreads(self) -> set[Spread]:
        return {spread for claim in self.members if (spread := placement_annotations.spread_of(claim)) is not None}


def key_of(claim: PersistentVolumeClaim) -> str:
    """The key of the claim's group, `NAMESPACE/NAME`; empty when it wishes nothing. A bad wish is a group of its own.

    For a group it is also the name under which its volumes are held, so these are found again after a crash.
    """
    if not placement_annotations.has_wish(claim):
        return ""
    try:
        group = placement_annotations.group_of(claim)
    except errors.ConfigurationError:
        return claim.key
    if group is None:
        return claim.key
    digest = hashlib.sha256(group.name.encode()).hexdigest()[:16]
    return f"{claim.metadata.namespace}/{HOLDER}{digest}"


def is_group(key: str) -> bool:
    return key.partition("/")[2].startswith(HOLDER)


def gather(claims: Iterable[PersistentVolumeClaim]) -> ClaimGroup | None:
    """The group of claims that have the same key; ConfigurationError when they contradict each other or one is bad."""
    living = sorted(
        (claim for claim in claims if not claim.metadata.deleting),
        key=lambda claim: (claim.metadata.creation_timestamp or "", claim.key),
    )
    if not living:
        return None
    for claim in living:
        placement_annotations.spread_of(claim)
    group = placement_annotations.group_of(living[0])
    if group is None:
        return ClaimGroup(name="", count=1, members=(living[0],))
    counts = {each.count for claim in living if (each := placement_annotations.group_of(claim)) is not None}
    if len(counts) > 1:
        said = " and ".join(map(str, sorted(counts)))
        raise errors.ConfigurationError(
            f'metadata.annotations[{well_known.VOLUME_GROUP}]: the claims of group "{group.name}" count {said}',
            hint="give all claims of a group the same count",
        )
    return ClaimGroup(
        name=group.name,
        count=group.count,
        members=tuple(living[: group.count]),
        surplus=tuple(living[group.count :]),
    )


def place_of(claim: PersistentVolumeClaim, volume_index: VolumeIndex) -> PersistentVolume | None:
    """The volume that the claim has or is about to get."""
    if claim.spec.volume_name:
        return volume_index.get(claim.spec.volume_name)
    for volume in volume_index.reserved(claim.key):
        if fit.is_for(volume, claim) and fit.reserved_fits(volume, claim):
            return volume
    return None


def held(key: str, volume_index: VolumeIndex) -> list[PersistentVolume]:
    """The volumes that are held for a group, and for nobody else.

    One that names a UID is never among them: a claim that happens to have the group's name may have its data on it.
    """
    if not is_group(key):
        return []
    named = ((volume, volume.spec.claim_ref) for volume in volume_index.reserved(key))
    return [volume for volume, reference in named if reference is not None and not reference.uid]


def unplaced(group: ClaimGroup, volume_index: VolumeIndex) -> Sequence[PersistentVolumeClaim]:
    return [one for one in group.members if not one.spec.volume_name and place_of(one, volume_index) is None]
