"""From the alpha annotation to the field: which nodes can use a volume.

Before Kubernetes 1.10 the node affinity of a volume was JSON in an annotation; now the field spec.nodeAffinity has
its place. Once the field is set it cannot be changed, so a volume where the two disagree is left to a person.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec

from localpv import errors
from localpv.api import node_selector
from localpv.api.objects import Object
from localpv.client.objects import UntypedObjects

ANNOTATION = "volume.alpha.kubernetes.io/node-affinity"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What to do with one volume."""

    name: str
    uid: str
    resource_version: str
    affinity: Object | None
    """What the field becomes; None when it is right already and only the annotation goes."""

    def patch(self) -> Object:
        # Field and annotation change together: at no moment can the volume be used anywhere.
        metadata = {"uid": self.uid, "resourceVersion": self.resource_version, "annotations": {ANNOTATION: None}}
        changed: Object = {"metadata": metadata}
        if self.affinity is not None:
            changed["spec"] = {"nodeAffinity": self.affinity}
        return changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A volume that only a person can put right, and why."""

    name: str
    message: str


def plan(volume: Object) -> Change | Problem | None:
    """What is to be done with a volume; None when it has no such annotation."""
    meta = volume["metadata"]
    text = (meta.get("annotations") or {}).get(ANNOTATION)
    if text is None:
        return None
    name = meta["name"]
    try:
        selector = msgspec.json.decode(text, type=dict).get(REQUIRED)
    except msgspec.MsgspecError as error:
        return Problem(name=name, message=f"its annotation is not readable: {error}")
    if not isinstance(selector, dict):
        return Problem(name=name, message=f"its annotation has no {REQUIRED}")
    try:
        wrong = node_selector.validate(selector, REQUIRED)
    except (TypeError, AttributeError, KeyError):
        return Problem(name=name, message=f"its annotation has a {REQUIRED} of the wrong form")
    if wrong:
        return Problem(name=name, message=f"its annotation is wrong: {wrong[0]}")
    wanted = {"required": selector}
    present = (volume.get("spec") or {}).get("nodeAffinity")
    if present is not None and present != wanted:
        return Problem(name=name, message="its annotation and its field name different nodes; remove the wrong one")
    affinity = None if present == wanted else wanted
    return Change(name=name, uid=meta["uid"], resource_version=meta["resourceVersion"], affinity=affinity)


async def survey(volumes: UntypedObjects) -> AsyncIterator[Change | Problem]:
    """Every volume that has the annotation, page by page; nothing is changed."""
    async for page in volumes.pages():
        for volume in page.items:
            if (found := plan(volume)) is not None:
                yield found


async def apply(volumes: UntypedObjects, change: Change) -> Problem | None:
    """Change one volume as planned; why not, if that was not possible. Safe to repeat."""
    try:
        await volumes.patch(change.name, change.patch())
    except errors.NotFound:
        return None
    except errors.Conflict:
        return Problem(name=change.name, message="it was changed by somebody else meanwhile; run again")
    except errors.ApiError as error:
        return Problem(name=change.name, message=error.message)
    return None
