"""Which schemas a CustomResourceDefinition may have: structural ones, and nothing that this engine cannot do.

Structural means: every field, item and value has a type; allOf, anyOf, oneOf and not add rules but no fields; and
what lists and maps need to be merged is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from localpv.api import fields
from localpv.api.fields import FieldError, FieldErrors
from localpv.api.schema import formats

Schema = dict[str, Any]


def check_merging(schema: Schema, path: str) -> Iterator[FieldError]:
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


TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")

_META_FIELDS: Final = ("apiVersion", "kind", "metadata")

_NEVER: Final = ("$ref", "$schema", "additionalItems", "definitions", "dependencies", "id", "patternProperties")
"""Keywords of JSON schema that Kubernetes does not take."""

_NOT_NESTED: Final = (
    "additionalProperties",
    "default",
    "description",
    "nullable",
    "title",
    "type",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
)
"""What gives a value its shape, and so has no place inside allOf, anyOf, oneOf and not."""

_AT_ROOT_WITH_STATUS: Final = frozenset(
    {
        "description",
        "type",
        "format",
        "title",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "maxLength",
        "minLength",
        "pattern",
        "maxItems",
        "minItems",
        "uniqueItems",
        "multipleOf",
        "required",
        "items",
        "properties",
        "externalDocs",
        "example",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    }
)
"""With a status subresource, the status is validated by itself: rules across the whole object would be lost."""

_NO_CEL: Final = (
    "rules in CEL are not supported by this engine: leave them out here, or use the definition on a Kubernetes cluster"
)

_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]


def check(schema: Schema, path: str, *, status_subresource: bool) -> FieldErrors:
    """Everything that is wrong with a schema, except for its defaults."""
    return [
        *_root(schema, path, status_subresource),
        *_keywords(schema, path, _Around(root=True), formats.Effort()),
        *_shape(schema, path, level="root"),
    ]


def _root(schema: Schema, path: str, status_subresource: bool) -> Iterator[FieldError]:
    if schema.get("nullable"):
        yield fields.forbidden(f"{path}.nullable", "an object cannot be null as a whole")
    if "additionalProperties" in schema:
        yield fields.forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if status_subresource:
        for keyword in schema.keys() - _AT_ROOT_WITH_STATUS:
            detail = "must not be used at the root of the schema if the status subresource is enabled"
            yield fields.forbidden(f"{path}.{keyword}", detail)


class _Around:
    """Where in the schema we are, as far as rules depend on it."""

    __slots__ = ("inside_metadata", "no_default", "root")

    def __init__(self, *, root: bool = False, inside_metadata: bool = False, no_default: str = "") -> None:
        self.root, self.inside_metadata, self.no_default = root, inside_metadata, no_default

    def field(self, name: str, *, of_an_object: bool) -> _Around:
        if of_an_object and name in _META_FIELDS:
            why = f"in top-level {name}" if self.root else self.no_default
            return _Around(inside_metadata=True, no_default=why)
        return self.below()

    def below(self) -> _Around:
        return _Around(inside_metadata=self.inside_metadata, no_default=self.no_default) if self.root else self

    def values(self) -> _Around:
        why = "inside additionalProperties of metadata" if self.inside_metadata else self.no_default
        return _Around(inside_metadata=self.inside_metadata, no_default=why)


def _keywords(schema: Schema, path: str, around: _Around, effort: formats.Effort) -> Iterator[FieldError]:
    """Each schema by itself, at any depth and also inside allOf and the like."""
    yield from _refused(schema, path, effort)
    if "default" in schema and around.no_default:
        yield fields.forbidden(f"{path}.default", f"must not be set {around.no_default}")
    if around.inside_metadata and schema.get("x-kubernetes-embedded-resource"):
        yield fields.forbidden(f"{path}.x-kubernetes-embedded-resource", "must not be used inside metadata")
    yield from check_merging(schema, path)

    others = schema.get("additionalProperties")
    if others is not None and schema.get("properties") and others is not True:
        yield fields.forbidden(f"{path}.additionalProperties", "additionalProperties and properties exclude each other")
    if isinstance(others, dict):
        yield from _keywords(others, f"{path}.additionalProperties", around.values(), effort)
    of_an_object = around.root or bool(schema.get("x-kubernetes-embedded-resource"))
    for name, child in schema.get("properties", {}).items():
        yield from _keywords(child, f"{path}.properties[{name}]", around.field(name, of_an_object=of_an_object), effort)
    if isinstance(schema.get("items"), dict):
        yield from _keywords(schema["items"], f"{path}.items", around.below(), effort)
    for branch, where in _branches(schema, path):
        yield from _keywords(branch, where, around.below(), effort)


def _refused(schema: Schema, path: str, effort: formats.Effort) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    if kind and kind not in TYPES:
        yield fields.not_supported(f"{path}.type", kind, TYPES)
    for keyword in _NEVER:
        if keyword in schema:
            yield fields.forbidden(f"{path}.{keyword}", f"{keyword} is not supported")
    if schema.get("uniqueItems"):
        hint = "comparing all items with each other takes too long: use x-kubernetes-list-type set"
        yield fields.forbidden(f"{path}.uniqueItems", hint)
    if isinstance(schema.get("items"), list):
        yield fields.forbidden(f"{path}.items", "items must be one schema, not an array of them")
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield fields.invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or left out")
    if schema.get("x-kubernetes-validations"):
        yield fields.forbidden(f"{path}.x-kubernetes-validations", _NO_CEL)
    if pattern := schema.get("pattern"):
        try:
            effort.check(pattern)
        except formats.UnusablePattern as error:
            yield fields.invalid(f"{path}.pattern", pattern, f"must be a valid regular expression: {error}")


def _shape(schema: Schema, path: str, *, level: str) -> Iterator[FieldError]:
    """The part that gives values their shape: fields, items, values of maps."""
    yield from _typed(schema, path, level)
    whole = level == "root" or bool(schema.get("x-kubernetes-embedded-resource"))
    if whole:
        yield from _meta_types(schema, path)
    for name, child in schema.get("properties", {}).items():
        if level == "root" and name == "metadata":
            yield from _root_metadata(child, f"{path}.properties[metadata]")
        else:
            yield from _shape(child, f"{path}.properties[{name}]", level="field")
    if isinstance(schema.get("items"), dict):
        yield from _shape(schema["items"], f"{path}.items", level="item")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _shape(schema["additionalProperties"], f"{path}.additionalProperties", level="field")
    for branch, where in _branches(schema, path):
        yield from _nested(branch, where)
        if level == "root":
            # Kubernetes asks for this at the root only, and deeper definitions in the wild rely on that.
            yield from _without_counterpart(branch, where, schema, path)


def _typed(schema: Schema, path: str, level: str) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    embedded, either = schema.get("x-kubernetes-embedded-resource"), schema.get("x-kubernetes-int-or-string")
    preserved = schema.get("x-kubernetes-preserve-unknown-fields")
    if embedded and kind != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        yield fields.invalid(f"{path}.type", kind, detail) if kind else fields.required(f"{path}.type", detail)
    elif not kind and not either and not preserved:
        where = {"root": "at the root", "item": "for the items of an array", "field": "for a field of an object"}[level]
        yield fields.required(f"{path}.type", f"must not be empty {where}")
    if level == "root" and kind not in ("", "object"):
        yield fields.invalid(f"{path}.type", kind, "must be object at the root")
    if kind == "array" and "items" not in schema:
        yield fields.required(f"{path}.items", "must be specified")
    if either and preserved:
        detail = "must be left out if x-kubernetes-int-or-string is true"
        yield fields.invalid(f"{path}.x-kubernetes-preserve-unknown-fields", True, detail)
    if either and embedded:
        detail = "must be left out if x-kubernetes-int-or-string is true"
        yield fields.invalid(f"{path}.x-kubernetes-embedded-resource", True, detail)
    if embedded and "additionalProperties" in schema:
        yield fields.forbidden(f"{path}.additionalProperties", "must not be used with x-kubernetes-embedded-resource")
    if embedded and not preserved and not schema.get("properties"):
        detail = "must not be empty with x-kubernetes-embedded-resource, unless unknown fields are preserved"
        yield fields.required(f"{path}.properties", detail)


def _meta_types(schema: Schema, path: str) -> Iterator[FieldError]:
    for name, wanted in (("apiVersion", "string"), ("kind", "string"), ("metadata", "object")):
        child = schema.get("properties", {}).get(name)
        if child is not None and child.get("type") != wanted:
            detail = f"must be {wanted}"
            yield fields.invalid(f"{path}.properties[{name}].type", child.get("type", ""), detail)


def _root_metadata(schema: Schema, path: str) -> Iterator[FieldError]:
    """Metadata is the same for every kind; a schema may only narrow the names."""
    spoken_of = schema.get("properties", {}).keys()
    if schema.keys() - {"type", "properties", "default"} or spoken_of - {"name", "generateName"}:
        detail = "must not say anything but rules for name and generateName: every kind has the same metadata"
        yield fields.forbidden(path, detail)


def _nested(schema: Schema, path: str) -> Iterator[FieldError]:
    """A schema inside allOf, anyOf, oneOf or not: it may have rules, but must not give anything a shape."""
    for keyword in _NOT_NESTED:
        if schema.get(keyword):
            yield fields.forbidden(f"{path}.{keyword}", "must be left out inside allOf, anyOf, oneOf and not")
    for name, child in schema.get("properties", {}).items():
        if name == "metadata":
            detail = "must not be specified inside allOf, anyOf, oneOf and not"
            yield fields.forbidden(f"{path}.properties[metadata]", detail)
        yield from _nested(child, f"{path}.properties[{name}]")
    if isinstance(schema.get("items"), dict):
        yield from _nested(schema["items"], f"{path}.items")
    for branch, where in _branches(schema, path):
        yield from _nested(branch, where)


def _without_counterpart(schema: Schema, path: str, shape: Schema, shape_path: str) -> Iterator[FieldError]:
    """Fields and items that a nested schema speaks of, and that the shape around it does not have."""
    for name, child in schema.get("properties", {}).items():
        where, there = f"{path}.properties[{name}]", f"{shape_path}.properties[{name}]"
        counterpart = shape.get("properties", {}).get(name)
        if counterpart is None:
            yield fields.required(there, f"because it is used in {where}")
        else:
            yield from _without_counterpart(child, where, counterpart, there)
    if isinstance(schema.get("items"), dict):
        counterpart = shape.get("items")
        if not isinstance(counterpart, dict):
            yield fields.required(f"{shape_path}.items", f"because it is used in {path}.items")
        else:
            yield from _without_counterpart(schema["items"], f"{path}.items", counterpart, f"{shape_path}.items")
    for branch, where in _branches(schema, path):
        yield from _without_counterpart(branch, where, shape, shape_path)


def _branches(schema: Schema, path: str) -> Iterator[tuple[Schema, str]]:
    """The schemas in allOf, anyOf, oneOf and not, without the one form of anyOf that states int-or-string."""
    for keyword in ("allOf", "anyOf", "oneOf"):
        branches = schema.get(keyword, [])
        if keyword == "anyOf" and branches == _INT_OR_STRING:
            continue
        for index, branch in enumerate(branches):
            yield branch, f"{path}.{keyword}[{index}]"
    if "not" in schema:
        yield schema["not"], f"{path}.not"
