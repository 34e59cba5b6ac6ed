"""A schema node, boiled down to what ownership of fields needs to know.

Kubernetes' own kinds are Go structs there, and that shows in managedFields: a struct held by value is always
present, be it empty; an empty list or map is as good as absent; some lists are null rather than missing. Objects of
custom kinds are taken as they are. Both live here as one kind of shape, with or without `implied` fields.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

from localpv.api.schema import catalogue
from localpv.api.schema.node import MISSING, ListKind, Node, Type

_GO: Final = "io.k8s."
_OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_ZEROES: Final = {"string": "", "integer": 0, "number": 0, "boolean": False}

_LEFT_OUT: Final = frozenset({"name", "optional", "readOnly"})
"""Where these have a default without being required, they are left out like any other empty value."""

_TIMES: Final = ("lastProbeTime", "lastTransitionTime")
_NULL: Final[dict[str, tuple[str, ...]]] = {
    "api.apps.v1.DaemonSetCondition": ("lastTransitionTime",),
    "api.apps.v1.DeploymentCondition": ("lastTransitionTime", "lastUpdateTime"),
    "api.apps.v1.ReplicaSetCondition": ("lastTransitionTime",),
    "api.apps.v1.StatefulSetCondition": ("lastTransitionTime",),
    "api.batch.v1.JobCondition": _TIMES,
    "api.core.v1.Event": ("eventTime", "firstTimestamp", "lastTimestamp"),
    "api.core.v1.EventSeries": ("lastObservedTime",),
    "api.core.v1.NamespaceCondition": ("lastTransitionTime",),
    "api.core.v1.NodeCondition": ("lastHeartbeatTime", "lastTransitionTime"),
    "api.core.v1.PersistentVolumeClaimCondition": _TIMES,
    "api.core.v1.PodCondition": _TIMES,
    "api.core.v1.ProjectedVolumeSource": ("sources",),
    "api.core.v1.ReplicationControllerCondition": ("lastTransitionTime",),
    "api.events.v1.Event": ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"),
    "api.events.v1.EventSeries": ("lastObservedTime",),
    "api.rbac.v1.ClusterRole": ("rules",),
    "api.rbac.v1.Role": ("rules",),
    "api.storage.v1.CSINodeDriver": ("topologyKeys",),
    "api.storage.v1.VolumeError": ("time",),
    "apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionCondition": ("lastTransitionTime",),
    "apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionStatus": (
        "conditions",
        "storedVersions",
    ),
    "apimachinery.pkg.apis.meta.v1.Condition": ("lastTransitionTime",),
}
"""Optional fields that Kubernetes writes as null instead of leaving them out. Its OpenAPI does not tell."""


class Kind(IntEnum):
    LEAF = 0
    """Owned as a whole: scalars, atomic lists, atomic maps and structs."""
    STRUCT = 1
    MAP = 2
    SET = 3
    """A list whose elements are owned by value."""
    KEYED = 4
    """A list whose elements are owned by the fields that name them."""
    ANY = 5
    """No schema: objects key by key, everything else as a whole."""


class Shape:
    """How one value is divided into fields that can be owned."""

    __slots__ = ("bulk", "fields", "implied", "item", "key_defaults", "keys", "kind", "loose", "named", "node")

    def __init__(self, node: Node, kind: Kind) -> None:
        self.node = node
        self.kind = kind
        self.bulk = node.type in (Type.LIST, Type.MAP)
        """A list or a map: in a Go struct it is left out when empty."""

        self.loose = not node.name.startswith(_GO) and _is_loose(node)
        """Somewhere below there is no schema, so a number may turn into a boolean that Python holds equal."""

        self.named: dict[str, Node] = {}
        """STRUCT: the fields that the schema declares."""

        self.fields: dict[str, Shape] = {}
        """STRUCT, MAP, ANY: the shape of each field, also of those that are not declared."""

        self.implied: dict[str, Any] | None = None
        """STRUCT in Go: what is there although the JSON does not say so. None: the object is taken as it is."""

        self.item: Shape = self
        """KEYED: the elements."""

        self.keys: tuple[str, ...] = ()
        self.key_defaults: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"Shape({self.kind.name}, {self.node.name!r})"


class _Fields(dict[str, Shape]):
    """Shapes of the fields of one struct, made when first asked for: most objects use few of them."""

    __slots__ = ("nodes", "other")

    def __init__(self, nodes: dict[str, Node], other: Shape | None) -> None:
        super().__init__()
        self.nodes, self.other = nodes, other

    def __missing__(self, field: str) -> Shape:
        node = self.nodes.get(field)
        if node is None:
            # Not kept: the keys of a map are without number.
            return self.other or ANY
        shape = self[field] = of(node)
        return shape


_shapes: dict[Node, Shape] = {}
_MOST: Final = 4096
"""Nodes of custom kinds are replaced when their definition changes, so old shapes must not pile up for ever."""


def of(node: Node) -> Shape:
    """The shape of a node; the same one for the same node."""
    shape = _shapes.get(node)
    if shape is None:
        if len(_shapes) >= _MOST:
            _shapes.clear()
        shape = _compile(node)
    return shape


def root(node: Node) -> Shape:
    """The shape of a whole object. Metadata is Kubernetes' own, whatever a custom schema says or leaves out."""
    shape = of(node)
    if shape.implied is None and getattr(shape.named.get("metadata"), "name", "") != _OBJECT_META:
        shape.kind = Kind.STRUCT
        shape.named = _with_metadata(node.fields)
        shape.fields = _Fields(shape.named, None)
    return shape


