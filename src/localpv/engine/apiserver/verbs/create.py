"""POST to a collection."""

from __future__ import annotations

from typing import Any

from localpv.engine.apiserver import body
from localpv.engine.apiserver.call import Call, Reply
from localpv.engine.apiserver.writing import Writer


async def create(call: Call, value: Any, raw: bytes, *, writer: Writer) -> Reply:
    """Make a new object from a decoded body."""
    obj = body.take_in(body.as_object(value, call), call, raw)
    return await writer.create(call, obj)
