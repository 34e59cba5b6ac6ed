"""PUT of an object or of its status, and what every change of an object goes through."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from localpv.api import names, status
from localpv.api.fields import FieldErrors, invalid
from localpv.api.managed import track as managed_fields
from localpv.api.objects import Object
from localpv.engine.apiserver import body
from localpv.engine.apiserver.call import Call, Reply
from localpv.engine.apiserver.storage import (
    Storage,
    check_namespace,
    encode,
    is_ready_to_go,
    is_stored_so,
    metadata_of,
    refuse_if_wrong,
    track,
    wrong_metadata,
)
from localpv.engine.apiserver.verbs.create import create_object
from localpv.errors import BadRequest

Transform = Callable[[Object], Object]
"""From a private copy of the object as it is to the object as it should be."""


async def update(call: Call, value: Any, raw: bytes, *, storage: Storage) -> Reply:
    """Replace an object. A few kinds are created by a PUT to a name that does not exist."""
    obj = body.take_in(body.as_object(value, call), call, raw)
    metadata = obj.get("metadata") or {}
    if not metadata.get("name"):
        raise BadRequest("name must be provided in the object and be the same as the one on the URL")

    async def create_it() -> Reply:
        if metadata.get("name") != call.name:
            raise BadRequest(
                f"the name of the object ({metadata.get('name')}) does not match the name on the URL ({call.name})"
            )
        return await create_object(call, obj, storage=storage)

    missing = create_it if call.kind.strategy.allow_create_on_update and not call.subresource else None
    return await update_object(call, lambda _: obj, storage=storage, missing=missing)


async def update_object(
    call: Call,
    transform: Transform,
    *,
    storage: Storage,
    missing: Callable[[], Awaitable[Reply]] | None = None,
    applying: bool = False,
    patching: bool = False,
    ending: bool = False,
) -> Reply:
    """Change an object. `missing` makes a coroutine that creates it when it is not there.

    `applying` says that the transform has seen to managedFields itself, as server-side apply does. With
    `patching` another uid is an attempt to change it; otherwise it says which object was meant. `ending` says that
    the object is about to be deleted: there is always room for that.
    """
    kind, strategy = call.kind, call.kind.strategy
    row = storage.row(call)
    if row is None:
        if missing is not None:
            storage.admission.creation(call)
            return await missing()
        raise status.not_found(kind.resource.plural, kind.resource.group, call.name)
    old = kind.read(row)
    obj = transform(kind.read(row))
    _check_preconditions(call, obj, old, uid=not patching)
    _carry_over_metadata(obj, old)
    strategy.default(obj)
    if not applying:
        # Before the kind puts anything in: only what the client wrote is the client's.
        track(call, obj, old)
    _prepare(call, obj, old)
    _count_generation(call, obj, old)
    refuse_if_wrong(kind, obj, _problems(call, obj, old))
    call.warnings.extend(strategy.warnings(obj))
    storage.admission.validate(call, obj, old)
    managed_fields.keep_times(obj, old)
    if obj == old and is_stored_so(kind, obj, row):
        return Reply(row.value if kind.is_served_as_stored(row) else encode(old), obj=old)
    key = kind.key(call.namespace, call.name)
    if is_ready_to_go(obj):
        return await storage.remove(call, key, obj)
    return await storage.put(call, key, obj, 200, ending=ending)


def _prepare(call: Call, obj: Object, old: Object) -> None:
    strategy = call.kind.strategy
    match call.subresource:
        case "status":
            strategy.prepare_for_status_update(obj, old)
        case "finalize":
            strategy.prepare_for_finalize(obj, old)
        case "" | "scale":
            strategy.prepare_for_update(obj, old)


def _problems(call: Call, obj: Object, old: Object) -> FieldErrors:
    strategy = call.kind.strategy
    found = names.validate_object_meta_update(obj["metadata"], old["metadata"])
    found += wrong_metadata(call.kind, obj["metadata"], _any_name)
    match call.subresource:
        case "status":
            found += strategy.validate_status_update(obj, old)
        case "finalize":
            found += strategy.validate_finalize(obj, old)
        case "" | "scale":
            found += strategy.validate(obj)
            found += strategy.validate_update(obj, old)
    return found


def _any_name(_: str) -> list[str]:
    """An object that exists keeps the name it was given, even if the rules have become stricter since."""
    return []


def _check_preconditions(call: Call, obj: Object, old: Object, *, uid: bool) -> None:
    resource, metadata, before = call.kind.resource, metadata_of(obj), old["metadata"]
    name = metadata.get("name")
    if name and name != call.name:
        raise BadRequest(
            f"the name of the object ({name}) does not match the name on the URL ({call.name})",
        )
    check_namespace(call, metadata)
    metadata["name"] = call.name
    version = metadata.get("resourceVersion") or ""
    if version in ("", "0"):
        if not call.kind.strategy.unconditional_update:
            problem = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise status.invalid(resource.kind, resource.group, call.name, [problem])
    elif version != before["resourceVersion"]:
        if not version.isdigit():
            problem = invalid("metadata.resourceVersion", version, "must be a version that the server gave out")
            raise status.invalid(resource.kind, resource.group, call.name, [problem])
        raise status.modified(resource.plural, resource.group, call.name)
    meant = metadata.get("uid")
    if uid and meant and meant != before["uid"]:
        why = f"Precondition failed: UID in precondition: {meant}, UID in object meta: {before['uid']}"
        raise status.conflict(resource.plural, resource.group, call.name, why)


def _carry_over_metadata(obj: Object, old: Object) -> None:
    """What the server alone writes stays as it was, whatever the client sent."""
    metadata, before = obj["metadata"], old["metadata"]
    metadata["resourceVersion"] = before["resourceVersion"]
    for key in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if key in before:
            # A different deletionTimestamp is an error (checked with the metadata); a missing one is not.
            if not metadata.get(key):
                metadata[key] = before[key]
        else:
            metadata.pop(key, None)
    metadata.pop("selfLink", None)
    if "generation" in before:
        metadata["generation"] = before["generation"]
    else:
        metadata.pop("generation", None)


def _count_generation(call: Call, obj: Object, old: Object) -> None:
    strategy = call.kind.strategy
    # Where a pod runs is the scheduler's word, not a change of what was wished for.
    if not strategy.generation or call.subresource in ("status", "binding"):
        return
    aside = ("metadata", "apiVersion") if strategy.generation_counts_status else ("metadata", "apiVersion", "status")
    changed = any(obj.get(key) != old.get(key) for key in {**obj, **old} if key not in aside)
    metadata, before = obj["metadata"], old["metadata"]
    if not changed and strategy.generation_counts_annotations:
        changed = metadata.get("annotations") != before.get("annotations")
    metadata["generation"] = before.get("generation", 0) + 1 if changed else before.get("generation", 1)
