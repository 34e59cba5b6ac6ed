"""POST to a collection."""

from __future__ import annotations

from typing import Any

from localpv.api import names, status
from localpv.api.objects import Object, new_uid, now
from localpv.engine.apiserver import body
from localpv.engine.apiserver.call import Call, Reply
from localpv.engine.apiserver.storage import (
    Storage,
    check_namespace,
    metadata_of,
    refuse_if_wrong,
    track,
    wrong_metadata,
)
from localpv.errors import AlreadyExists, BadRequest

GENERATED_NAME_TRIES = 8


async def create(call: Call, value: Any, raw: bytes, *, storage: Storage) -> Reply:
    """Make a new object from a decoded body."""
    obj = body.take_in(body.as_object(value, call), call, raw)
    return await create_object(call, obj, storage=storage)


async def create_object(call: Call, obj: Object, *, storage: Storage, applying: bool = False) -> Reply:
    """Store a new object, which has been taken in by the schema and is ours to change.

    `applying` says that managedFields have been seen to, as server-side apply does.
    """
    metadata = metadata_of(obj)
    storage.admission.namespace(call)
    check_namespace(call, metadata)
    prefix = metadata.get("generateName", "") if not metadata.get("name") else ""
    _begin_metadata(call, metadata)
    if prefix:
        metadata["name"] = names.generate(prefix)
    _default_and_validate(call, obj, storage=storage, applying=applying)
    for _ in range(GENERATED_NAME_TRIES - 1 if prefix else 0):
        try:
            return await _store(call, obj, storage=storage)
        except AlreadyExists:
            metadata["name"] = names.generate(prefix)
    return await _store(call, obj, storage=storage)


def _begin_metadata(call: Call, metadata: Object) -> None:
    """What the server alone writes begins anew, whatever the client sent."""
    if metadata.get("resourceVersion"):
        raise BadRequest("resourceVersion should not be set on objects to be created")
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation", "resourceVersion"):
        metadata.pop(key, None)
    if call.kind.strategy.generation:
        metadata["generation"] = 1
    metadata["uid"] = new_uid()
    metadata["creationTimestamp"] = now()


def _default_and_validate(call: Call, obj: Object, *, storage: Storage, applying: bool) -> None:
    kind, strategy = call.kind, call.kind.strategy
    storage.admission.mutate_create(call, obj)
    strategy.default(obj)
    if not applying:
        # Before the kind puts anything in: only what the client wrote is the client's.
        track(call, obj, None)
    strategy.prepare_for_create(obj)
    problems = wrong_metadata(kind, obj["metadata"], strategy.validate_name)
    problems += strategy.validate(obj)
    problems += strategy.validate_create(obj)
    refuse_if_wrong(kind, obj, problems)
    call.warnings.extend(strategy.warnings(obj))


async def _store(call: Call, obj: Object, *, storage: Storage) -> Reply:
    kind, metadata = call.kind, obj["metadata"]
    storage.admission.validate(call, obj, None)
    key = kind.key(metadata.get("namespace", ""), metadata["name"])
    if storage.store.head(kind.resource.storage_prefix, key) is not None:
        raise status.already_exists(kind.resource.plural, kind.resource.group, metadata["name"])
    return await storage.put(call, key, obj, 201)
