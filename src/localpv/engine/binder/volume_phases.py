"""What the binder does about volumes: their phases, their release, and bindings that must be taken back."""

from __future__ import annotations

from localpv import errors
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim
from localpv.client.client import Client
from localpv.engine.binder import volumes
from localpv.engine.binder.writes import Writes
from localpv.observe.recorder import Recorder
from localpv.runtime.controller import Done, LookAgain, Outcome
from localpv.volume.informers import VolumeInformers

CATCH_UP_SECONDS = 1.0
"""How long the watch may take to bring what the server has said already."""


class Keeper:
    """Looks at one volume per call."""

    def __init__(self, client: Client, *, informers: VolumeInformers, writes: Writes, recorder: Recorder) -> None:
        self._claim_objects = client.objects(PersistentVolumeClaim)
        self._claims, self._volumes = informers.claims, informers.volumes
        self._writes = writes
        self._recorder = recorder

    async def look(self, name: str) -> Outcome:
        volume = self._volumes.by_key(name)
        if volume is None:
            return Done()
        reference = volume.spec.claim_ref
        claim = self._claims.by_key(f"{reference.namespace}/{reference.name}") if reference is not None else None
        try:
            return await self._keep(volume, claim, volumes.decide(volume, claim))
        except errors.NotFound:
            return Done()

    async def _keep(
        self, volume: PersistentVolume, claim: PersistentVolumeClaim | None, action: volumes.Action
    ) -> Outcome:
        match action:
            case volumes.SetPhase(phase, why):
                await self._writes.set_phase(volume, phase, why.message if why else "")
                if why is not None:
                    self._recorder.event_once(volume, why)
                else:
                    self._recorder.forget(volume.key)
            case volumes.Release():
                return await self._release(volume)
            case volumes.Unbind():
                await self._writes.unbind(volume)
            case volumes.Disagree(for_claim, for_volume):
                assert claim is not None
                self._recorder.event_once(claim, for_claim)
                self._recorder.event_once(volume, for_volume)
        return Done()

    async def _release(self, volume: PersistentVolume) -> Outcome:
        # With the policy Delete the disk is wiped next. So it is not enough that we have not heard of the claim: the
        # server must say that it is gone, or that the one of that name is another.
        reference = volume.spec.claim_ref
        assert reference is not None
        claim = await self._claim_objects.find(reference.name, reference.namespace)
        if claim is not None and claim.metadata.uid == reference.uid:
            return LookAgain(after=CATCH_UP_SECONDS)
        await self._writes.set_phase(volume, volumes.RELEASED)
        return Done()  # that change has the policy looked at
