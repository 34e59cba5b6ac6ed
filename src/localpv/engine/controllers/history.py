"""The history of the template of a StatefulSet or DaemonSet, in ControllerRevisions as `kubectl rollout` reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from localpv import errors
from localpv.api import selectors, well_known
from localpv.api.kinds.workloads import ControllerRevision, DaemonSet, StatefulSet
from localpv.api.objects import Object
from localpv.engine.controllers import controller_refs, templates
from localpv.engine.controllers.cached_objects import CachedObjects

HASH = {StatefulSet: "controller.kubernetes.io/hash", DaemonSet: well_known.REVISION_HASH}
"""On a revision: the short name of its content. Each kind has its own label for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """Where a set is between two revisions; they are the same when nothing is being changed."""

    current: ControllerRevision
    """What pods were made from before the change."""

    update: ControllerRevision
    """What they are made from after it."""

    collisions: int


def template_of(revision: ControllerRevision) -> Mapping[str, Any]:
    template = revision.data["spec"]["template"]
    return {key: value for key, value in template.items() if key != "$patch"}


S = TypeVar("S", StatefulSet, DaemonSet)


class History(Generic[S]):
    """Reads and writes the revisions of sets of one kind."""

    def __init__(self, *, sets: CachedObjects[S], revisions: CachedObjects[ControllerRevision]) -> None:
        self._sets: CachedObjects[S] = sets
        self._revisions = revisions

    async def present(self, owner: S) -> Present:
        """The revision of the present template, made or moved to the end of the history if need be."""
        known = await self._all(owner)
        update, collisions = await self._of_template(owner, known)
        name = owner.status.get("currentRevision", "")
        current = next((each for each in known if each.metadata.name == name), update)
        return Present(current=current, update=update, collisions=collisions)

    async def forget(self, owner: S, present: Present, in_use: Iterable[str]) -> None:
        """Delete the oldest revisions beyond the limit that no pod was made from."""
        limit = owner.spec.revision_history_limit
        if limit < 0:
            return
        live = {present.current.metadata.name, present.update.metadata.name, *in_use}
        past = [each for each in await self._all(owner) if each.metadata.name not in live]
        for each in past[: max(0, len(past) - limit)]:
            await self._revisions.delete(each)

    async def _all(self, owner: S) -> list[ControllerRevision]:
        found = await controller_refs.gather(
            owner,
            self._revisions,
            selectors.from_object(owner.spec.selector),
            still_there=partial(self._sets.fetch, owner),
        )
        return sorted(found, key=lambda each: (each.revision, each.metadata.creation_timestamp or "", each.key))

    async def _of_template(self, owner: S, known: list[ControllerRevision]) -> tuple[ControllerRevision, int]:
        collisions = owner.status.get("collisionCount", 0)
        data = {"spec": {"template": {**owner.spec.template, "$patch": "replace"}}}
        following = known[-1].revision + 1 if known else 1
        alike = [each for each in known if each.data == data]
        if alike and alike[-1] is known[-1]:
            return known[-1], collisions
        if alike:
            # Somebody went back: the old revision becomes the newest, so that `undo` knows what was before it.
            return await self._revisions.patch(alike[-1], {"revision": following}), collisions
        if owner.metadata.deleting and known:
            return known[-1], collisions
        return await self._create(owner, data, following, collisions)

    async def _create(self, owner: S, data: Object, revision: int, collisions: int) -> tuple[ControllerRevision, int]:
        while True:
            body = _revision(owner, data, revision, collisions)
            try:
                return await self._revisions.create(body), collisions
            except errors.AlreadyExists:
                name = body["metadata"]["name"]
                there = self._revisions.get(name, owner.metadata.namespace)
                if there is None or controller_refs.controls(owner, there):
                    raise  # ours, made before a restart and not seen yet: look again in a moment
                collisions += 1


def _revision(owner: StatefulSet | DaemonSet, data: Object, revision: int, collisions: int) -> Object:
    mark = templates.fingerprint(data, collisions)
    labels = (owner.spec.template.get("metadata") or {}).get("labels") or {}
    metadata: Object = {
        "name": templates.named(owner.metadata.name, mark),
        "namespace": owner.metadata.namespace,
        "labels": {**labels, HASH[type(owner)]: mark},
        "ownerReferences": [controller_refs.reference(owner)],
    }
    if owner.metadata.annotations:
        metadata["annotations"] = dict(owner.metadata.annotations)
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata,
        # Programs written in Go compare the bytes of it with what they would write: keys in alphabetical order.
        "data": msgspec.json.decode(msgspec.json.encode(data, order="sorted")),
        "revision": revision,
    }
