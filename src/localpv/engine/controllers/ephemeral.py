"""Generic ephemeral volumes: a claim for each, made for one pod, owned by it, and gone with it."""

from __future__ import annotations

from typing import Any

from localpv import errors
from localpv.api.kinds.pods import Pod, Volume
from localpv.api.kinds.volumes import PersistentVolumeClaim
from localpv.api.objects import Object
from localpv.engine.controllers import controller_refs, pods
from localpv.engine.controllers.cached_objects import CachedObjects
from localpv.observe.recorder import Recorder
from localpv.runtime.controller import Done, Outcome

REASON = "FailedBinding"


def claim_name(pod: Pod, volume: Volume) -> str:
    return f"{pod.metadata.name}-{volume.name}"


class EphemeralClaims:
    """Reconciles pods by their keys."""

    def __init__(
        self, *, members: CachedObjects[Pod], claims: CachedObjects[PersistentVolumeClaim], recorder: Recorder
    ) -> None:
        self._pods = members
        self._claims = claims
        self._recorder = recorder

    async def reconcile(self, key: str) -> Outcome:
        pod = self._pods.by_key(key)
        if pod is None or not pods.is_active(pod):
            return Done()
        for volume in pod.spec.volumes:
            if volume.ephemeral is not None:
                await self._ensure(pod, volume)
        return Done()

    async def _ensure(self, pod: Pod, volume: Volume) -> None:
        name = claim_name(pod, volume)
        known = self._claims.get(name, pod.metadata.namespace)
        if known is None:
            try:
                known = await self._claims.create(_claim(pod, volume))
            except errors.AlreadyExists:
                raise  # not seen yet whose it is: look again in a moment
            except errors.ApiError as error:
                message = f"ephemeral volume {volume.name}: cannot create claim {name}: {error.message}"
                self._recorder.event(pod, REASON, message, warning=True)
                raise
        if not controller_refs.controls(pod, known):
            # Using it would hand somebody else's data to this pod, and delete it with the pod. The pod waits; when the
            # stranger is gone, its deletion wakes us.
            message = (
                f"ephemeral volume {volume.name}: there is a claim {name} already that was not made for this pod;"
                " delete it or rename the pod"
            )
            self._recorder.event(pod, REASON, message, warning=True)


def _claim(pod: Pod, volume: Volume) -> Object:
    assert volume.ephemeral is not None
    template: Any = volume.ephemeral.volume_claim_template or {}
    meta = template.get("metadata") or {}
    metadata: Object = {
        "name": claim_name(pod, volume),
        "namespace": pod.metadata.namespace,
        "ownerReferences": [controller_refs.reference(pod)],
    }
    for name in ("labels", "annotations"):
        if meta.get(name):
            metadata[name] = dict(meta[name])
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": dict(template.get("spec") or {}),
    }
