"""A watch as it comes off the wire: lines to events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from localpv import errors
from localpv.api import status as statuses
from localpv.api import well_known
from localpv.api.kinds.meta import ObjectMeta
from localpv.client.codec import Codec, Line
from localpv.client.transport import Request, Transport

T = TypeVar("T")

SILENCE_SECONDS = 30
"""How much longer than agreed a server may take to end a watch before it counts as lost."""


@dataclass(frozen=True, slots=True)
class Changed(Generic[T]):
    """The object is there now, new or changed."""

    object: T


@dataclass(frozen=True, slots=True)
class Deleted(Generic[T]):
    """The object is gone, or left the selection; this is how it last was."""

    object: T


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Nothing changed in the selection up to this version."""

    resource_version: str


@dataclass(frozen=True, slots=True)
class Synced:
    """Everything that existed when the watch began has been told."""

    resource_version: str


Event = Changed[T] | Deleted[T] | Bookmark | Synced

_line = msgspec.json.Decoder(Line)


class _Marked(msgspec.Struct, gc=False):
    metadata: ObjectMeta


_mark = msgspec.json.Decoder(_Marked)


async def events(transport: Transport, request: Request, codec: Codec[T]) -> AsyncGenerator[Event[T], None]:
    """The events of one watch; a line of type ERROR is raised."""
    async with transport.stream(request) as chunks:
        tail = b""
        async for chunk in chunks:
            lines = (tail + chunk).split(b"\n")
            tail = lines.pop()
            for line in lines:
                if line:
                    yield _event(line, codec)


def _event(line: bytes, codec: Codec[T]) -> Event[T]:
    try:
        said = _line.decode(line)
        match said.type:
            case "ADDED" | "MODIFIED":
                return Changed(codec.read(said.object))
            case "DELETED":
                return Deleted(codec.read(said.object))
            case "BOOKMARK":
                meta = _mark.decode(said.object).metadata
                if meta.annotations.get(well_known.INITIAL_EVENTS_END) == "true":
                    return Synced(meta.resource_version)
                return Bookmark(meta.resource_version)
            case "ERROR":
                status = msgspec.json.decode(said.object, type=dict)
                raise statuses.from_status(status, int(status.get("code") or 500))
    except msgspec.MsgspecError as error:
        raise errors.InternalError(f"the server sent a line that is no watch event: {error}") from error
    raise errors.InternalError(f"the server sent a watch event of the unknown type {said.type}")
