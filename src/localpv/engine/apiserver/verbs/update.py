"""PUT of an object or of its status."""

from __future__ import annotations

from typing import Any

from localpv.engine.apiserver import body
from localpv.engine.apiserver.call import Call, Reply
from localpv.engine.apiserver.writing import Writer
from localpv.errors import BadRequest


async def update(call: Call, value: Any, raw: bytes, *, writer: Writer) -> Reply:
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
        return await writer.create(call, obj)

    missing = create_it if call.kind.strategy.allow_create_on_update and not call.subresource else None
    return await writer.update(call, lambda _: obj, missing=missing)
