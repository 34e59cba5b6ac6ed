"""The OpenAPI documents, built when first asked for and kept compressed until the custom kinds change.

The definition of a custom kind is the schema of its CustomResourceDefinition with what every object has added to it.
"""

from __future__ import annotations

import hashlib
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from time import time
from typing import Any

import msgspec

from localpv.api import media_types
from localpv.api.resources import Resource
from localpv.engine.apiserver.discovery import Answer
from localpv.engine.apiserver.openapi import operations, v2, v3
from localpv.engine.apiserver.openapi.operations import META, Schema, definition

_EMBEDDED = "x-kubernetes-embedded-resource"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_JUNCTORS = ("allOf", "anyOf", "oneOf", "not")

_TYPE_META: dict[str, Schema] = {
    "apiVersion": {"type": "string", "description": "Group and version of the API that this object is written in."},
    "kind": {"type": "string", "description": "What this object is; together with apiVersion it names the schema."},
}


def _metadata(kind: str, description: str) -> Schema:
    return {"allOf": [{"$ref": f"#/components/schemas/{META}.{kind}"}], "description": description}


def of_kind(resource: Resource, schema: Schema | None) -> Schema:
    """The definition of the kind, for OpenAPI v3."""
    published: Schema = {"type": "object"}
    # Without a schema nothing is listed: a client would take a list of fields for all there are.
    if schema is not None:
        published = _spelled_out({**schema, "type": "object"})
        published["properties"] = {
            **published.get("properties", {}),
            **_TYPE_META,
            "metadata": _metadata("ObjectMeta", "Name, labels, owner and the other data that every object carries."),
        }
    return _marked(published, resource, resource.kind)


def of_kind_v2(resource: Resource, schema: Schema | None) -> Schema:
    """The definition of the kind, for OpenAPI v2, whose readers understand less."""
    if schema is None or schema.get(_PRESERVE):
        return _marked({"type": "object"}, resource, resource.kind)
    return v2.downgraded(of_kind(resource, _simplified(schema)))


def of_list(resource: Resource) -> Schema:
    """The definition of the list kind, for OpenAPI v3."""
    kind = resource.list_kind or f"{resource.kind}List"
    items = {"$ref": f"#/components/schemas/{definition(resource)}"}
    published: Schema = {
        "type": "object",
        "description": f"Several objects of kind {resource.kind}.",
        "required": ["items"],
        "properties": {
            **_TYPE_META,
            "items": {"type": "array", "items": items, "description": "The objects."},
            "metadata": _metadata("ListMeta", "Version of the list and, when it is one page of several, how to go on."),
        },
    }
    return _marked(published, resource, kind)


def _marked(schema: Schema, resource: Resource, kind: str) -> Schema:
    schema["x-kubernetes-group-version-kind"] = [{"group": resource.group, "kind": kind, "version": resource.version}]
    if resource.selectable_fields:
        schema["x-kubernetes-selectable-fields"] = [{"fieldPath": path} for path in resource.selectable_fields]
    return schema


