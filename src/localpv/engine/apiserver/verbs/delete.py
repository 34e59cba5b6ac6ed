"""DELETE of one object, and of a whole selection."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from localpv.api import fields, selectors, status
from localpv.api.fields import FieldError
from localpv.api.objects import Object, now
from localpv.engine.apiserver.call import Call, Reply
from localpv.engine.apiserver.selection import Revisions
from localpv.engine.apiserver.storage import Storage, encode, is_ready_to_go
from localpv.engine.apiserver.verbs import list as listing
from localpv.errors import BadRequest, Invalid, NotFound
from localpv.runtime.turns import Turn

PROPAGATION = ("Background", "Foreground", "Orphan")


@dataclass(slots=True, kw_only=True)
class Deletion:
    """What a DELETE asks for."""

    grace_seconds: int | None = None
    propagation: str = ""
    """Background, Foreground, Orphan, or empty for the kind's default."""
    uid: str = ""
    resource_version: str = ""


def check_preconditions(call: Call, obj: Object, wish: Deletion) -> None:
    """Whether this is the object that the client means; Conflict when it is another, or another version."""
    resource, metadata = call.kind.resource, obj["metadata"]
    for wanted, field, title in (
        (wish.uid, "uid", "UID"),
        (wish.resource_version, "resourceVersion", "ResourceVersion"),
    ):
        if wanted and wanted != metadata[field]:
            why = f"the {title} in the precondition ({wanted}) does not match the {title} in record ({metadata[field]})"
            raise status.conflict(resource.plural, resource.group, call.name, why)


def options(value: Object | None, query: Mapping[str, str]) -> tuple[Deletion, bool]:
    """(what is asked, dry run), from a DeleteOptions body or, without one, from the query."""
    if value is None:
        value = {name: query[name] for name in ("propagationPolicy", "dryRun") if query.get(name)}
        if query.get("gracePeriodSeconds"):
            value["gracePeriodSeconds"] = _seconds(query["gracePeriodSeconds"])
        if "orphanDependents" in query:
            value["orphanDependents"] = query["orphanDependents"] in ("", "true", "1")
        if "dryRun" in value:
            value["dryRun"] = [value["dryRun"]]
    grace = value.get("gracePeriodSeconds")
    if grace is not None and grace < 0:
        raise _wrong(fields.invalid("gracePeriodSeconds", grace, "must not be negative"))
    propagation = value.get("propagationPolicy") or ""
    orphan = value.get("orphanDependents")
    if propagation and orphan is not None:
        raise _wrong(
            fields.invalid(
                "propagationPolicy", propagation, "orphanDependents and propagationPolicy exclude each other"
            )
        )
    if propagation and propagation not in PROPAGATION:
        raise _wrong(fields.not_supported("propagationPolicy", propagation, PROPAGATION))
    if orphan is not None:
        propagation = "Orphan" if orphan else "Background"
    dry_run = value.get("dryRun") or []
    if dry_run not in ([], ["All"]):
        raise _wrong(fields.not_supported("dryRun", dry_run, ["All"]))
    preconditions = value.get("preconditions") or {}
    wish = Deletion(
        grace_seconds=grace,
        propagation=propagation,
        uid=str(preconditions.get("uid") or ""),
        resource_version=str(preconditions.get("resourceVersion") or ""),
    )
    return wish, bool(dry_run)


def _wrong(cause: FieldError) -> Invalid:
    return status.invalid_options("DeleteOptions", cause)


def _seconds(text: str) -> int:
    number = selectors.whole_number(text)
    if number is None:
        raise BadRequest("gracePeriodSeconds must be a whole number of 64 bits")
    return number


async def delete_object(call: Call, wish: Deletion, *, storage: Storage) -> tuple[Reply, bool]:
    """Start or finish the deletion of an object; (the object, whether it is gone)."""
    kind = call.kind
    row = storage.row(call)
    if row is None:
        raise status.not_found(kind.resource.plural, kind.resource.group, call.name)
    obj = kind.read(row)
    metadata = obj["metadata"]
    check_preconditions(call, obj, wish)
    storage.admission.validate(call, None, obj)
    grace = kind.strategy.grace_seconds(obj, wish.grace_seconds)
    changed = _set_deletion_finalizers(metadata, wish.propagation or kind.strategy.propagation)
    if not metadata.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = now(after=grace)
        metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation"):
            metadata["generation"] += 1
        changed = True
        kind.strategy.begin_deletion(obj)
    elif grace < metadata.get("deletionGracePeriodSeconds", 0):
        # Only ever sooner: a second DELETE with a shorter grace brings the end forward.
        metadata["deletionTimestamp"] = now(after=grace)
        metadata["deletionGracePeriodSeconds"] = grace
        changed = True
    key = kind.key(call.namespace, call.name)
    if is_ready_to_go(obj):
        return await storage.remove(call, key, obj), True
    if not changed:
        return Reply(encode(obj), obj=obj), False
    return await storage.put(call, key, obj, 200, ending=True), False


def _set_deletion_finalizers(metadata: Object, propagation: str) -> bool:
    """The garbage collector's finalizers say what is to become of the dependents."""
    if not propagation:
        return False
    finalizers = list(metadata.get("finalizers", ()))
    wanted = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}.get(propagation)
    after = [name for name in finalizers if name not in ("orphan", "foregroundDeletion") or name == wanted]
    if wanted and wanted not in after:
        after.append(wanted)
    if after == finalizers:
        return False
    if after:
        metadata["finalizers"] = after
    else:
        metadata.pop("finalizers", None)
    return True


async def delete(call: Call, wish: Deletion, *, storage: Storage) -> Reply:
    """Delete one object, or start to. The answer is the object if it stays for a while, else mostly a Status."""
    reply, gone = await delete_object(call, wish, storage=storage)
    assert reply.obj is not None
    if gone and not call.kind.strategy.returns_deleted:
        resource = call.kind.resource
        return Reply(encode(status.success(resource.plural, resource.group, call.name, reply.obj["metadata"]["uid"])))
    return reply


async def delete_collection(call: Call, wish: Deletion, *, storage: Storage, revisions: Revisions) -> Reply:
    """Delete everything that a selection finds; the answer is the list of it."""
    page = await listing.select(call, store=storage.store, revisions=revisions)
    kind = call.kind
    gone: list[Object] = []

    async def one(obj: Object) -> None:
        metadata = obj["metadata"]
        single = Call(
            kind=kind,
            user=call.user,
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
            dry_run=call.dry_run,
        )
        try:
            await delete_object(single, wish, storage=storage)
        except NotFound:
            return  # somebody else was quicker, and the end is the same
        gone.append(obj)

    objects, turn = [], Turn()
    for row in page.rows:
        objects.append(kind.read(row))
        await turn.over()
    for start in range(0, len(objects), 500):
        await asyncio.gather(*(one(obj) for obj in objects[start : start + 500]))
    answer = {
        "kind": kind.resource.list_kind,
        "apiVersion": kind.resource.api_version,
        "metadata": {"resourceVersion": page.metadata["resourceVersion"]},
        "items": gone,
    }
    return Reply(encode(answer))