def _compile(node: Node) -> Shape:
    match node.type:
        case Type.STRUCT if not node.atomic:
            shape = _shapes[node] = Shape(node, Kind.STRUCT if node.fields else Kind.ANY)
            shape.named = _with_metadata(node.fields) if node.embedded_resource else node.fields
            shape.fields = _Fields(shape.named, of(node.items) if node.items else None)
            if node.name.startswith(_GO):
                shape.implied = _implied(node)
        case Type.MAP if not node.atomic:
            shape = _shapes[node] = Shape(node, Kind.MAP)
            shape.fields = _Fields({}, of(node.items) if node.items else None)
        case Type.LIST if node.list_kind is ListKind.SET:
            shape = _shapes[node] = Shape(node, Kind.SET)
        case Type.LIST if node.list_kind is ListKind.MAP and node.items is not None:
            shape = _shapes[node] = Shape(node, Kind.KEYED)
            shape.item = of(node.items)
            shape.keys = tuple(sorted(node.list_keys))
            shape.key_defaults = _key_defaults(node.items, shape.keys)
        case Type.ANY:
            shape = _shapes[node] = Shape(node, Kind.ANY)
            shape.named = node.fields
            shape.fields = _Fields(shape.named, None)
        case _:
            shape = _shapes[node] = Shape(node, Kind.LEAF)
    return shape


def _is_loose(node: Node) -> bool:
    if node.type is Type.ANY or node.preserve_unknown or (node.type is Type.STRUCT and not node.fields):
        return True
    # Nodes of custom kinds are trees: only those of Kubernetes' own kinds go in circles, and they are not loose.
    below = [*node.fields.values(), *([node.items] if node.items else [])]
    return any(not child.name.startswith(_GO) and _is_loose(child) for child in below)


def _with_metadata(nodes: dict[str, Node]) -> dict[str, Node]:
    return {**nodes, "metadata": catalogue.built_in().node(_OBJECT_META)}


def _definition(name: str) -> dict[str, Any]:
    known = catalogue.built_in()
    if name not in known:
        return {}
    properties: dict[str, Any] = known.openapi(name).get("properties", {})
    return properties


def _implied(node: Node) -> dict[str, Any]:
    """Fields of a Go struct that are never left out: structs held by value, plain scalars, lists that may be null."""
    implied: dict[str, Any] = dict.fromkeys(_NULL.get(node.name.removeprefix(_GO), ()))
    for field, schema in _definition(node.name).items():
        default, required = schema.get("default", MISSING), field in node.required
        if default == {} and node.fields[field].type is Type.STRUCT:
            implied[field] = {}
        elif schema.get("type") == "array" and required:
            implied[field] = None
        elif default is MISSING or (field in _LEFT_OUT and not required):
            continue
        elif _ZEROES.get(schema.get("type", "")) == default:
            implied[field] = default
    return implied


def _key_defaults(items: Node, keys: tuple[str, ...]) -> dict[str, Any]:
    """What a key of a list element is when it is left out, such as the protocol of a port."""
    declared = _definition(items.name) if items.name.startswith(_GO) else {}
    defaults: dict[str, Any] = {}
    for key in keys:
        default = items.fields[key].default if key in items.fields else MISSING
        if default is MISSING:
            default = declared.get(key, {}).get("default", MISSING)
        if default is not MISSING and default is not None:
            defaults[key] = default
    return defaults


ANY: Final = Shape(Node(type=Type.ANY), Kind.ANY)
ANY.fields = _Fields({}, ANY)
