"""Claims that wait although a volume would suit but for its volumeMode are told so, whichever of the two came first.

Beside the binder on one machine; beside kube-controller-manager, which says nothing of it, in the manager. To look
costs little: claims that were not told yet are kept by class and mode, so a volume meets only those of the other mode.
"""

from __future__ import annotations

import asyncio

from localpv.api import well_known
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim
from localpv.client.client import Client
from localpv.observe import claim_events
from localpv.observe.recorder import ApiRecorder
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Controller, Done, Outcome
from localpv.runtime.group import Group
from localpv.runtime.queue import WorkQueue
from localpv.volume import fit
from localpv.volume.informers import VolumeInformers

PATIENCE_SECONDS = 1.0
"""How long a claim may wait before it is told: mostly its volume is just being made, or it is just being bound."""


class Modes:
    """Runs until cancelled, beside the informers it is given."""

    def __init__(self, client: Client, *, informers: VolumeInformers, clock: Clock) -> None:
        self._clock = clock
        self._volumes, self._claims, self._volume_index = informers.volumes, informers.claims, informers.volume_index
        self._recorder = ApiRecorder(client, component=claim_events.COMPONENT, clock=clock)
        self._queue: WorkQueue[str] = WorkQueue(clock=clock)
        self._waiting: dict[tuple[str, str], set[str]] = {}
        """Keys of claims that wait and were not told, by class and mode."""

        self._ready = asyncio.Event()

    async def ready(self) -> None:
        await self._ready.wait()

    async def run(self) -> None:
        """Serve until cancelled."""
        await self._claims.wait_synced()
        await self._volumes.wait_synced()
        self._claims.add_event_handler(self._claim_changed)
        self._volumes.add_event_handler(self._volume_changed)
        group = Group(clock=self._clock)
        group.add("events", self._recorder.run)
        group.add("modes", Controller("modes", self._look, queue=self._queue, clock=self._clock).run)
        await group.run(on_ready=self._ready.set)

    async def _look(self, key: str) -> Outcome:
        claim = self._claims.by_key(key)
        if claim is None or not _waits(claim):
            return Done()
        volume = None if next(self._volume_index.fitting(claim), None) else self._volume_index.of_other_mode(claim)
        if volume is None:
            return Done()
        told = claim_events.differs_in_mode(volume, claim)
        self._waiting.get(_place(claim), set()).discard(key)
        self._recorder.event_once(claim, told)
        return Done()

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if old is not None and (new is None or _place(old) != _place(new)):
            self._leave(old)
        if new is None or not _waits(new):
            self._leave(new or old)
            return
        if not self._recorder.was_told(new):
            self._waiting.setdefault(_place(new), set()).add(new.key)
        self._queue.add_after(new.key, PATIENCE_SECONDS)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if new is None or not fit.is_free(new) or (old is not None and fit.is_free(old)):
            return
        other = "Filesystem" if (new.spec.volume_mode or fit.FILESYSTEM) == "Block" else "Block"
        for key in self._waiting.get((fit.class_of_volume(new), other), ()):
            self._queue.add_after(key, PATIENCE_SECONDS)

    def _leave(self, claim: PersistentVolumeClaim | None) -> None:
        assert claim is not None
        self._recorder.forget(claim.key)
        place = _place(claim)
        keys = self._waiting.get(place, set())
        keys.discard(claim.key)
        if not keys:
            self._waiting.pop(place, None)


def _place(claim: PersistentVolumeClaim) -> tuple[str, str]:
    return fit.class_of(claim), claim.spec.volume_mode or fit.FILESYSTEM


def _waits(claim: PersistentVolumeClaim) -> bool:
    return (
        not claim.spec.volume_name
        and not claim.metadata.deleting
        and well_known.BIND_COMPLETED not in claim.metadata.annotations
    )
