"""The documents of OpenAPI v3: one for each group and version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from localpv.api.resources import Resource
from localpv.engine.apiserver.openapi import operations
from localpv.engine.apiserver.openapi.operations import Operation, Path

_STATUS_TEXT = {200: "OK", 201: "Created", 202: "Accepted"}

INFO = {"title": "Kubernetes", "version": "1.35"}
SECURITY = {
    "type": "apiKey",
    "description": "A bearer token.",
    "name": "authorization",
    "in": "header",
}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _parameter(name: str) -> dict[str, Any]:
    known = operations.KNOWN[name]
    written = {"name": name, "in": known.place, "description": known.description}
    schema = {"type": known.type, "uniqueItems": True}
    return {**written, "required": True, "schema": schema} if known.required else {**written, "schema": schema}


def _operation(operation: Operation) -> dict[str, Any]:
    group, version, kind = operation.gvk
    content = {"application/json": {"schema": _reference(operation.returns)}}
    if operation.streams:
        content["application/json;stream=watch"] = content["application/json"]
    written: dict[str, Any] = {
        "tags": [operation.tag],
        "description": operation.description,
        "operationId": operation.id,
        "parameters": [_parameter(name) for name in operation.parameters],
        "responses": {
            **{str(code): {"description": _STATUS_TEXT[code], "content": content} for code in operation.codes},
            "401": {"description": "Unauthorized"},
        },
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": {"group": group, "kind": kind, "version": version},
    }
    if operation.body:
        sent = {"schema": _reference(operation.body)}
        written["requestBody"] = {"content": dict.fromkeys(operation.consumes, sent)}
        if operation.body_required:
            written["requestBody"]["required"] = True
    return written


def _path(path: Path) -> dict[str, Any]:
    return {
        **{operation.method: _operation(operation) for operation in path.operations},
        "parameters": [_parameter(name) for name in path.parameters],
    }


def document(resources: Sequence[Resource], find: operations.Find) -> Iterator[bytes]:
    """The document of one group and version as pieces of JSON, so that it is never in memory as a whole."""
    paths = [path for resource in resources for path in operations.of(resource)]
    encode = msgspec.json.encode
    yield b'{"openapi":"3.0.0","info":' + encode(INFO) + b',"paths":{'
    for number, path in enumerate(paths):
        yield b"%s%s:%s" % (b"," if number else b"", encode(path.path), encode(_path(path)))
    yield b'},"components":{"schemas":{'
    for number, (name, schema) in enumerate(operations.closure(operations.named_by(paths), find)):
        yield b"%s%s:%s" % (b"," if number else b"", encode(name), encode(schema))
    yield b'},"securitySchemes":{"BearerToken":' + encode(SECURITY) + b"}}}"
