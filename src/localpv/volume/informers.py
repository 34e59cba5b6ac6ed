"""The informers of a program that binds, schedules or places, with its volumes laid out to be found."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from localpv.api.kinds.meta import Kind
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim
from localpv.client.client import Client
from localpv.client.informer_factory import InformerFactory
from localpv.runtime.clock import Clock
from localpv.volume.volume_index import VolumeIndex

BY_CLAIM = "claim"


class VolumeInformers(InformerFactory):
    """Volumes and claims are read as a whole; `volume_index` holds the same volumes."""

    def __init__(self, client: Client, *, clock: Clock, whole: Collection[type[Kind]] = ()) -> None:
        super().__init__(client, clock=clock, whole=(PersistentVolume, PersistentVolumeClaim, *whole))
        self.volumes = self.informer(PersistentVolume)
        self.claims = self.informer(PersistentVolumeClaim)
        self.volume_index = VolumeIndex()
        # First of all handlers, so that whoever is told of a change finds it on the shelves.
        self.volumes.add_event_handler(self.volume_index.changed)

    async def ready(self) -> None:
        """Wait until all volumes and claims that exist have been seen."""
        await self.volumes.wait_synced()
        await self.claims.wait_synced()


def claims_of(pod: Pod) -> Iterable[str]:
    """Keys of the claims that a pod uses, those that are made for it included."""
    meta = pod.metadata
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield f"{meta.namespace}/{volume.persistent_volume_claim.claim_name}"
        elif volume.ephemeral is not None:
            yield f"{meta.namespace}/{meta.name}-{volume.name}"
