"""Taking our finalizer off volumes, for an administrator who takes localpv away, or gives a volume up as it is.

Nobody looks at disks here: a volume that was used and then goes is not cleaned, and what is not recorded in a LocalDisk
is not known to anybody afterwards.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Container
from dataclasses import dataclass

from localpv import errors
from localpv.api.objects import Object
from localpv.client.objects import UntypedObjects
from localpv.disk import labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A volume that we hold."""

    name: str
    uid: str
    resource_version: str
    others: tuple[str, ...]
    """The finalizers of others, which stay."""

    deleting: bool
    phase: str

    def patch(self) -> Object:
        same = {"uid": self.uid, "resourceVersion": self.resource_version}
        return {"metadata": {**same, "finalizers": list(self.others) or None}}


def held(volume: Object) -> Held | None:
    """What there is to take off a volume; None when we do not hold it."""
    meta = volume["metadata"]
    finalizers = meta.get("finalizers") or ()
    if labels.FINALIZER not in finalizers:
        return None
    return Held(
        name=meta["name"],
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        others=tuple(each for each in finalizers if each != labels.FINALIZER),
        deleting="deletionTimestamp" in meta,
        phase=(volume.get("status") or {}).get("phase", ""),
    )


async def survey(volumes: UntypedObjects, names: Container[str] = ()) -> AsyncIterator[Held]:
    """Every volume that we hold, or those of them that are named; nothing is changed."""
    async for page in volumes.pages():
        for volume in page.items:
            if (found := held(volume)) is not None and (not names or found.name in names):
                yield found


TRIES = 5
"""How often a volume is tried that others change meanwhile: of one that is being deleted they take their own off."""


async def release(volumes: UntypedObjects, found: Held) -> str:
    """Take our finalizer off one volume; why not, if that was not possible. Safe to repeat."""
    now: Held | None = found
    for _ in range(TRIES):
        try:
            if now is None or now.uid != found.uid:
                return ""
            if (now.deleting, now.phase) != (found.deleting, found.phase):
                break  # not what was shown to whoever has asked for it
            await volumes.patch(now.name, now.patch())
            return ""
        except errors.NotFound:
            return ""
        except errors.Conflict:
            again = await volumes.find(found.name)
            now = held(again) if again is not None else None
        except errors.ApiError as error:
            return error.message
    return "it was changed by somebody else meanwhile; run again"
