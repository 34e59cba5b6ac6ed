"""What changed between two objects, as two sets of fields: those with a new value, and those that are gone.

Runs on every write, so equal parts are passed over with one comparison and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from localpv.api.managed import fieldset
from localpv.api.managed.fieldset import SELF, FieldSet
from localpv.api.managed.shape import Kind, Shape
from localpv.api.objects import Object
from localpv.api.schema.node import Node

_ABSENT: Final = object()
_LEAF: Final = Kind.LEAF
_IDENTITY: Final = frozenset({"apiVersion", "kind"})
_IDENTITY_METADATA: Final = frozenset(field[2:] for field in fieldset.NOBODYS_METADATA)


class Comparison(NamedTuple):
    changed: FieldSet
    """Added, or present in both with different values."""

    removed: FieldSet


class Ignored(NamedTuple):
    """Fields that a write cannot own because the server puts them back."""

    fields: Collection[str] = ()
    metadata: Collection[str] = ()


def objects(old: Object, new: Object, shape: Shape, ignored: Ignored, *, literal: bool = False) -> Comparison:
    """Compare whole objects, without the fields that nobody owns and those that this write cannot own.

    `literal` is for an object that no Go struct has held yet: its empty lists and maps are there.
    """
    changed: FieldSet = {}
    removed: FieldSet = {}
    skipped = {*_IDENTITY, "metadata", *ignored.fields}
    if "metadata" not in ignored.fields:
        old_meta, new_meta = old.get("metadata") or {}, new.get("metadata") or {}
        below = Comparison({}, {})
        skipped_meta = _IDENTITY_METADATA.union(ignored.metadata) if ignored.metadata else _IDENTITY_METADATA
        _fields(old_meta, new_meta, shape.fields["metadata"], *below, literal, skipped_meta)
        if below.changed:
            changed["f:metadata"] = below.changed
        if below.removed:
            removed["f:metadata"] = below.removed
    _fields(old, new, shape, changed, removed, literal, skipped)
    return Comparison(fieldset.sort(changed), removed)


def _fields(
    old: Object,
    new: Object,
    shape: Shape,
    changed: FieldSet,
    removed: FieldSet,
    literal: bool,
    skipped: Collection[str] = (),
) -> None:
    """Compare two structs or maps; what differs goes into `changed` and `removed`."""
    shapes, implied, loose = shape.fields, shape.implied, shape.loose
    for key in sorted(new):
        value, before = new[key], old.get(key, _ABSENT)
        if (before == value and (not loose or same(before, value))) or key in skipped:
            continue
        child = shapes[key]
        if implied is not None:
            if key in implied:
                if before is _ABSENT and (before := implied[key]) == value:
                    continue
            elif child.bulk:
                # An empty list or map of a Go struct is as good as none; one that lost everything (null) is not.
                if not literal and (value == [] or value == {}):
                    value = _ABSENT
                before = before or _ABSENT
        if value is _ABSENT:
            if before is not _ABSENT:
                removed["f:" + key] = everything(before, child)
        elif before is _ABSENT:
            changed["f:" + key] = everything(value, child, literal) if child.kind is not _LEAF else {}
        else:
            _value(before, value, child, "f:" + key, changed, removed, literal)
    for key, before in old.items():
        if key in new or key in skipped:
            continue
        child = shapes[key]
        if implied is None:
            removed["f:" + key] = everything(before, child)
        elif key in implied:
            if before != implied[key]:
                _value(before, implied[key], child, "f:" + key, changed, removed, literal)
        elif before or not child.bulk:
            removed["f:" + key] = everything(before, child)


def _value(old: Any, new: Any, shape: Shape, element: str, changed: FieldSet, removed: FieldSet, literal: bool) -> None:
    """Compare two values that are both there and differ."""
    below = Comparison({}, {})
    match shape.kind:
        case Kind.LEAF:
            changed[element] = {}
            return
        case Kind.STRUCT | Kind.MAP | Kind.ANY if _is(dict, old, new) and (old or new or shape.implied):
            _fields(old or {}, new or {}, shape, *below, literal)
        case Kind.KEYED if _is(list, old, new) and (old or new):
            _keyed(old or [], new or [], shape, *below, literal)
        case Kind.SET if _is(list, old, new) and (old or new):
            _set(old or [], new or [], *below)
        case Kind.ANY if isinstance(old, dict):
            # It was an object and is something else now: its fields are gone, the new value is a leaf.
            removed[element] = {name: deeper for name, deeper in everything(old, shape).items() if name != SELF}
            changed[element] = {}
            return
        case Kind.ANY if isinstance(new, dict):
            changed[element] = everything(new, shape, literal)
            return
        case _:
            changed[element] = {}
            return
    if below.changed:
        changed[element] = below.changed
    if below.removed:
        removed[element] = below.removed


def same(a: Any, b: Any) -> bool:
    """Equality as JSON has it: true is not 1."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(value, b[key]) for key, value in a.items())
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)


