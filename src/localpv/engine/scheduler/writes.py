"""What the scheduler writes. Each write names the very object it was decided for, and each can be repeated.

The order is the guard of the data: a volume is first reserved for the claim (claimRef with the claim's UID, which the
server refuses when anybody changed the volume meanwhile), then the binder binds the two, and only then the pod gets its
node. Whoever dies in between leaves a volume that belongs to one claim and to no other.
"""

from __future__ import annotations

import logging

from localpv import errors
from localpv.api import well_known
from localpv.api.kinds.meta import Kind, write_time
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim
from localpv.api.objects import Object
from localpv.client.client import Client
from localpv.client.objects import Patch
from localpv.engine.scheduler.assume_cache import Binding
from localpv.runtime.clock import Clock
from localpv.volume import fit
from localpv.volume.informers import VolumeInformers

SCHEDULED = "PodScheduled"
UNSCHEDULABLE = "Unschedulable"

log = logging.getLogger(__name__)


class Writes:
    """What is written of volumes and claims is known to the informers at once."""

    def __init__(self, client: Client, *, informers: VolumeInformers, clock: Clock) -> None:
        self._informers = informers
        self._volumes = client.objects(PersistentVolume)
        self._claims = client.objects(PersistentVolumeClaim)
        self._pods = client.objects(Pod)
        self._clock = clock

    async def reserve(self, binding: Binding) -> None:
        """Have the volume name the claim; Conflict when the volume is not as it was when it was chosen."""
        volume, claim = binding.volume, binding.claim
        named = volume.spec.claim_ref
        if named is not None and named.uid == claim.metadata.uid:
            return
        reference = {
            "apiVersion": claim.resource.api_version,
            "kind": claim.resource.kind,
            "namespace": claim.metadata.namespace,
            "name": claim.metadata.name,
            "uid": claim.metadata.uid,
            "resourceVersion": claim.metadata.resource_version,
        }
        # Who finds this mark may take the volume back from the claim; what a user has reserved stays reserved.
        marks = {} if named is not None else {"annotations": {well_known.BOUND_BY_CONTROLLER: "yes"}}
        patch = {"metadata": _same(volume) | marks, "spec": {"claimRef": reference}}
        self._informers.volumes.wrote(await self._volumes.patch(volume.metadata.name, patch))

    async def unreserve(self, binding: Binding) -> None:
        """Free a volume that we have reserved and that the binder has not bound yet. What it has bound stays bound.

        The volume is read before the claim: the binder marks the volume first, so if the claim is still without a
        volume and the volume has not changed since it was read, nobody can have bound the two.
        """
        if binding.volume.spec.claim_ref is not None:
            return  # reserved by somebody else, who may have given the claim's companions theirs beside it
        volume = await self._volumes.find(binding.volume.metadata.name)
        claim = await self._claims.find(binding.claim.metadata.name, binding.claim.metadata.namespace)
        if (
            volume is None
            or volume.spec.claim_ref is None
            or volume.spec.claim_ref.uid != binding.claim.metadata.uid
            or volume.metadata.annotations.get(well_known.BOUND_BY_CONTROLLER) is None
            or volume.status.phase != fit.AVAILABLE
            or (claim is not None and claim.spec.volume_name)
        ):
            return
        patch = {
            "metadata": _same(volume) | {"annotations": {well_known.BOUND_BY_CONTROLLER: None}},
            "spec": {"claimRef": None},
        }
        self._informers.volumes.wrote(await self._volumes.patch(volume.metadata.name, patch))

    async def select_node(self, claim: PersistentVolumeClaim, node: str) -> None:
        """Have whoever makes volumes for the claim make one on the node."""
        if claim.metadata.annotations.get(well_known.SELECTED_NODE) != node:
            await self._select(claim, node)

    async def unselect_node(self, claim: PersistentVolumeClaim, node: str) -> None:
        now = await self._claims.find(claim.metadata.name, claim.metadata.namespace)
        if (
            now is not None
            and now.metadata.uid == claim.metadata.uid
            and not now.spec.volume_name
            and now.metadata.annotations.get(well_known.SELECTED_NODE) == node
        ):
            await self._select(now, None)

    async def _select(self, claim: PersistentVolumeClaim, node: str | None) -> None:
        patch = {"metadata": _same(claim) | {"annotations": {well_known.SELECTED_NODE: node}}}
        self._informers.claims.wrote(await self._claims.patch(claim.metadata.name, patch, claim.metadata.namespace))

    async def bind(self, pod: Pod, node: str) -> bool:
        """Give the pod its node. False when it has got another meanwhile, or is gone."""
        meta = pod.metadata
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._pods.call(meta.name, "binding", binding, meta.namespace)
        except (errors.Conflict, errors.NotFound):
            # Perhaps it was our own call, whose answer got lost.
            now = await self._pods.find(meta.name, meta.namespace)
            return now is not None and now.metadata.uid == meta.uid and now.spec.node_name == node
        return True

    async def explain(self, pod: Pod, message: str) -> None:
        """Say in the pod's status why it has no node."""
        known = next((each for each in pod.status.conditions if each.type == SCHEDULED), None)
        if known is not None and (known.status, known.reason, known.message) == ("False", UNSCHEDULABLE, message):
            return
        condition: Object = {
            "type": SCHEDULED,
            "status": "False",
            "reason": UNSCHEDULABLE,
            "message": message,
            "observedGeneration": pod.metadata.generation,
        }
        if known is None or known.status != "False":
            condition["lastTransitionTime"] = write_time(self._clock.now())[:19] + "Z"
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        meta = pod.metadata
        try:
            await self._pods.patch(meta.name, patch, meta.namespace, how=Patch.STRATEGIC, subresource="status")
        except (errors.NotFound, errors.Conflict) as error:
            log.debug("pod not explained pod=%s reason=%s", pod.key, error)  # gone, or made anew


def _same(obj: Kind) -> dict[str, object]:
    return {"uid": obj.metadata.uid, "resourceVersion": obj.metadata.resource_version}
