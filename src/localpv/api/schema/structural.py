"""The schema of a CustomResourceDefinition as nodes. Which schemas are allowed is in `structural_rules`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from localpv.api.fields import FieldError, FieldErrors, invalid
from localpv.api.schema import catalogue, constraints, structural_rules, walk
from localpv.api.schema.node import MISSING, ListKind, Node, Type, check_values, fresh

Schema = dict[str, Any]


_TYPES: Final = {
    "string": Type.STRING,
    "integer": Type.INTEGER,
    "number": Type.NUMBER,
    "boolean": Type.BOOLEAN,
    "array": Type.LIST,
}


def validate_schema(schema: Schema, path: str = "", *, status_subresource: bool = False) -> FieldErrors:
    """What keeps a schema from being accepted; an empty list says that `build` will take it.

    `schema` has been taken in as a JSONSchemaProps. `status_subresource` says that its version of the kind has one.
    """
    try:
        errors = structural_rules.check(schema, path, status_subresource=status_subresource)
        # A default can only be tried out on a schema that is right; one of the root must be a whole object.
        return errors or list(_wrong_defaults({**schema, "x-kubernetes-embedded-resource": True}, path))
    except RecursionError:
        return [invalid(path, "object", "is nested too deeply")]


def build(schema: Schema) -> Node:
    """The node of a whole custom kind, from a schema in which `validate_schema` finds nothing wrong."""
    node = _node(schema)
    _know_metadata(node)
    if rules := schema.get("properties", {}).get("metadata"):
        node.checks += (_metadata_check(rules),)
    return node


def _node(schema: Schema) -> Node:
    node = Node(
        type=_type_of(schema),
        custom=True,
        description=schema.get("description", ""),
        format=schema.get("format", ""),
        required=tuple(schema.get("required", ())),
        nullable=schema.get("nullable", False),
        list_kind=ListKind(schema.get("x-kubernetes-list-type", "atomic")),
        list_keys=tuple(schema.get("x-kubernetes-list-map-keys", ())),
        atomic=schema.get("x-kubernetes-map-type") == "atomic",
        preserve_unknown=schema.get("x-kubernetes-preserve-unknown-fields", False),
        embedded_resource=schema.get("x-kubernetes-embedded-resource", False),
        checks=constraints.of(schema, nested=_rules_only),
    )
    node.fields = {name: _node(child) for name, child in schema.get("properties", {}).items()}
    if node.type is Type.LIST or (node.type is Type.ANY and "items" in schema):
        node.items = _node(schema["items"])
    elif isinstance(schema.get("additionalProperties"), dict):
        node.items = _node(schema["additionalProperties"])
    elif schema.get("additionalProperties") is True:
        if node.fields:
            node.preserve_unknown = True
        else:
            node.items = Node(type=Type.ANY, custom=True)
    if node.embedded_resource:
        _know_metadata(node)
        node.required = tuple(dict.fromkeys((*node.required, "apiVersion", "kind")))
    if "default" in schema:
        _, node.default = _taken_in(schema["default"], node, "")
    return node


def _type_of(schema: Schema) -> Type:
    if schema.get("x-kubernetes-int-or-string"):
        return Type.INT_OR_STRING
    name = schema.get("type", "")
    if name == "object":
        free_keys = schema.get("additionalProperties", False) is not False and not schema.get("properties")
        return Type.MAP if free_keys else Type.STRUCT
    return _TYPES.get(name, Type.ANY)


def _know_metadata(node: Node) -> None:
    """Whatever a schema says of them, apiVersion, kind and metadata of an object are those of every kind."""
    meta = catalogue.built_in().node(catalogue.OBJECT_META)
    text = meta.fields["name"]
    node.embedded_resource = True
    node.fields = {**node.fields, "apiVersion": text, "kind": text, "metadata": meta}


def _rules_only(schema: Schema) -> Node:
    """A schema inside allOf, anyOf, oneOf or not: it has no types of its own, only rules."""
    node = Node(
        type=Type.ANY,
        custom=True,
        required=tuple(schema.get("required", ())),
        checks=constraints.of(schema, nested=_rules_only),
    )
    node.fields = {name: _rules_only(child) for name, child in schema.get("properties", {}).items()}
    if isinstance(schema.get("items"), dict):
        node.items = _rules_only(schema["items"])
    return node


def _metadata_check(schema: Schema) -> constraints.Check:
    """Rules for metadata.name and generateName, the only parts of metadata that a schema may speak of."""
    rules = _rules_only(schema)

    def check(path: str, value: Any) -> list[Any]:
        if not isinstance(value, dict):
            return []
        return check_values(value.get("metadata"), rules, f"{path}.metadata" if path else "metadata")

    return check


def _wrong_defaults(schema: Schema, path: str) -> Iterator[FieldError]:
    if "default" in schema:
        yield from _check_default(schema, path)
    for name, child in schema.get("properties", {}).items():
        yield from _wrong_defaults(child, f"{path}.properties[{name}]")
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield from _wrong_defaults(schema[keyword], f"{path}.{keyword}")


def _check_default(schema: Schema, path: str) -> FieldErrors:
    """What is wrong with the default of a schema, tried out as a value of that schema."""
    node, given, where = _node(schema), schema["default"], f"{path}.default"
    taken, value = _taken_in(given, node, path)
    if taken.type_errors:
        return taken.type_errors
    if taken.unknown:
        return [invalid(where, given, f"must not have unknown fields, but has {', '.join(taken.unknown)}")]
    if value != given:
        # Nulls are dropped from what clients send. A default is nobody's input, so it has to be right as it is.
        return [invalid(where, given, "must not be null anywhere that the schema allows no null")]
    return check_values(value, node, where)


def _taken_in(default: Any, node: Node, path: str) -> tuple[walk.Taken, Any]:
    """A copy of a default in the form in which it will be stored: 1.0, for an integer, is 1."""
    # What is walked must be an object, so the value is wrapped in one.
    value = {"default": fresh(default)}
    taken = walk.take_in(value, Node(type=Type.STRUCT, custom=True, fields={"default": node}), path=path)
    return taken, value.get("default", MISSING)
