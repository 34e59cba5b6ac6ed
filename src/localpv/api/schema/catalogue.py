"""The definitions of Kubernetes' own kinds, as nodes for the server and as OpenAPI for documents.

Everything is read late: a definition is decoded and built when first asked for, so a server that only ever sees
volumes never pays for the hundreds of fields of a pod.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from localpv.api.schema.node import MISSING, ListKind, Node, Type

Definition = dict[str, Any]

_HERE: Final = Path(__file__).parent
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_CRD: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."

OBJECT_META: Final = _META + "ObjectMeta"
MICRO_TIME: Final = _META + "MicroTime"
JSON_SCHEMA: Final = _CRD + "JSONSchemaProps"

_SPECIAL: Final[dict[str, Type]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": Type.QUANTITY,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": Type.INT_OR_STRING,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": Type.ANY,
    _META + "FieldsV1": Type.ANY,
    _META + "Patch": Type.ANY,
    _CRD + "JSON": Type.ANY,
    _CRD + "JSONSchemaPropsOrArray": Type.ANY,
    _CRD + "JSONSchemaPropsOrBool": Type.ANY,
    _CRD + "JSONSchemaPropsOrStringArray": Type.ANY,
}
"""Definitions whose OpenAPI says less, or something else, than what Kubernetes reads."""

_SCALARS: Final = {
    "string": Type.STRING,
    "integer": Type.INTEGER,
    "number": Type.NUMBER,
    "boolean": Type.BOOLEAN,
}

_ZEROES: Final[tuple[Any, ...]] = ({}, "", 0, False)
"""Defaults that OpenAPI shows for every field of a Go struct and that nobody fills in."""

_REF: Final = "#/components/schemas/"


class Catalogue:
    """All definitions of one Kubernetes release that we know."""

    def __init__(self, folder: Path = _HERE) -> None:
        self._folder = folder
        self._raw: dict[str, msgspec.Raw] | None = None
        self._descriptions: dict[str, str] | None = None
        self._nodes: dict[str, Node] = {}
        self._shared: dict[tuple[Any, ...], Node] = {}

    def names(self) -> Iterator[str]:
        """Names of all definitions, sorted."""
        return iter(sorted(self._definitions()))

    def __contains__(self, name: str) -> bool:
        return name in self._definitions()

    def node(self, name: str) -> Node:
        """The definition as a node. Definitions that refer to themselves give nodes that do so too."""
        node = self._nodes.get(name)
        if node is None:
            node = self._build(name)
        return node

    def openapi(self, name: str) -> Definition:
        """The definition as OpenAPI v3, with our own descriptions where there are any. The caller may change it."""
        described = self._described()
        schema: Definition = _expanded(self._definition(name))
        if text := described.get(name):
            schema["description"] = text
        for field, child in schema.get("properties", {}).items():
            if text := described.get(f"{name}.{field}"):
                # Beside a $ref, other keywords have no meaning in OpenAPI v3.0.
                if "$ref" in child:
                    child["allOf"] = [{"$ref": child.pop("$ref")}]
                child["description"] = text
        return schema

    def _definitions(self) -> dict[str, msgspec.Raw]:
        if self._raw is None:
            text = (self._folder / "kubernetes.json").read_bytes()
            # Raw keeps each definition as bytes of the file: a tenth of the memory of decoding them all.
            self._raw = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
            self._add_own(self._raw)
        return self._raw

    def additions(self) -> dict[str, Definition]:
        """What this engine takes beyond Kubernetes: new definitions, and new fields of those that exist."""
        path = self._folder / "additions.json"
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Definition]) if path.exists() else {}

    def _add_own(self, definitions: dict[str, msgspec.Raw]) -> None:
        for name, addition in self.additions().items():
            known: Definition = msgspec.json.decode(definitions[name]) if name in definitions else {}
            properties = {**known.get("properties", {}), **addition.get("properties", {})}
            definitions[name] = msgspec.Raw(msgspec.json.encode({**known, **addition, "properties": properties}))

    def _definition(self, name: str) -> Definition:
        definition: Definition = msgspec.json.decode(self._definitions()[name])
        return definition

    def _described(self) -> dict[str, str]:
        if self._descriptions is None:
            path = self._folder / "descriptions.json"
            self._descriptions = msgspec.json.decode(path.read_bytes(), type=dict[str, str]) if path.exists() else {}
        return self._descriptions

    def _build(self, name: str) -> Node:
        schema = self._definition(name)
        special = _SPECIAL.get(name)
        node = Node(type=special or _type_of(schema), name=name, format=schema.get("format", ""))
        # Known before it is finished, so that a definition which contains itself finds itself.
        self._nodes[name] = node
        if special is None:
            self._fill(node, schema)
        elif name.startswith(_CRD + "JSONSchemaPropsOr"):
            # `items` is what an object must be here; the walk knows what else there may be.
            node.items = self.node(JSON_SCHEMA)
        return node

    def _fill(self, node: Node, schema: Definition) -> None:
        node.required = tuple(schema.get("required", ()))
        for field, child in schema.get("properties", {}).items():
            node.fields[field] = self._child(child)
        node.atomic = schema.get("x-kubernetes-map-type") == "atomic"

    def _child(self, schema: Definition) -> Node:
        """A node for a field, an element or a value; equal plain ones are one and the same."""
        if target := schema.get("$ref"):
            return self._referred(self.node(target), schema)
        kind = _type_of(schema)
        default = _default_of(schema)
        if kind in (Type.LIST, Type.MAP):
            items = self._child(schema["items" if kind is Type.LIST else "additionalProperties"])
            keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
            merging = (
                schema.get("x-kubernetes-list-type", "atomic"),
                keys,
                schema.get("x-kubernetes-map-type", ""),
                schema.get("x-kubernetes-patch-strategy", ""),
                schema.get("x-kubernetes-patch-merge-key", ""),
            )
            return self._one(
                (kind, id(items), *merging),
                lambda: Node(
                    type=kind,
                    items=items,
                    list_kind=ListKind(merging[0]),
                    list_keys=keys,
                    atomic=merging[2] == "atomic",
                    patch_strategy=_strategies(schema),
                    patch_merge_key=merging[4],
                ),
            )
        if kind is Type.STRUCT:
            return self._one((kind,), lambda: Node(type=kind))
        format_ = schema.get("format", "")
        return self._one((kind, format_, repr(default)), lambda: Node(type=kind, format=format_, default=default))

    def _referred(self, target: Node, schema: Definition) -> Node:
        """A reference may say more than its target: how this very field merges, or that it has a default."""
        changes: dict[str, Any] = {}
        if "x-kubernetes-map-type" in schema:
            changes["atomic"] = schema["x-kubernetes-map-type"] == "atomic"
        if "x-kubernetes-patch-strategy" in schema:
            changes["patch_strategy"] = _strategies(schema)
        if (default := _default_of(schema)) is not MISSING:
            changes["default"] = default
        if not changes:
            return target
        return self._one((target.name, repr(sorted(changes.items()))), lambda: replace(target, **changes))

    def _one(self, key: tuple[Any, ...], make: Any) -> Node:
        node = self._shared.get(key)
        if node is None:
            node = self._shared[key] = make()
        return node


@cache
def built_in() -> Catalogue:
    """The catalogue of this process."""
    return Catalogue()


def _type_of(schema: Definition) -> Type:
    match schema.get("type"):
        case "object":
            return Type.MAP if "additionalProperties" in schema else Type.STRUCT
        case "array":
            return Type.LIST
        case None:
            return Type.ANY
        case scalar:
            return _SCALARS[scalar]


def _default_of(schema: Definition) -> Any:
    default = schema.get("default", MISSING)
    return MISSING if default in _ZEROES else default


def _strategies(schema: Definition) -> tuple[str, ...]:
    written = schema.get("x-kubernetes-patch-strategy", "")
    return tuple(written.split(",")) if written else ()


def _expanded(schema: Any) -> Any:
    """The short references of our file as OpenAPI writes them."""
    if isinstance(schema, list):
        return [_expanded(child) for child in schema]
    if not isinstance(schema, dict):
        return schema
    target = schema.get("$ref")
    if not isinstance(target, str):
        return {key: _expanded(child) for key, child in schema.items()}
    reference = {"$ref": _REF + target}
    rest = {key: child for key, child in schema.items() if key != "$ref"}
    return {"allOf": [reference], **rest} if rest else reference
