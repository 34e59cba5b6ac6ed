"""A node that has a volume for each claim of a group, and which: it computes, never waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from localpv.api import volume_affinity, well_known
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim
from localpv.volume import fit
from localpv.volume.volume_index import VolumeIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A volume for each claim, all usable on one node."""

    node: str
    volumes: Mapping[str, PersistentVolume]
    """By the key of the claim."""


class Nodes:
    """Nodes, and on which of them volumes can be used: asked for thousands of volumes among thousands of nodes."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._all = {node.key: node for node in nodes}
        self._by_hostname: dict[str, list[Node]] = {}
        for node in self._all.values():
            self._by_hostname.setdefault(node.metadata.labels.get(well_known.HOSTNAME, ""), []).append(node)

    def of(self, volume: PersistentVolume) -> list[Node]:
        """Where a volume can be used."""
        named = volume_affinity.of(volume).values(well_known.HOSTNAME)
        if named is None:
            return [node for node in self._all.values() if fit.fits_node(volume, node)]
        likely = (node for name in named for node in self._by_hostname.get(name, ()))
        return [node for node in likely if fit.fits_node(volume, node)]

    def domains(self, volume: PersistentVolume, key: str) -> set[str]:
        """The values of a label on the nodes where a volume can be used."""
        return {node.metadata.labels[key] for node in self.of(volume) if key in node.metadata.labels}


def choose(
    claims: Sequence[PersistentVolumeClaim],
    *,
    nodes: Nodes,
    volume_index: VolumeIndex,
    held: Sequence[PersistentVolume] = (),
    allowed: Callable[[Node], bool] = lambda node: True,
) -> Choice | None:
    """The node on which the claims take up the least, of equals the first by name; None when none can serve them all.

    Volumes in `held` are this group's already and count as free.
    """
    there: dict[str, dict[str, list[PersistentVolume]]] = {}
    open_nodes: dict[str, bool] = {}
    for claim in claims:
        for volume in _candidates(claim, volume_index, held):
            for node in nodes.of(volume):
                if node.key not in open_nodes:
                    open_nodes[node.key] = _takes_pods(node) and allowed(node)
                if open_nodes[node.key]:
                    there.setdefault(node.key, {}).setdefault(claim.key, []).append(volume)
    best: tuple[int, str] | None = None
    chosen: Choice | None = None
    for name, candidates in there.items():
        volumes = _assign(candidates) if len(candidates) == len(claims) else None
        if volumes is None:
            continue
        rank = (sum(fit.size(volume) for volume in volumes.values()), name)
        if best is None or rank < best:
            best, chosen = rank, Choice(node=name, volumes=volumes)
    return chosen


def _takes_pods(node: Node) -> bool:
    return not node.spec.unschedulable and not node.metadata.deleting


def _candidates(
    claim: PersistentVolumeClaim, volume_index: VolumeIndex, held: Sequence[PersistentVolume]
) -> list[PersistentVolume]:
    selector = fit.selector_of(claim)
    mine = [
        volume
        for volume in held
        if fit.mismatch(volume, claim) is None and (selector is None or selector.matches(volume.metadata.labels))
    ]
    return sorted([*mine, *volume_index.fitting(claim)], key=lambda volume: (fit.size(volume), volume.key))


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
