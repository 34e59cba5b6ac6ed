"""The writes that reserve volumes, each for the very version of the volume that was decided on.

All volumes of a group are first held under a name that no claim has: nobody binds them, and nobody else takes them.
Only when all are held are they given to the claims. What if we die in between? Before the last one is held no claim has
got anything, and whoever comes after finds the held ones by that name, goes on or lets them go. Afterwards nothing is
missing any more.
"""

from __future__ import annotations

import logging
from typing import Any

from localpv.api import well_known
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim
from localpv.client.client import Client
from localpv.client.informer import Informer

log = logging.getLogger(__name__)


class Reservations:
    """Reserves volumes; Conflict when somebody else was faster."""

    def __init__(self, client: Client, *, volumes: Informer[PersistentVolume]) -> None:
        self._objects = client.objects(PersistentVolume)
        self._volumes = volumes

    async def hold(self, volume: PersistentVolume, group: str) -> PersistentVolume:
        """Keep the volume for a group, by its key."""
        namespace, _, name = group.partition("/")
        return await self._refer(volume, {"namespace": namespace, "name": name})

    async def give(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
        """Reserve the volume for a claim, as a scheduler does; whoever binds does the rest."""
        meta = claim.metadata
        reference = {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid}
        log.info("placed claim=%s volume=%s uid=%s", claim.key, volume.key, volume.metadata.uid)
        return await self._refer(volume, reference, {well_known.BOUND_BY_CONTROLLER: "yes"})

    async def free(self, volume: PersistentVolume) -> PersistentVolume:
        """Let go of a volume that was held."""
        return await self._patch(volume, {"spec": {"claimRef": None}})

    async def _refer(
        self, volume: PersistentVolume, reference: dict[str, str], annotations: dict[str, str] | None = None
    ) -> PersistentVolume:
        whole = {"apiVersion": "v1", "kind": PersistentVolumeClaim.resource.kind, **reference}
        patch: dict[str, Any] = {"spec": {"claimRef": whole}}
        return await self._patch(volume, patch, annotations)

    async def _patch(
        self, volume: PersistentVolume, patch: dict[str, Any], annotations: dict[str, str] | None = None
    ) -> PersistentVolume:
        meta = volume.metadata
        metadata: dict[str, Any] = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        if annotations:
            metadata["annotations"] = annotations
        return self._volumes.wrote(await self._objects.patch(meta.name, patch | {"metadata": metadata}))
