"""The writes that bind and part claims and volumes, each for the very object that was decided on.

Binding takes four writes. What if we die in between?

1. The volume names the claim. After it nobody else gets the volume, and the claim finds it again by that name.
2. The volume's phase is Bound.
3. The claim names the volume and says that binding is complete. From here on a missing volume means lost data.
4. The claim's phase is Bound, with the size and the access modes it got.

Each is done only where it is still missing, so whoever comes after a crash goes on where it ended.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from localpv.api import well_known
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim
from localpv.client.client import Client
from localpv.client.informer import Informer
from localpv.engine.binder.claims import BETA_PROVISIONER, PROVISIONER
from localpv.volume import fit

log = logging.getLogger(__name__)

PENDING = "Pending"
BOUND = fit.BOUND
LOST = fit.LOST


class Writes:
    """Changes claims and volumes; Conflict when somebody else was faster."""

    def __init__(
        self, client: Client, *, volumes: Informer[PersistentVolume], claims: Informer[PersistentVolumeClaim]
    ) -> None:
        self._volume_objects = client.objects(PersistentVolume)
        self._claim_objects = client.objects(PersistentVolumeClaim)
        self._volumes = volumes
        self._claims = claims
        self.own = False
        """While handlers are told: whether the change is one of these writes."""

    async def reserve(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
        """Write the claim's name and UID into the volume: from here on it is nobody else's."""
        reference = volume.spec.claim_ref
        if reference is not None and reference.uid == claim.metadata.uid:
            return volume
        meta = claim.metadata
        patch: dict[str, Any] = {
            "spec": {
                "claimRef": {
                    "apiVersion": claim.resource.api_version,
                    "kind": claim.resource.kind,
                    "namespace": meta.namespace,
                    "name": meta.name,
                    "uid": meta.uid,
                    "resourceVersion": meta.resource_version,
                }
            }
        }
        if not fit.is_for(volume, claim):
            patch["metadata"] = {"annotations": {well_known.BOUND_BY_CONTROLLER: "yes"}}
        return await self._change_volume(volume, patch)

    async def bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Bind the two, from wherever they are."""
        volume = await self.reserve(volume, claim)
        volume = await self.set_phase(volume, BOUND)
        claim = await self._name_volume(claim, volume)
        await self._set_bound(claim, volume)

    async def set_phase(self, volume: PersistentVolume, phase: str, message: str = "") -> PersistentVolume:
        if volume.status.phase == phase:
            return volume
        log.debug("volume=%s uid=%s phase=%s", volume.key, volume.metadata.uid, phase)
        return await self._change_volume(volume, {"status": {"phase": phase, "message": message or None}}, "status")

    async def unbind(self, volume: PersistentVolume) -> None:
        """Take back what was written into a volume for a claim that has another; a person's reservation stays."""
        if well_known.BOUND_BY_CONTROLLER in volume.metadata.annotations:
            patch = {"spec": {"claimRef": None}, "metadata": {"annotations": {well_known.BOUND_BY_CONTROLLER: None}}}
        else:
            patch = {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}}
        volume = await self._change_volume(volume, patch)
        await self.set_phase(volume, fit.AVAILABLE)

    async def set_unbound(self, claim: PersistentVolumeClaim, phase: str) -> None:
        """The claim is Pending or Lost, and has nothing."""
        status = claim.status
        if status.phase == phase and not status.capacity and not status.access_modes:
            return
        log.debug("claim=%s uid=%s phase=%s", claim.key, claim.metadata.uid, phase)
        patch = {"status": {"phase": phase, "capacity": None, "accessModes": None}}
        await self._change_claim(claim, patch, "status")

    async def assign_class(self, claim: PersistentVolumeClaim, name: str) -> None:
        await self._change_claim(claim, {"spec": {"storageClassName": name}})

    async def ask_provisioner(self, claim: PersistentVolumeClaim, name: str) -> None:
        """Mark the claim for somebody outside who makes volumes."""
        marks = {PROVISIONER: name, BETA_PROVISIONER: name}
        if any(claim.metadata.annotations.get(key) != value for key, value in marks.items()):
            await self._change_claim(claim, {"metadata": {"annotations": marks}})

    async def _name_volume(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> PersistentVolumeClaim:
        annotations, patch = {}, {}
        if claim.spec.volume_name != volume.metadata.name:
            patch["spec"] = {"volumeName": volume.metadata.name}
            annotations[well_known.BOUND_BY_CONTROLLER] = "yes"
        if well_known.BIND_COMPLETED not in claim.metadata.annotations:
            annotations[well_known.BIND_COMPLETED] = "yes"
        if not annotations:
            return claim
        log.info("bound claim=%s volume=%s uid=%s", claim.key, volume.key, volume.metadata.uid)
        return await self._change_claim(claim, patch | {"metadata": {"annotations": annotations}})

    async def _set_bound(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        status: dict[str, Any] = {}
        if claim.status.phase != BOUND:
            # Later a difference can be meant: the file system of a volume that grew is still the smaller one.
            status |= {"phase": BOUND, "capacity": dict(volume.spec.capacity)}
            if name := volume.spec.volume_attributes_class_name:
                status["currentVolumeAttributesClassName"] = name
        if claim.status.access_modes != volume.spec.access_modes:
            status["accessModes"] = list(volume.spec.access_modes)
        if status:
            await self._change_claim(claim, {"status": status}, "status")

    async def _change_volume(
        self, volume: PersistentVolume, patch: dict[str, Any], subresource: str = ""
    ) -> PersistentVolume:
        body = patch | {"metadata": {**patch.get("metadata", {}), **_same(volume)}}
        changed = await self._volume_objects.patch(volume.key, body, subresource=subresource)
        with self._telling():
            return self._volumes.wrote(changed)

    async def _change_claim(
        self, claim: PersistentVolumeClaim, patch: dict[str, Any], subresource: str = ""
    ) -> PersistentVolumeClaim:
        meta = claim.metadata
        body = patch | {"metadata": {**patch.get("metadata", {}), **_same(claim)}}
        changed = await self._claim_objects.patch(meta.name, body, meta.namespace, subresource=subresource)
        with self._telling():
            return self._claims.wrote(changed)

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        self.own = True
        try:
            yield
        finally:
            self.own = False


def _same(obj: PersistentVolume | PersistentVolumeClaim) -> dict[str, str]:
    return {"uid": obj.metadata.uid, "resourceVersion": obj.metadata.resource_version}