def _children(schema: Schema, change: Any) -> Schema:
    """A copy of the schema with every schema inside it changed."""
    copy = dict(schema)
    if "properties" in schema:
        copy["properties"] = {name: change(child) for name, child in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            copy[key] = change(schema[key])
    return copy


def _spelled_out(schema: Schema) -> Schema:
    """With what two of the extensions mean written in plain OpenAPI as well."""
    copy = _children(schema, _spelled_out)
    if copy.get(_INT_OR_STRING) and "anyOf" not in copy and "allOf" not in copy:
        copy["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    if copy.get(_EMBEDDED):
        copy["properties"] = {
            **copy.get("properties", {}),
            **_TYPE_META,
            "metadata": _metadata("ObjectMeta", "The data that every object carries."),
        }
        copy["required"] = list(dict.fromkeys([*copy.get("required", ()), "kind", "apiVersion"]))
    return copy


def _simplified(schema: Schema) -> Schema:
    """Without what breaks kubectl: fields it would think are all there are, and values that may be null."""
    copy = {key: value for key, value in schema.items() if key not in _JUNCTORS}
    nullable = copy.pop("nullable", False)
    preserve = copy.get(_PRESERVE, False)
    if nullable or preserve:
        copy.pop("items", None)
        copy.pop("properties", None)
        copy.pop(_EMBEDDED, None)
    if nullable or (preserve and copy.get("type") == "object") or (copy.get("type") == "array" and "items" not in copy):
        copy.pop("type", None)
    optional = {name for name, child in copy.get("properties", {}).items() if child.get("nullable")}
    if optional and "required" in copy:
        copy["required"] = [name for name in copy["required"] if name not in optional]
    return _children(copy, _simplified)


V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""What the answer is called; clients ask with the name that has an @ in it."""

_ASKED_FOR_PROTOBUF = ("application/com.github.proto-openapi.spec.v2@v1.0+protobuf", V2_PROTOBUF)
_A_YEAR = 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class _Kept:
    """A finished document."""

    gzipped: bytes
    etag: str
    change: int | None
    """After which change of the custom kinds it was built; None if it has nothing to do with them."""

    @classmethod
    def pack(cls, pieces: Iterable[bytes], *, change: int | None) -> _Kept:
        digest = hashlib.sha256()
        compressor = zlib.compressobj(6, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
        gzipped = []
        for piece in pieces:
            digest.update(piece)
            gzipped.append(compressor.compress(piece))
        gzipped.append(compressor.flush())
        return cls(b"".join(gzipped), digest.hexdigest().upper(), change)

    def plain(self) -> bytes:
        return zlib.decompress(self.gzipped, 16 + zlib.MAX_WBITS)


class Documents:
    """All OpenAPI documents of a server.

    Building the largest takes some tens of milliseconds, so a server asks from a thread; any thread may.
    """

    def __init__(
        self,
        resources: Callable[[], Sequence[Resource]],
        catalogue: operations.Catalogue,
        custom_schemas: Callable[[Resource], operations.Schema | None],
    ) -> None:
        self._resources = resources
        self._catalogue = catalogue
        self._custom_schemas = custom_schemas
        self._kept: dict[str, _Kept] = {}
        self._change = 0
        self._lock = threading.RLock()

    def invalidate(self) -> None:
        """The set of custom kinds, or the schema of one, has changed."""
        # Without the lock: whoever announces a change must not wait for a document that is being built.
        self._change += 1

    def respond(
        self, path: str, *, accept: str = "", accept_encoding: str = "", if_none_match: str = "", hash: str = ""
    ) -> Answer | None:
        """The answer to a GET below `/openapi`; None when there is nothing. `hash` is the parameter of that name."""
        match path.strip("/").split("/"):
            case ["openapi", "v2"]:
                wanted = _preferred(accept, (media_types.JSON, *_ASKED_FOR_PROTOBUF))
                if wanted is None:
                    return _not_acceptable()
                protobuf_wanted = wanted != media_types.JSON
                kept = self._v2_protobuf() if protobuf_wanted else self._v2_json()
                return _answer(
                    kept, V2_PROTOBUF if protobuf_wanted else media_types.JSON, accept_encoding, if_none_match
                )
            case ["openapi", "v3"]:
                return _answer(self._v3_index(), media_types.JSON, accept_encoding, if_none_match)
            case ["openapi", "v3", *rest]:
                return self._respond_v3("/".join(rest), accept, accept_encoding, if_none_match, hash)
            case _:
                return None

    def _respond_v3(
        self, path: str, accept: str, accept_encoding: str, if_none_match: str, asked: str
    ) -> Answer | None:
        kept = self._v3(path)
        if kept is None:
            return None
        if _preferred(accept, (media_types.JSON,)) is None:
            return _not_acceptable()
        if asked and asked != kept.etag:
            return Answer(body=b"", status=301, headers={"Location": _address(path, kept), "Vary": "Accept"})
        answer = _answer(kept, media_types.JSON, accept_encoding, if_none_match)
        if asked:
            # The address changes with the content, so what is there now stays for ever.
            answer.headers["Cache-Control"] = "public, immutable"
            answer.headers["Expires"] = formatdate(time() + _A_YEAR, usegmt=True)
        return answer

    # -- building -----------------------------------------------------------------------------------------------------

    def _once(self, key: str, pieces: Callable[[], Iterable[bytes]], *, custom: bool = True) -> _Kept:
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or kept.change not in (None, self._change):
                # Noted before `pieces` looks at the kinds: what changes meanwhile makes the result stale, not wrong.
                kept = _Kept.pack(pieces(), change=self._change if custom else None)
                self._kept[key] = kept
            return kept

    def _v3(self, path: str) -> _Kept | None:
        def here() -> list[Resource]:
            return [resource for resource in self._resources() if resource.path == f"/{path}"]

        found = here()
        if not found:
            self._kept.pop(path, None)
            return None
        return self._once(path, lambda: self._v3_pieces(here()), custom=any(resource.custom for resource in found))

    def _v3_pieces(self, here: Sequence[Resource]) -> Iterable[bytes]:
        return v3.document(here, self._finder(here))

    def _v3_index(self) -> _Kept:
        def pieces() -> Iterator[bytes]:
            addresses = {}
            for path in sorted({resource.path.strip("/") for resource in self._resources()}):
                if document := self._v3(path):
                    addresses[path] = {"serverRelativeURL": _address(path, document)}
            yield msgspec.json.encode({"paths": addresses})

        return self._once("v3", pieces)

    def _v2_json(self) -> _Kept:
        def pieces() -> Iterator[bytes]:
            resources = self._resources()
            return v2.document(resources, self._finder_v2(resources))

        return self._once("v2", pieces)

    def _v2_protobuf(self) -> _Kept:
        from localpv.engine.apiserver.openapi import protobuf  # for those who ask for this form

        def pieces() -> Iterator[bytes]:
            resources = self._resources()
            return protobuf.document(v2.paths(resources), v2.schemas(resources, self._finder_v2(resources)))

        return self._once("v2 protobuf", pieces)

    def _finder(self, resources: Iterable[Resource]) -> operations.Find:
        kinds, lists = _custom_names(resources)

        def find(name: str) -> operations.Schema:
            if resource := kinds.get(name):
                return of_kind(resource, self._custom_schemas(resource))
            if resource := lists.get(name):
                return of_list(resource)
            return self._catalogue.openapi(name)

        return find

    def _finder_v2(self, resources: Iterable[Resource]) -> operations.Find:
        kinds, lists = _custom_names(resources)

        def find(name: str) -> operations.Schema:
            if resource := kinds.get(name):
                return of_kind_v2(resource, self._custom_schemas(resource))
            if resource := lists.get(name):
                return v2.downgraded(of_list(resource))
            return v2.downgraded(self._catalogue.openapi(name))

        return find


def _custom_names(resources: Iterable[Resource]) -> tuple[dict[str, Resource], dict[str, Resource]]:
    found = [resource for resource in resources if resource.custom]
    return (
        {operations.definition(resource): resource for resource in found},
        {operations.list_definition(resource): resource for resource in found},
    )


def _address(path: str, kept: _Kept) -> str:
    return f"/openapi/v3/{path}?hash={kept.etag}"


def _preferred(accept: str, offered: Sequence[str]) -> str | None:
    """The first of the client's media types that we offer; None when there is none."""
    for clause in (accept or "*/*").split(","):
        wanted = clause.partition(";")[0].strip()
        if wanted in ("*/*", "application/*"):
            return offered[0]
        if wanted in offered:
            return wanted
    return None


def _not_acceptable() -> Answer:
    return Answer(body=b"", status=406, headers={"Vary": "Accept"})


def _answer(kept: _Kept, content_type: str, accept_encoding: str, if_none_match: str) -> Answer:
    headers = {"ETag": f'"{kept.etag}"', "Vary": "Accept, Accept-Encoding", "Cache-Control": "no-cache, private"}
    if if_none_match == headers["ETag"]:
        return Answer(body=b"", content_type=content_type, status=304, headers=headers)
    if "gzip" in accept_encoding:
        headers["Content-Encoding"] = "gzip"
        return Answer(body=kept.gzipped, content_type=content_type, headers=headers)
    return Answer(body=kept.plain(), content_type=content_type, headers=headers)
