"""The writes of whoever provisions, each for the very version of the object that was decided on.

What was written is in the informers at once, so the ledger counts a reservation before the next one is decided.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from localpv import errors
from localpv.api.kinds.localpool import PoolVolume
from localpv.api.kinds.meta import Kind
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim
from localpv.api.objects import Object
from localpv.client.client import Client
from localpv.client.informer import Informer
from localpv.disk import labels
from localpv.volume import pool_names
from localpv.volume.informers import VolumeInformers

K = TypeVar("K", bound=Kind)

BY_VOLUME_NAME = "volume-name"


class Writes:
    """Claims, PersistentVolumes and PoolVolumes: where they are seen, and how they are changed."""

    def __init__(self, client: Client, *, informers: VolumeInformers) -> None:
        self._client = client
        self.claims = informers.claims
        self.volumes = informers.volumes
        self.orders = informers.informer(PoolVolume)
        """PoolVolumes: what agents are ordered to make."""

        self.claims.add_indexers({BY_VOLUME_NAME: _volume_name})

    def claim_of(self, name: str) -> PersistentVolumeClaim | None:
        """The claim that a volume of this name is for."""
        found = self.claims.find(BY_VOLUME_NAME, name)
        return found[0] if found else None

    async def claim_now(self, order: PoolVolume) -> PersistentVolumeClaim | None:
        """The claim of an order as it is now; None also when another one has its name."""
        wanted = order.spec.claim
        found = await self._client.objects(PersistentVolumeClaim).find(wanted.name, wanted.namespace)
        return found if found is not None and found.metadata.uid == wanted.uid else None

    async def volume_now(self, name: str) -> PersistentVolume | None:
        return await self._client.objects(PersistentVolume).find(name)

    async def order_now(self, name: str) -> PoolVolume | None:
        """The order as it is now; the informer knows it then."""
        found = await self._client.objects(PoolVolume).find(name)
        return self.orders.wrote(found) if found is not None else None

    async def create_order(self, order: PoolVolume) -> PoolVolume:
        return self.orders.wrote(await self._client.objects(PoolVolume).create(order))

    async def create_volume(self, volume: Object) -> PersistentVolume:
        return self.volumes.wrote(await self._client.objects(PersistentVolume).create_from(volume))

    async def change_claim(
        self, claim: PersistentVolumeClaim, patch: Object, subresource: str = ""
    ) -> PersistentVolumeClaim:
        return await self._change(self.claims, claim, patch, subresource)

    async def change_volume(self, volume: PersistentVolume, patch: Object) -> PersistentVolume:
        return await self._change(self.volumes, volume, patch)

    async def change_order(self, order: PoolVolume, patch: Object) -> PoolVolume:
        return await self._change(self.orders, order, patch)

    async def delete_volume(self, volume: PersistentVolume) -> PersistentVolume | None:
        """Delete a volume; what is left of it, waiting for finalizers."""
        return await self._delete(self.volumes, volume)

    async def withdraw(self, order: PoolVolume) -> None:
        """Have the agent wipe a volume and give its space back.

        Deleted first, unprotected second: an order that loses its protection is on its way out, whoever dies here.
        """
        left: PoolVolume | None = order
        if not order.metadata.deleting:
            left = await self._delete(self.orders, order)
        if left is not None and labels.PROTECTED in left.metadata.finalizers:
            await self.change_order(left, {"metadata": {"finalizers": without(left, labels.PROTECTED)}})

    async def _change(self, informer: Informer[K], obj: K, patch: Object, subresource: str = "") -> K:
        meta = obj.metadata
        same = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        body = patch | {"metadata": {**patch.get("metadata", {}), **same}}
        objects = self._client.objects(type(obj))
        return informer.wrote(await objects.patch(meta.name, body, meta.namespace, subresource=subresource))

    async def _delete(self, informer: Informer[K], obj: K) -> K | None:
        meta = obj.metadata
        try:
            left = await self._client.objects(type(obj)).delete(meta.name, uid=meta.uid)
        except errors.NotFound:
            left = None
        if left is None:
            informer.deleted(obj)
            return None
        return informer.wrote(left)


def without(obj: Kind, finalizer: str) -> list[str] | None:
    """The other finalizers, as a patch wants them."""
    return [each for each in obj.metadata.finalizers if each != finalizer] or None


def _volume_name(claim: PersistentVolumeClaim) -> Iterable[str]:
    return (pool_names.volume_name(claim.metadata.uid),)
