"""From the alpha annotation to the field: which nodes can use a volume.

Before Kubernetes 1.10 the node affinity of a volume was JSON in an annotation; now the field spec.nodeAffinity has
its place. Once the field is set it cannot be changed, so a volume where the two disagree is left to a person.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from localpv import errors
from localpv.api import volume_affinity
from localpv.api.objects import Object
from localpv.client.objects import UntypedObjects


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
        metadata = {
            "uid": self.uid,
            "resourceVersion": self.resource_version,
            "annotations": {volume_affinity.ANNOTATION: None},
        }
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
    text = (meta.get("annotations") or {}).get(volume_affinity.ANNOTATION)
    if text is None:
        return None
    name = meta["name"]
    selector, why = volume_affinity.parse(text)
    if selector is None:
        return Problem(name=name, message=f"its annotation is wrong: {why}")
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
