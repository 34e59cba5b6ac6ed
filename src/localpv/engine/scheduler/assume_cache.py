"""What is given away in memory but not yet seen in the API: volumes to claims, and nodes to claims to provision.

The scheduler goes on with the next pod while the writes for the last one are under way. What that one was given must
not be given again. After a restart nothing is remembered, and nothing needs to be: what was written is seen, and
what was not was never given.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim
from localpv.volume.pool_ledger import PoolKey


@dataclass(frozen=True, slots=True)
class Binding:
    """A volume for a claim."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume


@dataclass(frozen=True, slots=True)
class Reservation:
    """Room in a pool for a claim to provision."""

    claim: PersistentVolumeClaim
    pool: PoolKey
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be written before a pod can be bound to its node."""

    bindings: tuple[Binding, ...] = ()
    provisions: tuple[PersistentVolumeClaim, ...] = ()
    """Claims for which somebody makes a volume on the node."""

    reserved: tuple[Reservation, ...] = ()
    """What those take of our pools there."""

    def __bool__(self) -> bool:
        return bool(self.bindings or self.provisions)

    @property
    def claims(self) -> tuple[PersistentVolumeClaim, ...]:
        return (*(binding.claim for binding in self.bindings), *self.provisions)


class AssumeCache:
    def __init__(self) -> None:
        self._claims: dict[str, str] = {}
        """Volumes, by the UID of the claim that they are assumed to belong to."""

        self._volumes: dict[str, str] = {}
        """UIDs of claims, by the volume that each is assumed to have."""

        self._nodes: dict[str, str] = {}
        """Nodes, by the UID of the claim that is to be provisioned there."""

        self._reserved: dict[str, Reservation] = {}
        """Room in pools that nobody has written down yet, by the UID of the claim."""

    @property
    def volumes(self) -> Collection[str]:
        """The names of all volumes that are assumed to belong to somebody, as they change."""
        return self._volumes.keys()

    def volume_of(self, claim: PersistentVolumeClaim) -> str | None:
        return self._claims.get(claim.metadata.uid)

    def node_of(self, claim: PersistentVolumeClaim) -> str | None:
        return self._nodes.get(claim.metadata.uid)

    def make(self, plan: Plan, node: str) -> None:
        for binding in plan.bindings:
            self._claims[binding.claim.metadata.uid] = binding.volume.metadata.name
            self._volumes[binding.volume.metadata.name] = binding.claim.metadata.uid
        for claim in plan.provisions:
            self._nodes[claim.metadata.uid] = node
        for each in plan.reserved:
            self._reserved[each.claim.metadata.uid] = each

    def reserved_in(self, pool: PoolKey) -> int:
        """Bytes of a pool that are given away and not written down yet."""
        return sum(each.size_bytes for each in self._reserved.values() if each.pool == pool)

    def written(self, claim_uid: str) -> None:
        """The room for the claim is seen to be reserved: the ledger counts it from here on."""
        self._reserved.pop(claim_uid, None)

    def take_back(self, claim: PersistentVolumeClaim) -> None:
        """Nobody waits for what is assumed any more."""
        volume = self._claims.pop(claim.metadata.uid, None)
        if volume is not None:
            self._volumes.pop(volume, None)
        self._nodes.pop(claim.metadata.uid, None)
        self._reserved.pop(claim.metadata.uid, None)

    def kept(self, volume: str) -> None:
        """The volume is seen to belong to its claim, or is gone: the API says it better from here on."""
        claim = self._volumes.pop(volume, None)
        if claim is not None:
            self._claims.pop(claim, None)
