"""What a schema must say so that lists and maps can be merged: list types, their keys, and map types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from localpv.api import fields
from localpv.api.fields import FieldError

Schema = dict[str, Any]


def check(schema: Schema, path: str) -> Iterator[FieldError]:
    yield from _map_type(schema, path)
    yield from _list_type(schema, path)
    if schema.get("x-kubernetes-list-type") == "map":
        yield from _list_of_maps(schema, path)


def _map_type(schema: Schema, path: str) -> Iterator[FieldError]:
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is None:
        return
    yield from _needs_type(schema, path, "object", "x-kubernetes-map-type")
    if map_type not in ("atomic", "granular"):
        yield fields.not_supported(f"{path}.x-kubernetes-map-type", map_type, ["atomic", "granular"])


def _list_type(schema: Schema, path: str) -> Iterator[FieldError]:
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
    if keys and list_type != "map":
        detail = "must be map if x-kubernetes-list-map-keys is not empty"
        where = f"{path}.x-kubernetes-list-type"
        yield fields.required(where, detail) if list_type is None else fields.invalid(where, list_type, detail)
    if list_type is None:
        return
    yield from _needs_type(schema, path, "array", "x-kubernetes-list-type")
    if list_type not in ("atomic", "set", "map"):
        yield fields.not_supported(f"{path}.x-kubernetes-list-type", list_type, ["atomic", "set", "map"])
    items = schema.get("items")
    if list_type == "atomic" or not isinstance(items, dict):
        return
    if items.get("nullable"):
        yield fields.forbidden(f"{path}.items.nullable", f"cannot be nullable in a list of type {list_type}")
    if list_type == "set":
        detail = "must be atomic as item of a list of type set"
        if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
            given = items.get("x-kubernetes-map-type")
            yield fields.invalid(f"{path}.items.x-kubernetes-map-type", given, detail)
        if items.get("type") == "array" and items.get("x-kubernetes-list-type", "atomic") != "atomic":
            given = items["x-kubernetes-list-type"]
            yield fields.invalid(f"{path}.items.x-kubernetes-list-type", given, detail)


def _needs_type(schema: Schema, path: str, wanted: str, keyword: str) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    if kind != wanted:
        detail = f"must be {wanted} if {keyword} is specified"
        yield fields.invalid(f"{path}.type", kind, detail) if kind else fields.required(f"{path}.type", detail)


def _list_of_maps(schema: Schema, path: str) -> Iterator[FieldError]:
    keys: list[str] = schema.get("x-kubernetes-list-map-keys", [])
    where = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        yield fields.required(where, "must not be empty if x-kubernetes-list-type is map")
    if len(set(keys)) < len(keys):
        yield fields.invalid(where, keys, "must not name a field twice")
    items = schema.get("items")
    if items is None:
        yield fields.required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
    if not isinstance(items, dict):
        return
    if items.get("type") != "object":
        detail = "must be object in a list of type map"
        yield fields.invalid(f"{path}.items.type", items.get("type", ""), detail)
        return
    for key in dict.fromkeys(keys):
        field, place = items.get("properties", {}).get(key), f"{path}.items.properties[{key}]"
        if field is None:
            yield fields.invalid(where, keys, "must all be names of fields of the items")
            continue
        if field.get("type") in ("array", "object"):
            yield fields.invalid(
                f"{place}.type", field["type"], "must be a scalar type: it is a key of a list of type map"
            )
        if key not in items.get("required", ()) and "default" not in field:
            detail = "must have a default or be a required field: it is a key of a list of type map"
            yield fields.required(f"{place}.default", detail)
        if field.get("nullable"):
            yield fields.forbidden(f"{place}.nullable", "cannot be nullable: it is a key of a list of type map")
