"""What makes one pod of a StatefulSet different from the others: its number, its name and its claims."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from localpv.api import well_known
from localpv.api.kinds import Pod, StatefulSet
from localpv.api.objects import Object
from localpv.engine.controllers import templates

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"

_name_and_number = re.compile(r"(.+)-(0|[1-9][0-9]*)").fullmatch


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
