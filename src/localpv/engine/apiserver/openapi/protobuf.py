"""The document of OpenAPI v2 as protocol buffers, which is how clients written in Go ask for it.

Only the parts of the message `openapi.v2.Document` that our document has. A message is described by a table: the
JSON key, the field's number and the function that writes it. Fields that are not in a table are left out, except
those whose name begins with `x-`, which every message keeps as vendor extensions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from localpv.api.protobuf.wire import FIXED64, write_bytes, write_number, write_varint
from localpv.engine.apiserver.openapi import v2

Write = Callable[[int, Any], bytes]
Table = dict[str, tuple[int, Write]]


def _string(number: int, value: Any) -> bytes:
    return write_bytes(number, str(value).encode())


def _strings(number: int, values: Iterable[Any]) -> bytes:
    return b"".join(_string(number, value) for value in values)


def _bool(number: int, value: Any) -> bytes:
    return write_number(number, bool(value))


def _int(number: int, value: Any) -> bytes:
    return write_number(number, int(value))


def _double(number: int, value: Any) -> bytes:
    return write_varint(number << 3 | FIXED64) + struct.pack("<d", value)


def _any(number: int, value: Any) -> bytes:
    """A free value travels as YAML text, of which JSON is a part."""
    return write_bytes(number, _string(2, msgspec.json.encode(value).decode()))


def _anys(number: int, values: Iterable[Any]) -> bytes:
    return b"".join(_any(number, value) for value in values)


def _named(name: str, value: bytes) -> bytes:
    return _string(1, name) + write_bytes(2, value)


def _message(value: dict[str, Any], table: Table, extensions: int = 0) -> bytes:
    written = []
    for key, child in value.items():
        if known := table.get(key):
            number, write = known
            written.append(write(number, child))
        elif extensions and key.startswith("x-"):
            text = _string(2, msgspec.json.encode(child).decode())
            written.append(write_bytes(extensions, _named(key, text)))
    return b"".join(written)


# -- schemas ----------------------------------------------------------------------------------------------------------


def schema(value: dict[str, Any]) -> bytes:
    return _message(value, _SCHEMA, 31)


def _type(number: int, value: Any) -> bytes:
    return write_bytes(number, _strings(1, [value] if isinstance(value, str) else value))


def _items(number: int, value: dict[str, Any]) -> bytes:
    return write_bytes(number, write_bytes(1, schema(value)))


def _additional(number: int, value: Any) -> bytes:
    return write_bytes(number, _bool(2, value) if isinstance(value, bool) else write_bytes(1, schema(value)))


def _properties(number: int, value: dict[str, dict[str, Any]]) -> bytes:
    return write_bytes(number, b"".join(write_bytes(1, _named(name, schema(child))) for name, child in value.items()))


_SCHEMA: Table = {
    "$ref": (1, _string),
    "format": (2, _string),
    "title": (3, _string),
    "description": (4, _string),
    "default": (5, _any),
    "multipleOf": (6, _double),
    "maximum": (7, _double),
    "exclusiveMaximum": (8, _bool),
    "minimum": (9, _double),
    "exclusiveMinimum": (10, _bool),
    "maxLength": (11, _int),
    "minLength": (12, _int),
    "pattern": (13, _string),
    "maxItems": (14, _int),
    "minItems": (15, _int),
    "uniqueItems": (16, _bool),
    "maxProperties": (17, _int),
    "minProperties": (18, _int),
    "required": (19, _strings),
    "enum": (20, _anys),
    "additionalProperties": (21, _additional),
    "type": (22, _type),
    "items": (23, _items),
    "properties": (25, _properties),
    "example": (30, _any),
}

# -- paths ------------------------------------------------------------------------------------------------------------

_BODY: Table = {
    "description": (1, _string),
    "name": (2, _string),
    "in": (3, _string),
    "required": (4, _bool),
    "schema": (5, lambda number, value: write_bytes(number, schema(value))),
}
_QUERY: Table = {
    "required": (1, _bool),
    "in": (2, _string),
    "description": (3, _string),
    "name": (4, _string),
    "type": (6, _string),
    "uniqueItems": (20, _bool),
}
_PATH: Table = {**_QUERY, "type": (5, _string), "uniqueItems": (19, _bool)}


def _parameter(value: dict[str, Any]) -> bytes:
    match value["in"]:
        case "body":
            return write_bytes(1, _message(value, _BODY))
        case "query":
            return write_bytes(2, write_bytes(3, _message(value, _QUERY)))
        case _:
            return write_bytes(2, write_bytes(4, _message(value, _PATH)))


def _parameters(number: int, values: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(write_bytes(number, write_bytes(1, _parameter(value))) for value in values)


def _responses(number: int, value: dict[str, dict[str, Any]]) -> bytes:
    written = []
    for code, response in value.items():
        body = _string(1, response["description"])
        if "schema" in response:
            body += write_bytes(2, write_bytes(1, schema(response["schema"])))
        written.append(write_bytes(1, _named(code, write_bytes(1, body))))
    return write_bytes(number, b"".join(written))


_OPERATION: Table = {
    "tags": (1, _strings),
    "description": (3, _string),
    "operationId": (5, _string),
    "produces": (6, _strings),
    "consumes": (7, _strings),
    "parameters": (8, _parameters),
    "responses": (9, _responses),
    "schemes": (10, _strings),
}


def _operation(number: int, value: dict[str, Any]) -> bytes:
    return write_bytes(number, _message(value, _OPERATION, 13))


_PATH_ITEM: Table = {
    "get": (2, _operation),
    "put": (3, _operation),
    "post": (4, _operation),
    "delete": (5, _operation),
    "patch": (8, _operation),
    "parameters": (9, _parameters),
}

# -- the document -----------------------------------------------------------------------------------------------------

_INFO: Table = {"title": (1, _string), "version": (2, _string)}
_API_KEY: Table = {"type": (1, _string), "name": (2, _string), "in": (3, _string), "description": (4, _string)}
_PATHS, _DEFINITIONS, _SECURITY, _SECURITY_DEFINITIONS = 8, 9, 12, 13


def document(paths: v2.Named, schemas: v2.Named) -> Iterator[bytes]:
    """The document in pieces.

    A message that occurs twice is read as the two put together, so each path and each definition is written as a
    message of its own and the length of all of them need not be known beforehand.
    """
    yield _string(1, v2.HEAD["swagger"]) + write_bytes(2, _message(v2.HEAD["info"], _INFO))
    for path, item in paths:
        yield write_bytes(_PATHS, write_bytes(2, _named(path, _message(item, _PATH_ITEM, 10))))
    for name, definition in schemas:
        yield write_bytes(_DEFINITIONS, write_bytes(1, _named(name, schema(definition))))
    for requirement in v2.TAIL["security"]:
        for name, scopes in requirement.items():
            yield write_bytes(_SECURITY, write_bytes(1, _named(name, _strings(1, scopes))))
    for name, security in v2.TAIL["securityDefinitions"].items():
        yield write_bytes(
            _SECURITY_DEFINITIONS, write_bytes(1, _named(name, write_bytes(2, _message(security, _API_KEY))))
        )
