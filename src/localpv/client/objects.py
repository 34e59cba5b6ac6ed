"""The calls on the objects of one resource.

`Objects` reads, creates, patches, applies, deletes and watches; typed or untyped. Replacing a whole object (PUT) needs
all of its fields and is therefore only in `UntypedObjects`. To change a typed object safely, send a merge patch that
carries its resourceVersion in metadata: the server answers Conflict when somebody else wrote in between.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from localpv import errors
from localpv.api import media_types, selectors
from localpv.api.kinds.meta import ObjectMeta
from localpv.api.objects import Object
from localpv.api.resources import Resource
from localpv.client import watching
from localpv.client.codec import Codec, Page
from localpv.client.transport import Answer, Request, Transport, error_of

T = TypeVar("T")

PAGE_SIZE = 500
"""Objects in one answer to a list: large enough to be quick, small enough not to hold a whole cluster in memory."""

WATCH_SECONDS = 300
"""How long one watch lasts before it is opened anew, so that connections spread over the servers of a cluster."""


class Patch(enum.Enum):
    """The content type of a patch."""

    JSON = media_types.JSON_PATCH
    MERGE = media_types.MERGE_PATCH
    STRATEGIC = media_types.STRATEGIC_MERGE_PATCH


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """All objects as they were at one resource version."""

    items: list[T]
    resource_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which objects of a resource: all, or those in a namespace, with certain labels or certain fields."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def query(self) -> dict[str, str]:
        return _given(labelSelector=self.labels, fieldSelector=self.fields)

    def matches(self, obj: object, meta: ObjectMeta) -> bool:
        """Whether the server would tell of this object to who asks for the selection; fields are those of structs."""
        if self.namespace and meta.namespace != self.namespace:
            return False
        labels, fields = _selectors(self.labels, self.fields)
        if not labels.matches(meta.labels):
            return False
        return fields.empty or fields.matches({term.field: _field(obj, term.field) for term in fields.terms})


EVERYTHING = Selection()


@functools.lru_cache(maxsize=16)
def _selectors(labels: str, fields: str) -> tuple[selectors.LabelSelector, selectors.FieldSelector]:
    return selectors.parse(labels), selectors.parse_fields(fields)


def _field(obj: object, path: str) -> str:
    """The value at a path such as `spec.nodeName`, which a struct calls `spec.node_name`."""
    for name in path.split("."):
        obj = getattr(obj, "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name))
    return str(obj)


class Objects(Generic[T]):
    """The objects of one resource at one server."""

    def __init__(self, transport: Transport, codec: Codec[T], *, field_manager: str) -> None:
        self.codec = codec
        self._transport = transport
        self._field_manager = field_manager

    @property
    def resource(self) -> Resource:
        return self.codec.resource

    async def get(self, name: str, namespace: str = "", *, subresource: str = "") -> T:
        """The object as it is now; NotFound when there is none."""
        answer = await self._ask("GET", self._path(namespace, name, subresource))
        return self.codec.read(answer.body)

    async def find(self, name: str, namespace: str = "") -> T | None:
        """The object as it is now, or None."""
        try:
            return await self.get(name, namespace)
        except errors.NotFound:
            return None

    async def list(self, selection: Selection = EVERYTHING) -> Listed[T]:
        """All objects, read page by page."""
        items: list[T] = []
        version = ""
        try:
            async for page in self.pages(selection):
                items += page.items
                version = page.metadata.resource_version
        except errors.Gone:
            # It took longer than the server keeps old versions: the whole at once, then.
            items.clear()
            async for page in self.pages(selection, size=0):
                items += page.items
                version = page.metadata.resource_version
        return Listed(items, version)

    async def pages(self, selection: Selection = EVERYTHING, *, size: int = PAGE_SIZE) -> AsyncIterator[Page[T]]:
        """The answers to a list one by one, all of the same resource version; Gone when it becomes too old."""
        path = self._path(selection.namespace)
        query = selection.query()
        if size:
            query["limit"] = str(size)
        while True:
            page = self.codec.read_page((await self._ask("GET", path, query=query)).body)
            yield page
            if not page.metadata.continue_:
                return
            query = query | {"continue": page.metadata.continue_}

    async def create(self, obj: T, *, dry_run: bool = False) -> T:
        """Create an object, in the namespace that its metadata names."""
        answer = await self._ask(
            "POST",
            self._path(self.codec.meta(obj).namespace),
            query=self._writing(dry_run=dry_run),
            body=self.codec.write(obj),
        )
        return self.codec.read(answer.body)

    async def create_from(self, fields: Object) -> T:
        """Create an object from all of its fields, also those that its struct does not name."""
        head = {"apiVersion": self.resource.api_version, "kind": self.resource.kind}
        answer = await self._ask(
            "POST",
            self._path(fields["metadata"].get("namespace", "")),
            query=self._writing(),
            body=msgspec.json.encode(head | fields),
        )
        return self.codec.read(answer.body)

    async def patch(
        self,
        name: str,
        patch: Any,
        namespace: str = "",
        *,
        how: Patch = Patch.MERGE,
        subresource: str = "",
        dry_run: bool = False,
    ) -> T:
        """Change some fields of an object."""
        answer = await self._ask(
            "PATCH",
            self._path(namespace, name, subresource),
            query=self._writing(dry_run=dry_run),
            body=msgspec.json.encode(patch),
            content_type=how.value,
        )
        return self.codec.read(answer.body)

    async def apply(
        self,
        obj: T,
        *,
        force: bool = False,
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
        strict: bool = False,
    ) -> T:
        """Own exactly the fields that are given (server-side apply); Conflict when another manager owns one of them.

        The object must hold only what its manager wants, so build it; never pass one that was read.
        With `strict` a field that its kind does not have is refused, as it should be in what a person wrote.
        """
        meta = self.codec.meta(obj)
        query = self._writing(dry_run=dry_run) | {"fieldManager": field_manager or self._field_manager}
        answer = await self._ask(
            "PATCH",
            self._path(meta.namespace, meta.name, subresource),
            query=query | _given(force="true" if force else "", fieldValidation="Strict" if strict else ""),
            body=self.codec.write(obj),
            content_type=media_types.APPLY_PATCH,
        )
        return self.codec.read(answer.body)

    async def delete(
        self,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        grace_seconds: int | None = None,
        propagation: str = "",
        dry_run: bool = False,
    ) -> T | None:
        """Delete an object: None when it is gone, the object when it still waits for its finalizers.

        With uid or resource_version only that very object is deleted, and Conflict raised for another.
        """
        options: dict[str, Any] = {}
        if preconditions := _given(uid=uid, resourceVersion=resource_version):
            options["preconditions"] = preconditions
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if propagation:
            options["propagationPolicy"] = propagation
        if dry_run:
            options["dryRun"] = ["All"]
        answer = await self._ask(
            "DELETE",
            self._path(namespace, name),
            body=msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions", **options}),
        )
        if msgspec.json.decode(answer.body, type=_Answered).kind == "Status":
            return None
        left = self.codec.read(answer.body)
        meta = self.codec.meta(left)
        # Of some kinds the server shows how an object last was, also when it is gone already.
        return left if meta.finalizers or meta.deletion_grace_period_seconds else None

    async def call(self, name: str, subresource: str, body: Mapping[str, Any], namespace: str = "") -> Object:
        """POST to a subresource that is an action: binding, eviction, token."""
        answer = await self._ask(
            "POST",
            self._path(namespace, name, subresource),
            query=self._writing(),
            body=msgspec.json.encode(body),
        )
        return msgspec.json.decode(answer.body, type=dict[str, Any])

    def watch(
        self,
        selection: Selection = EVERYTHING,
        *,
        resource_version: str = "",
        initial_events: bool = False,
        timeout_seconds: int = WATCH_SECONDS,
    ) -> AsyncGenerator[watching.Event[T], None]:
        """What changes after a resource version, until the server ends the watch; close it with `aclosing`.

        With initial_events everything that exists comes first, then a Synced. Raises Gone when the version is too
        old, and ConnectionLost when the connection breaks.
        """
        query = selection.query() | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timeout_seconds),
        }
        if initial_events:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        if resource_version:
            query["resourceVersion"] = resource_version
        request = Request(
            method="GET",
            path=self._path(selection.namespace),
            query=query,
            timeout_seconds=timeout_seconds + watching.SILENCE_SECONDS,
        )
        return watching.events(self._transport, request, self.codec)

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = media_types.JSON,
    ) -> Answer:
        request = Request(method=method, path=path, query=query or {}, body=body, content_type=content_type)
        answer = await self._transport.request(request)
        if answer.code >= 400:
            raise error_of(answer)
        return answer

    def _writing(self, *, dry_run: bool = False) -> dict[str, str]:
        return _given(fieldManager=self._field_manager, dryRun="All" if dry_run else "")

    def _path(self, namespace: str, *rest: str) -> str:
        """The address of the collection, of an object in it, or of a subresource of that."""
        where = ("namespaces", namespace) if namespace and self.resource.namespaced else ()
        return "/".join((self.resource.path, *where, self.resource.plural, *(part for part in rest if part)))


class UntypedObjects(Objects[Object]):
    """Objects as dictionaries, with every field they have: these may be replaced as a whole."""

    async def update(self, obj: Object, *, subresource: str = "", dry_run: bool = False) -> Object:
        """Replace an object that was read before; Conflict when it has changed since."""
        meta = self.codec.meta(obj)
        answer = await self._ask(
            "PUT",
            self._path(meta.namespace, meta.name, subresource),
            query=self._writing(dry_run=dry_run),
            body=self.codec.write(obj),
        )
        return self.codec.read(answer.body)


class _Answered(msgspec.Struct, gc=False):
    kind: str = ""


def _given(**values: str) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}
