"""Bytes to objects and back, typed or as plain dictionaries."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

import msgspec

from localpv import errors
from localpv.api.kinds.meta import Kind, ObjectMeta
from localpv.api.objects import Object
from localpv.api.resources import Resource
from localpv.client.sharing import Sharing

T = TypeVar("T")
K = TypeVar("K", bound=Kind)


class ListMeta(msgspec.Struct, rename="camel", gc=False):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, Generic[T], gc=False):
    """One answer to a list request."""

    items: list[T]
    metadata: ListMeta


class Line(msgspec.Struct, gc=False):
    """One line of a watch; what the object is depends on the type."""

    type: str
    object: msgspec.Raw


class Codec(Protocol[T]):
    """How the objects of one resource are read and written."""

    resource: Resource

    def read(self, body: bytes | msgspec.Raw) -> T: ...

    def read_page(self, body: bytes) -> Page[T]: ...

    def write(self, obj: T) -> bytes: ...

    def meta(self, obj: T) -> ObjectMeta: ...


class TypedCodec(Generic[K]):
    """Reads the fields that a struct names and skips the rest."""

    def __init__(self, kind: type[K]) -> None:
        self.resource = kind.resource
        self._one = msgspec.json.Decoder(kind)
        self._page: msgspec.json.Decoder[Page[K]] = msgspec.json.Decoder(Page[kind])  # type: ignore[valid-type]
        self._sharing = Sharing(kind)
        head = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
        self._head = msgspec.json.encode(head)[:-1] + b","

    def read(self, body: bytes | msgspec.Raw) -> K:
        try:
            obj = self._one.decode(body)
        except msgspec.MsgspecError as error:
            raise _unreadable(self.resource, error) from error
        self._sharing.share((obj,))
        return obj

    def read_page(self, body: bytes) -> Page[K]:
        try:
            page = self._page.decode(body)
        except msgspec.MsgspecError as error:
            raise _unreadable(self.resource, error) from error
        self._sharing.share(page.items)
        return page

    def write(self, obj: K) -> bytes:
        # metadata is always written, so something follows the comma.
        return self._head + msgspec.json.encode(obj)[1:]

    def meta(self, obj: K) -> ObjectMeta:
        return obj.metadata


class UntypedCodec:
    """Reads and writes whole objects as dictionaries."""

    _page: msgspec.json.Decoder[Page[Object]] = msgspec.json.Decoder(Page[dict[str, Any]])
    _one: msgspec.json.Decoder[Object] = msgspec.json.Decoder(dict[str, Any])

    def __init__(self, resource: Resource) -> None:
        self.resource = resource

    def read(self, body: bytes | msgspec.Raw) -> Object:
        try:
            return self._one.decode(body)
        except msgspec.MsgspecError as error:
            raise _unreadable(self.resource, error) from error

    def read_page(self, body: bytes) -> Page[Object]:
        try:
            page = self._page.decode(body)
        except msgspec.MsgspecError as error:
            raise _unreadable(self.resource, error) from error
        for item in page.items:
            # Items of a list do not repeat what they are; an object alone should know.
            item.setdefault("apiVersion", self.resource.api_version)
            item.setdefault("kind", self.resource.kind)
        return page

    def write(self, obj: Object) -> bytes:
        head = {"apiVersion": self.resource.api_version, "kind": self.resource.kind}
        return msgspec.json.encode(head | obj)

    def meta(self, obj: Object) -> ObjectMeta:
        return msgspec.convert(obj["metadata"], ObjectMeta)


def _unreadable(resource: Resource, error: Exception) -> errors.InternalError:
    return errors.InternalError(f"the server sent something that is no {resource.kind}: {error}")
