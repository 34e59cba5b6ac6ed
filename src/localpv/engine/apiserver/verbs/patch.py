"""PATCH: JSON patch, merge patch, strategic merge patch, and server-side apply."""

from __future__ import annotations

import itertools
from typing import Any

from localpv.api import media_types, status
from localpv.api.managed import apply as server_side
from localpv.api.managed import entries
from localpv.api.objects import Object, now
from localpv.api.patch import json_patch, merge_patch, strategic
from localpv.api.schema import walk
from localpv.api.schema.duplicates import MOST_FINDINGS
from localpv.api.schema.node import spelled
from localpv.engine.apiserver import body
from localpv.engine.apiserver.call import Call, Reply
from localpv.engine.apiserver.storage import Storage
from localpv.engine.apiserver.verbs.create import create_object
from localpv.engine.apiserver.verbs.update import Transform, update_object
from localpv.errors import BadRequest, UnsupportedMediaType


def supported(call: Call) -> tuple[str, ...]:
    """Custom kinds have no strategic merge: their lists do not say how they merge."""
    if call.kind.resource.custom:
        return media_types.JSON_PATCH, media_types.MERGE_PATCH, media_types.APPLY_PATCH
    return media_types.JSON_PATCH, media_types.MERGE_PATCH, media_types.STRATEGIC_MERGE_PATCH, media_types.APPLY_PATCH


async def patch(call: Call, raw: bytes, media_type: str, *, storage: Storage) -> Reply:
    """Change an object by a patch of one of four types."""
    if media_type not in supported(call):
        raise UnsupportedMediaType(
            f"the body of the request was in an unknown format - accepted media types include: "
            f"{', '.join(supported(call))}"
        )
    problems = entries.validate_patch(
        call.query.get("fieldManager", ""),
        force=call.flag("force") if "force" in call.query else None,
        is_apply=media_type == media_types.APPLY_PATCH,
    )
    if problems:
        raise status.invalid("PatchOptions", "meta.k8s.io", "", problems)
    if media_type == media_types.APPLY_PATCH:
        return await _apply(call, raw, storage=storage)
    value = body.decode_json(raw, most=body.most_values(call))
    if media_type == media_types.JSON_PATCH:
        value = operations(value)
    change = changer(call, value, media_type)
    findings = strict_findings(value, raw, media_type) if call.field_validation != "Ignore" else []

    def transform(obj: Object) -> Object:
        return body.take_in_patched(body.as_object(change(obj), call), call, findings, patch=raw)

    return await update_object(call, transform, storage=storage, patching=True)


def operations(value: Any) -> list[Any]:
    """What a JSON patch asks for; null is a list without any to Go."""
    if not isinstance(value, list | None):
        raise BadRequest("a JSON patch is a list of operations")
    return value or []


def changer(call: Call, value: Any, media_type: str) -> Transform:
    """The patch as a function from object to object; not for apply."""
    if media_type == media_types.JSON_PATCH:
        return lambda obj: json_patch.apply(obj, value)
    if not isinstance(value, dict):
        raise BadRequest("the patch must be a JSON object")
    if media_type == media_types.MERGE_PATCH:
        # The object was read for this call alone.
        return lambda obj: merge_patch.apply_to(obj, value)
    return lambda obj: strategic.strategic_merge(obj, value, call.kind.node)


def strict_findings(value: Any, raw: bytes, media_type: str) -> list[str]:
    """What a strict reader says of the patch itself."""
    twice = walk.duplicate_fields(raw)
    if media_type != media_types.JSON_PATCH:
        return [f'duplicate field "{path}"' for path in twice]
    unknown = (
        f'json patch unknown field "{spelled(((None, place), field))}"'
        for place, operation in enumerate(value)
        if isinstance(operation, dict)
        for field in operation
        if field not in ("op", "path", "from", "value")
    )
    return [*(f'json patch duplicate field "{path}"' for path in twice), *itertools.islice(unknown, MOST_FINDINGS)]


async def _apply(call: Call, raw: bytes, *, storage: Storage) -> Reply:
    force = call.flag("force")
    value = body.decode_yaml(raw, most=body.most_values(call))
    if isinstance(value, dict) and not (value.get("apiVersion") and value.get("kind")):
        raise BadRequest("an applied object must say its apiVersion and kind")
    obj = body.as_object(value, call)
    # Before anything is dropped from it: what the schema does not know is refused, whatever the call says about it.
    resource = call.kind.resource
    server_side.check_fits(obj, call.kind.node, api_version=resource.api_version, kind=resource.kind)
    if call.repeated_keys and call.field_validation == "Strict":
        lines = body.yaml_lines(call.repeated_keys)
        raise BadRequest(f"error strict decoding YAML: error converting YAML to JSON: {lines}")
    obj = body.take_in_applied(obj, call)
    metadata = obj.setdefault("metadata", {})
    if not metadata.get("name"):
        raise BadRequest(f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided")
    if metadata["name"] != call.name:
        raise BadRequest(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({call.name})"
        )

    def merged(live: Object | None) -> Object:
        return server_side.apply(
            live,
            obj,
            call.kind.node,
            manager=call.manager,
            force=force,
            time=now(),
            api_version=call.kind.resource.api_version,
            subresource=call.subresource,
            kind=call.kind.resource.kind,
            status_subresource="status" in call.kind.resource.subresources,
        )

    async def create_it() -> Reply:
        return await create_object(call, merged(None), storage=storage, applying=True)

    missing = create_it if not call.subresource else None
    return await update_object(call, merged, storage=storage, missing=missing, applying=True)
