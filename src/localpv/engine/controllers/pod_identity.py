"""What makes one pod of a StatefulSet different from the others: its number, its name and its claims.

A claim is made before the pod, kept after it, and owned as the retention policy says. Deleting is never done here: a
claim that is to go with its pod or its set is given that owner, and goes when the owner is gone. So a crash at any
moment leaves a claim that is either kept or already promised, and its data with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from localpv import errors
from localpv.api import well_known
from localpv.api.kinds.meta import OwnerReference
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.volumes import PersistentVolumeClaim
from localpv.api.kinds.workloads import StatefulSet
from localpv.api.objects import Object
from localpv.engine.controllers import controller_refs, templates
from localpv.engine.controllers.cached_objects import CachedObjects
from localpv.observe.recorder import Recorder

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"

_name_and_number = re.compile(r"(.+)-(0|[1-9][0-9]*)").fullmatch

DELETE, RETAIN = "Delete", "Retain"


def ordinal(pod_name: str, of: StatefulSet) -> int | None:
    """The number of a pod; None when its name is not one that the set gives."""
    found = _name_and_number(pod_name)
    return int(found[2]) if found and found[1] == of.metadata.name else None


def ordinals(of: StatefulSet) -> range:
    """The numbers that the set should have pods for."""
    start = of.spec.ordinals.start
    return range(start, start + of.spec.replicas)


def pod_name(of: StatefulSet, number: int) -> str:
    return f"{of.metadata.name}-{number}"


def claim_name(of: StatefulSet, template: Mapping[str, Any], number: int) -> str:
    return f"{template['metadata']['name']}-{of.metadata.name}-{number}"


def makes_claim(of: StatefulSet, name: str) -> bool:
    """Whether a claim of that name belongs to one of the pods that the set has, had or may have."""
    found = _name_and_number(name)
    return found is not None and any(
        found[1] == f"{template['metadata']['name']}-{of.metadata.name}" for template in of.spec.volume_claim_templates
    )


def pod(of: StatefulSet, template: Mapping[str, Any], number: int, *, revision: str) -> Object:
    """The pod with a number, made from the template of one revision."""
    name = pod_name(of, number)
    made = templates.pod(template, of, name=name)
    made["metadata"]["labels"] |= {**labels(of, number), well_known.REVISION_HASH: revision}
    spec = made["spec"]
    spec["hostname"] = name
    if of.spec.service_name:
        spec["subdomain"] = of.spec.service_name
    else:
        spec.pop("subdomain", None)
    claimed = {
        template["metadata"]["name"]: claim_name(of, template, number) for template in of.spec.volume_claim_templates
    }
    volumes: list[Object] = [
        {"name": volume, "persistentVolumeClaim": {"claimName": claim}} for volume, claim in claimed.items()
    ]
    volumes += [volume for volume in spec.get("volumes") or () if volume.get("name") not in claimed]
    if volumes:
        spec["volumes"] = volumes
    return made


def labels(of: StatefulSet, number: int) -> dict[str, str]:
    """The labels by which a pod with a number is found."""
    return {POD_NAME: pod_name(of, number), POD_INDEX: str(number)}


def claims(of: StatefulSet, number: int) -> list[Object]:
    """The claims of the pod with a number, as the templates describe them."""
    made = []
    for template in of.spec.volume_claim_templates:
        meta = template.get("metadata") or {}
        metadata: Object = {
            "name": claim_name(of, template, number),
            "namespace": of.metadata.namespace,
            "labels": {**(meta.get("labels") or {}), **(of.spec.selector.get("matchLabels") or {})},
        }
        if meta.get("annotations"):
            metadata["annotations"] = dict(meta["annotations"])
        made.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": metadata,
                "spec": dict(template.get("spec") or {}),
            }
        )
    return made


def revision_of(pod: Pod) -> str:
    return pod.metadata.labels.get(well_known.REVISION_HASH, "")


class SetClaims:
    """Makes claims for pods of StatefulSets and says whom they go with."""

    def __init__(self, *, claims: CachedObjects[PersistentVolumeClaim], recorder: Recorder) -> None:
        self._claims = claims
        self._recorder = recorder

    async def make(self, stateful_set: StatefulSet, number: int) -> bool:
        """Make what is missing; False when one is still being deleted, and its successor has to wait for that."""
        clear = True
        for body in claims(stateful_set, number):
            name = body["metadata"]["name"]
            known = self._claims.get(name, stateful_set.metadata.namespace)
            if known is None:
                await self._create(stateful_set, number, body)
            elif known.metadata.deleting:
                message = f"claim {name} of pod {pod_name(stateful_set, number)} is still being deleted"
                self._recorder.event(stateful_set, "FailedCreate", message, warning=True)
                clear = False
        return clear

    async def _create(self, stateful_set: StatefulSet, number: int, body: Object) -> None:
        name, pod = body["metadata"]["name"], pod_name(stateful_set, number)
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
        pod = pod_name(stateful_set, number)
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
        names = [claim_name(stateful_set, template, number) for template in stateful_set.spec.volume_claim_templates]
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
    if policy.when_scaled == DELETE and number not in ordinals(stateful_set):
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
