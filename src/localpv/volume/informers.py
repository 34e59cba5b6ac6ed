"""Volumes and claims as one process sees them, with what it has written itself; one set serves all parts of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from localpv.api.kinds import PersistentVolume, PersistentVolumeClaim
from localpv.client.cache import Cache, Index
from localpv.client.client import Client
from localpv.client.mutation_cache import Newest
from localpv.runtime.clock import Clock
from localpv.runtime.group import Group
from localpv.volume.volume_index import VolumeIndex


class VolumeInformers:
    """Runs until cancelled. `volume_index` holds the same volumes, laid out to be found."""

    def __init__(self, client: Client, *, clock: Clock, indexes: Mapping[str, Index[PersistentVolumeClaim]]) -> None:
        self.volumes = Newest(Cache(client.objects(PersistentVolume), clock=clock))
        self.claims = Newest(Cache(client.objects(PersistentVolumeClaim), clock=clock, indexes=indexes))
        self.volume_index = VolumeIndex()
        # First of all handlers, so that whoever is told of a change finds it on the shelves.
        self.volumes.on_change(self.volume_index.changed)
        self._clock = clock
        self._ready = asyncio.Event()

    async def ready(self) -> None:
        """Wait until everything that exists has been seen."""
        await self._ready.wait()

    async def run(self) -> None:
        """Follow the server until cancelled."""
        group = Group(clock=self._clock)
        group.add("volumes", self.volumes.cache.run, ready=self.volumes.cache.wait_synced)
        group.add("claims", self.claims.cache.run, ready=self.claims.cache.wait_synced)
        await group.run(on_ready=self._ready.set)
