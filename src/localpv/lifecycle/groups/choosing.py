"""A node that has a volume for each claim of a party, and which: it computes, never waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from localpv.api.kinds import Node, PersistentVolume, PersistentVolumeClaim
from localpv.lifecycle.matching import fitting
from localpv.lifecycle.matching.offers import Offers


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A volume for each claim, all usable on one node."""

    node: str
    volumes: Mapping[str, PersistentVolume]
    """By the key of the claim."""


def choose(
    claims: Sequence[PersistentVolumeClaim],
    *,
    nodes: Iterable[Node],
    offers: Offers,
    held: Sequence[PersistentVolume] = (),
    allowed: Callable[[Node], bool] = lambda node: True,
) -> Choice | None:
    """The node on which the claims take up the least, of equals the first by name; None when none can serve them all.

    Volumes in `held` are this party's already and count as free.
    """
    candidates = {claim.key: _candidates(claim, offers, held) for claim in claims}
    best: tuple[int, str] | None = None
    chosen: Choice | None = None
    for node in sorted(nodes, key=lambda node: node.key):
        if node.spec.unschedulable or node.metadata.deleting or not allowed(node):
            continue
        here = {key: [one for one in each if fitting.fits_node(one, node)] for key, each in candidates.items()}
        volumes = _assign(here)
        if volumes is None:
            continue
        rank = (sum(fitting.size(volume) for volume in volumes.values()), node.key)
        if best is None or rank < best:
            best, chosen = rank, Choice(node=node.key, volumes=volumes)
    return chosen


def domains(volume: PersistentVolume, key: str, nodes: Iterable[Node]) -> set[str]:
    """The values of a label on the nodes where a volume can be used."""
    return {
        node.metadata.labels[key] for node in nodes if key in node.metadata.labels and fitting.fits_node(volume, node)
    }


def _candidates(
    claim: PersistentVolumeClaim, offers: Offers, held: Sequence[PersistentVolume]
) -> list[PersistentVolume]:
    selector = fitting.selector_of(claim)
    mine = [
        volume
        for volume in held
        if fitting.mismatch(volume, claim) is None and (selector is None or selector.matches(volume.metadata.labels))
    ]
    return sorted([*mine, *offers.fitting(claim)], key=lambda volume: (fitting.size(volume), volume.key))


def _assign(candidates: Mapping[str, Sequence[PersistentVolume]]) -> dict[str, PersistentVolume] | None:
    """A different volume for each claim, if that is possible at all: claims make room for each other where they can."""
    owner: dict[str, str] = {}
    volumes: dict[str, PersistentVolume] = {}

    def give(claim: str, tried: set[str]) -> bool:
        for volume in candidates[claim]:
            if volume.key in tried:
                continue
            tried.add(volume.key)
            if volume.key not in owner or give(owner[volume.key], tried):
                owner[volume.key] = claim
                volumes[claim] = volume
                return True
        return False

    # The choosiest first, so that few have to move.
    for claim in sorted(candidates, key=lambda claim: (len(candidates[claim]), claim)):
        if not give(claim, set()):
            return None
    return volumes
