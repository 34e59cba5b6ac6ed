"""The one document of OpenAPI v2, for older readers: all groups together, and schemas that say less."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from localpv.api.resources import Resource
from localpv.engine.apiserver.openapi import operations
from localpv.engine.apiserver.openapi.operations import Operation

_STATUS_TEXT = {200: "OK", 201: "Created", 202: "Accepted"}
_LEFT_OUT = ("oneOf", "anyOf", "not", "nullable", "default")

HEAD: dict[str, Any] = {"swagger": "2.0", "info": {"title": "Kubernetes", "version": "1.35"}}
TAIL: dict[str, Any] = {
    "securityDefinitions": {
        "BearerToken": {
            "type": "apiKey",
            "description": "A bearer token.",
            "name": "authorization",
            "in": "header",
        }
    },
    "security": [{"BearerToken": []}],
}

Named = Iterator[tuple[str, dict[str, Any]]]


def downgraded(schema: operations.Schema) -> operations.Schema:
    """A v3 schema in the words of v2."""
    written: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _LEFT_OUT:
            continue
        if key == "$ref":
            written[key] = value.replace("#/components/schemas/", "#/definitions/")
        elif key == "allOf":
            # v3 needs it to put a description beside a reference; v2 allows both side by side.
            if len(value) == 1 and "$ref" in value[0]:
                written.update(downgraded(value[0]))
        elif key == "properties":
            # Not `downgraded(value)`: a property may be named `default` or `oneOf`.
            written[key] = {name: downgraded(child) for name, child in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            written[key] = downgraded(value)
        else:
            written[key] = value
    if "oneOf" in schema and "type" not in written and any(one.get("type") == "string" for one in schema["oneOf"]):
        # Quantities and int-or-string.
        written["type"] = "string"
    return written


def _parameter(name: str) -> dict[str, Any]:
    known = operations.KNOWN[name]
    written = {
        "name": name,
        "in": known.place,
        "description": known.description,
        "type": known.type,
        "uniqueItems": True,
    }
    return {**written, "required": True} if known.required else written


def _operation(operation: Operation) -> dict[str, Any]:
    group, version, kind = operation.gvk
    wanted = [_parameter(name) for name in operation.parameters]
    if operation.body:
        schema = {"$ref": f"#/definitions/{operation.body}"}
        wanted.append({"name": "body", "in": "body", "required": operation.body_required, "schema": schema})
    returned = {"$ref": f"#/definitions/{operation.returns}"}
    return {
        "tags": [operation.tag],
        "description": operation.description,
        "operationId": operation.id,
        "consumes": list(operation.consumes),
        "produces": ["application/json", *(["application/json;stream=watch"] if operation.streams else [])],
        "schemes": ["https"],
        "parameters": wanted,
        "responses": {
            **{str(code): {"description": _STATUS_TEXT[code], "schema": returned} for code in operation.codes},
            "401": {"description": "Unauthorized"},
        },
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": {"group": group, "kind": kind, "version": version},
    }


def paths(resources: Iterable[Resource]) -> Named:
    """Every path with its operations, in the words of v2."""
    for resource in resources:
        for path in operations.of(resource):
            item: dict[str, Any] = {operation.method: _operation(operation) for operation in path.operations}
            item["parameters"] = [_parameter(name) for name in path.parameters]
            yield path.path, item


def schemas(resources: Iterable[Resource], find: operations.Find) -> Named:
    """Every definition that the paths need."""
    roots = operations.named_by(path for resource in resources for path in operations.of(resource))
    return operations.closure(roots, find)


def document(resources: Iterable[Resource], find: operations.Find) -> Iterator[bytes]:
    """The document as pieces of JSON, so that it is never in memory as a whole."""
    encode = msgspec.json.encode
    resources = list(resources)
    yield encode(HEAD)[:-1] + b',"paths":{'
    yield from _joined(paths(resources))
    yield b'},"definitions":{'
    yield from _joined(schemas(resources, find))
    yield b"}," + encode(TAIL)[1:]


def _joined(entries: Named) -> Iterator[bytes]:
    for number, (name, value) in enumerate(entries):
        yield b"%s%s:%s" % (b"," if number else b"", msgspec.json.encode(name), msgspec.json.encode(value))
