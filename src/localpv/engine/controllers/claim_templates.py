"""The claims of a StatefulSet's pods: made before the pod, kept after it, and owned as the retention policy says.

Deleting is never done here: a claim that is to go with its pod or its set is given that owner, and goes when the owner
is gone. So a crash at any moment leaves a claim that is either kept or already promised, and its data with it.
"""

from __future__ import annotations

from localpv import errors
from localpv.api.kinds import OwnerReference, PersistentVolumeClaim, Pod, StatefulSet
from localpv.api.objects import Object
from localpv.engine.controllers import controller_refs, pod_identity
from localpv.engine.controllers.informer import Known
from localpv.observe.recorder import Recorder

DELETE, RETAIN = "Delete", "Retain"


class SetClaims:
    """Makes claims for pods of StatefulSets and says whom they go with."""

    def __init__(self, *, claims: Known[PersistentVolumeClaim], recorder: Recorder) -> None:
        self._claims = claims
        self._recorder = recorder

    async def make(self, stateful_set: StatefulSet, number: int) -> bool:
        """Make what is missing; False when one is still being deleted, and its successor has to wait for that."""
        clear = True
        for body in pod_identity.claims(stateful_set, number):
            name = body["metadata"]["name"]
            known = self._claims.get(name, stateful_set.metadata.namespace)
            if known is None:
                await self._create(stateful_set, number, body)
            elif known.metadata.deleting:
                message = f"claim {name} of pod {pod_identity.pod_name(stateful_set, number)} is still being deleted"
                self._recorder.event(stateful_set, "FailedCreate", message, warning=True)
                clear = False
        return clear

    async def _create(self, stateful_set: StatefulSet, number: int, body: Object) -> None:
        name, pod = body["metadata"]["name"], pod_identity.pod_name(stateful_set, number)
        try:
            await self._claims.create(body)
        except errors.AlreadyExists:
            return  # by somebody else, a moment ago: it is the claim of that name, which is what counts
        except errors.ApiError as error:
            message = f"cannot create claim {name} of pod {pod}: {error.message}"
            self._recorder.event(stateful_set, "FailedCreate", message, warning=True)
            raise
        self._recorder.event(stateful_set, "SuccessfulCreate", f"created claim {name} of pod {pod}")

    def are_promised_away(self, stateful_set: StatefulSet, number: int) -> bool:
        """Whether a claim still belongs to an earlier pod of that number, and will be deleted with it."""
        if stateful_set.spec.persistent_volume_claim_retention_policy.when_scaled != DELETE:
            return False
        pod = pod_identity.pod_name(stateful_set, number)
        return any(
            (owner.kind, owner.name) == ("Pod", pod)
            for claim in self._of(stateful_set, number)
            for owner in claim.metadata.owner_references
        )

    async def settle(self, stateful_set: StatefulSet, number: int, pod: Pod) -> None:
        """Give each claim of a pod the owner that the policy asks for."""
        for claim in self._of(stateful_set, number):
            wanted = _owners(claim, stateful_set, number, pod)
            if wanted is None or wanted == list(claim.metadata.owner_references):
                continue
            meta = claim.metadata
            references = controller_refs.written(wanted)
            await self._claims.patch(
                claim,
                {
                    "metadata": {
                        "uid": meta.uid,
                        "resourceVersion": meta.resource_version,
                        "ownerReferences": references or None,
                    }
                },
            )

    def _of(self, stateful_set: StatefulSet, number: int) -> list[PersistentVolumeClaim]:
        names = [
            pod_identity.claim_name(stateful_set, template, number)
            for template in stateful_set.spec.volume_claim_templates
        ]
        found = (self._claims.get(name, stateful_set.metadata.namespace) for name in names)
        return [claim for claim in found if claim is not None]


def _owners(
    claim: PersistentVolumeClaim, stateful_set: StatefulSet, number: int, pod: Pod
) -> list[OwnerReference] | None:
    """Whom a claim should belong to; None when it is left alone."""
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    ours = {("StatefulSet", stateful_set.metadata.name): stateful_set.metadata.uid,
            ("Pod", pod.metadata.name): pod.metadata.uid}  # fmt: skip
    rest = []
    for owner in claim.metadata.owner_references:
        uid = ours.get((owner.kind, owner.name))
        if uid is None:
            rest.append(owner)
        elif uid != owner.uid:
            return None  # it goes with an earlier set or pod of that name; the garbage collector has the word
    keeps = policy.when_deleted == RETAIN and policy.when_scaled == RETAIN
    if keeps or any(owner.controller for owner in rest):
        return rest
    if policy.when_scaled == DELETE and number not in pod_identity.ordinals(stateful_set):
        return [*rest, _reference(pod)]
    if policy.when_deleted == DELETE:
        return [*rest, _reference(stateful_set)]
    return rest


def _reference(owner: Pod | StatefulSet) -> OwnerReference:
    return OwnerReference(
        api_version=owner.resource.api_version,
        kind=owner.resource.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
