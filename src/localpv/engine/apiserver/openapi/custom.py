"""The definitions of custom kinds: the schema of a CustomResourceDefinition with what every object has added to it."""

from __future__ import annotations

from typing import Any

from localpv.api.resources import Resource
from localpv.engine.apiserver.openapi import v2
from localpv.engine.apiserver.openapi.definitions import Schema
from localpv.engine.apiserver.openapi.operations import META, definition

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