def _is(kind: type, old: Any, new: Any) -> bool:
    return (old is None or isinstance(old, kind)) and (new is None or isinstance(new, kind))


def _keyed(old: list[Any], new: list[Any], shape: Shape, changed: FieldSet, removed: FieldSet, literal: bool) -> None:
    before, after = _by_element(old, shape), _by_element(new, shape)
    for element, values in after.items():
        were = before.get(element)
        if were == values and (not shape.loose or same(were, values)):
            continue
        if len(values) > 1:
            # Elements with the same name cannot be told apart, so they are owned together.
            changed[element] = {}
            if were is not None and len(were) == 1:
                removed[element] = _below(everything(were[0], shape.item))
        elif were is None or len(were) > 1:
            changed[element] = everything(values[0], shape.item, literal)
        else:
            _value(were[0], values[0], shape.item, element, changed, removed, literal)
    for element, were in before.items():
        if element not in after:
            removed[element] = everything(were[0], shape.item) if len(were) == 1 else {}
    if len(changed) > 1:
        in_order = fieldset.sort(changed)
        changed.clear()
        changed.update(in_order)


def _by_element(values: list[Any], shape: Shape) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for value in values:
        found.setdefault(fieldset.by_keys(value, shape), []).append(value)
    return found


def _below(fields: FieldSet) -> FieldSet:
    return {name: deeper for name, deeper in fields.items() if name != SELF}


def _set(old: list[Any], new: list[Any], changed: FieldSet, removed: FieldSet) -> None:
    before, after = _counted(old), _counted(new)
    for element, times in after.items():
        was = before.get(element, 0)
        if was == 0 or (was > 1) != (times > 1) or (was > 1 and was != times):
            changed[element] = {}
    for element in before:
        if element not in after:
            removed[element] = {}
    if len(changed) > 1:
        in_order = fieldset.sort(changed)
        changed.clear()
        changed.update(in_order)


def _counted(values: list[Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for value in values:
        element = fieldset.by_value(value)
        found[element] = found.get(element, 0) + 1
    return found


def everything(value: Any, shape: Shape, literal: bool = False) -> FieldSet:
    """The set below an element that appears, or goes, as a whole: the element itself and all that it holds."""
    kind = shape.kind
    if kind is _LEAF or (not value and not (shape.implied and isinstance(value, dict))):
        return {}
    fields: FieldSet = {SELF: {}}
    if isinstance(value, dict):
        shapes, implied = shape.fields, shape.implied
        if implied:
            value = {**implied, **value}
        for key in sorted(value):
            child, inner = shapes[key], value[key]
            if literal or inner or implied is None or inner is None or not child.bulk:
                fields["f:" + key] = everything(inner, child, literal) if child.kind is not _LEAF else {}
    elif kind is Kind.KEYED:
        for element, values in _by_element(value, shape).items():
            fields[element] = everything(values[0], shape.item, literal) if len(values) == 1 else {}
    elif kind is Kind.SET:
        for child in value:
            fields[fieldset.by_value(child)] = {}
    if len(fields) > 2 and not isinstance(value, dict):
        return fieldset.sort(fields)
    return fields if len(fields) > 1 else {}


_NOTHING: Final = Ignored()
_STATUS: Final = Ignored(("status",))
_SPEC: Final = Ignored(("spec",))
_ALL_BUT_STATUS: Final = Ignored(("spec", "metadata"))

_THROUGH_STATUS: Final = {
    "io.k8s.api.core.v1.Pod": Ignored(("spec",), ("deletionTimestamp", "ownerReferences")),
    "io.k8s.api.apps.v1.Deployment": Ignored(("spec",), ("labels",)),
    "io.k8s.api.storage.v1.VolumeAttachment": _ALL_BUT_STATUS,
    "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy": _ALL_BUT_STATUS,
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition": _ALL_BUT_STATUS,
}


def put_back(node: Node, subresource: str, *, status_subresource: bool = True) -> Ignored:
    """What a write through this subresource (empty: the main resource) leaves to others."""
    if subresource == "status":
        return _THROUGH_STATUS.get(node.name, _SPEC)
    if subresource in ("", "finalize") and status_subresource:
        return _STATUS
    return _NOTHING
