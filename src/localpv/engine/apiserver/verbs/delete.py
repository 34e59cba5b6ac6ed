"""DELETE of one object, and of a whole selection."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from localpv.api import fields, selectors, status
from localpv.api.fields import FieldError
from localpv.api.objects import Object
from localpv.engine.apiserver.call import Call, Reply
from localpv.engine.apiserver.revisions import Revisions
from localpv.engine.apiserver.verbs import list as listing
from localpv.engine.apiserver.writing import Deletion, Writer, encode
from localpv.engine.store.store import Store
from localpv.errors import BadRequest, Invalid, NotFound
from localpv.runtime.turns import Turn

PROPAGATION = ("Background", "Foreground", "Orphan")


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


async def delete(call: Call, wish: Deletion, *, writer: Writer) -> Reply:
    """Delete one object, or start to. The answer is the object if it stays for a while, else mostly a Status."""
    reply, gone = await writer.delete(call, wish)
    assert reply.obj is not None
    if gone and not call.kind.strategy.returns_deleted:
        resource = call.kind.resource
        return Reply(encode(status.success(resource.plural, resource.group, call.name, reply.obj["metadata"]["uid"])))
    return reply


async def delete_collection(call: Call, wish: Deletion, *, writer: Writer, store: Store, revisions: Revisions) -> Reply:
    """Delete everything that a selection finds; the answer is the list of it."""
    page = await listing.select(call, store=store, revisions=revisions)
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
            await writer.delete(single, wish)
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
