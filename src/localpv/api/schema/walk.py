"""Taking in an object that a client sent: one pass that prunes, checks types and normalises, in place.

Every write goes through here, so this is written for speed: nothing is copied, and a path is only spelled out when
something is wrong with the field it names. What happens after taking in (defaults, checks of values) can be
called through this module too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from localpv.api import fields
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.api.schema import scalars
from localpv.api.schema.duplicates import MOST_FINDINGS, duplicate_fields, findings
from localpv.api.schema.node import MISSING, Node, Place, Type, apply_defaults, check_values, spelled

__all__ = ["Taken", "apply_defaults", "check_values", "duplicate_fields", "findings", "take_in"]

# Attributes of an Enum cost a lookup each time; the walk does thousands of them.
_STRING, _STRUCT, _MAP, _LIST, _ANY = Type.STRING, Type.STRUCT, Type.MAP, Type.LIST, Type.ANY


@dataclass(slots=True)
class Taken:
    """What was found on the way in."""

    unknown: list[str] = field(default_factory=list)
    """Paths of fields that the schema does not have; they were dropped. Those of a built-in kind are in the order of
    the body; those of a custom kind as Kubernetes finds them: in the metadata, in its own fields, in the metadata of
    embedded objects, each sorted."""

    type_errors: FieldErrors = field(default_factory=list)
    """Values of the wrong type; they were left as they are, so an object with any of these must be refused."""

    undecodable: bool = False
    """Some of the type errors are in built-in parts, the metadata of a custom kind among them. Kubernetes cannot even
    read such a body and answers 400 BadRequest; wrong types in a custom kind's own fields alone are 422 Invalid."""


def take_in(value: Object, node: Node, *, path: str = "", keep_empty: bool = False) -> Taken:
    """Make `value`, which is changed in place, an object of the schema, and tell what did not fit.

    `keep_empty` leaves empty lists and maps of built-in kinds where they are: an applied configuration owns them,
    whereas in a stored object they are the same as nothing.
    """
    walk = _Walk(keep_empty)
    try:
        if node.custom:
            walk.custom_object(value, node, path or None)
            walk.sort_unknown()
        else:
            walk.struct(value, node, path or None)
    except RecursionError:
        # Only a CustomResourceDefinition's schema can be nested without end.
        walk.refuse(value, fields.invalid(path, "object", "is nested too deeply"))
    return walk.taken


class _Walk:
    __slots__ = ("keep_empty", "pruned", "taken")

    def __init__(self, keep_empty: bool) -> None:
        self.taken = Taken()
        self.keep_empty = keep_empty
        self.pruned: list[str] = []
        """Paths of fields that the schema of a custom kind does not have; metadata are of a built-in type."""

    # Built-in kinds: as a Go struct would be filled from JSON.

    def struct(self, value: Object, node: Node, place: Place) -> None:
        known = node.fields
        gone = None
        for key, item in value.items():
            child = known.get(key)
            if child is None:
                self.unknown((place, key))
            elif item is not None:
                kind = child.type
                if kind is _STRING:
                    if type(item) is not str or child.format:
                        value[key] = self.scalar(item, child, (place, key))
                    continue
                if kind is _STRUCT:
                    if type(item) is dict:
                        self.struct(item, child, (place, key))
                    else:
                        self.misfit(item, "object", (place, key))
                    continue
                if kind is _LIST:
                    if type(item) is list:
                        if item:
                            self.array(item, child, (place, key))
                            continue
                        if self.keep_empty or key in node.required:
                            continue
                    else:
                        self.misfit(item, "array", (place, key))
                        continue
                elif kind is _MAP:
                    if type(item) is dict:
                        if item:
                            self.mapping(item, child, (place, key))
                            continue
                        if self.keep_empty or key in node.required:
                            continue
                    else:
                        self.misfit(item, "object", (place, key))
                        continue
                elif kind is _ANY:
                    if child.items is not None:
                        self.schema_or_else(item, child, (place, key))
                    continue
                else:
                    value[key] = self.scalar(item, child, (place, key))
                    continue
            if gone is None:
                gone = [key]
            else:
                gone.append(key)
        if gone is not None:
            for key in gone:
                del value[key]

    def array(self, value: list[Any], node: Node, place: Place) -> None:
        items = node.items
        assert items is not None
        kind = items.type
        if kind is _STRING and not items.format:
            for index, item in enumerate(value):
                if type(item) is not str:
                    value[index] = self.element(item, items, (place, index))
        else:
            for index, item in enumerate(value):
                if kind is _STRUCT and type(item) is dict:
                    self.struct(item, items, (place, index))
                else:
                    value[index] = self.element(item, items, (place, index))

    def mapping(self, value: Object, node: Node, place: Place) -> None:
        items = node.items
        assert items is not None
        if items.type is _STRING and not items.format:
            for key, item in value.items():
                if type(item) is not str:
                    value[key] = self.element(item, items, (place, key))
        else:
            for key, item in value.items():
                value[key] = self.element(item, items, (place, key))

    def element(self, item: Any, node: Node, place: Place) -> Any:
        """One value of a list or map. Here null does not mean absent: Go makes it the zero of its type."""
        if item is None:
            return scalars.zero(node)
        kind = node.type
        if kind is _STRUCT or kind is _MAP:
            if type(item) is not dict:
                return self.misfit(item, "object", place)
            (self.struct if kind is _STRUCT else self.mapping)(item, node, place)
        elif kind is _LIST:
            if type(item) is not list:
                return self.misfit(item, "array", place)
            self.array(item, node, place)
        elif kind is _ANY:
            if node.items is not None:
                self.schema_or_else(item, node, place)
        else:
            return self.scalar(item, node, place)
        return item

    def scalar(self, item: Any, node: Node, place: Place) -> Any:
        try:
            return scalars.read(item, node)
        except scalars.Misread as reason:
            return self.refuse(item, fields.invalid(spelled(place), scalars.shown(item), str(reason)))

    def schema_or_else(self, item: Any, node: Node, place: Place) -> None:
        """The places in a JSON schema that hold a schema, or else a bool, a list of schemas or a list of strings."""
        schema = node.items
        assert schema is not None
        either_bool = node.name.endswith("OrBool")
        told = len(self.taken.unknown)
        if type(item) is dict:
            self.struct(item, schema, place)
        elif type(item) is list and not either_bool:
            for index, element in enumerate(item):
                if type(element) is dict:
                    self.struct(element, schema, (place, index))
                elif type(element) is not str or not node.name.endswith("OrStringArray"):
                    self.misfit(element, "object", (place, index))
        elif not (either_bool and type(item) is bool):
            self.misfit(item, "object or boolean" if either_bool else "object or array", place)
        # Kubernetes drops what it does not know in here without a word.
        del self.taken.unknown[told:]

    def misfit(self, item: Any, wanted: str, place: Place) -> Any:
        got = scalars.json_type(item)
        return self.refuse(item, fields.type_invalid(spelled(place), got, f"must be of type {wanted}, not {got}"))

    def refuse(self, item: Any, error: fields.FieldError) -> Any:
        self.wrong(error)
        self.taken.undecodable = True
        return item

    def unknown(self, place: Place) -> None:
        if len(self.taken.unknown) < MOST_FINDINGS:
            self.taken.unknown.append(spelled(place))

    def wrong(self, error: fields.FieldError) -> None:
        if len(self.taken.type_errors) < fields.MOST:
            self.taken.type_errors.append(error)

    # Custom kinds: JSON stays JSON, and the schema decides what stays.

    def sort_unknown(self) -> None:
        own = sorted(path for path in self.taken.unknown if path.startswith("metadata."))
        embedded = sorted(path for path in self.taken.unknown if not path.startswith("metadata."))
        self.taken.unknown = [*own, *sorted(self.pruned), *embedded]

    def custom_object(self, value: Object, node: Node, place: Place) -> None:
        known, others = node.fields, node.items
        gone = None
        for key, item in value.items():
            child = known.get(key) or others
            if child is None:
                if node.preserve_unknown:
                    continue
                if len(self.pruned) < MOST_FINDINGS:
                    self.pruned.append(spelled((place, key)))
            elif item is None:
                if child.nullable:
                    continue
            else:
                changed = self.custom(item, child, (place, key))
                if changed is not item:
                    value[key] = changed
                continue
            if gone is None:
                gone = [key]
            else:
                gone.append(key)
        if gone is not None:
            for key in gone:
                del value[key]

    def custom(self, item: Any, node: Node, place: Place) -> Any:
        if not node.custom:
            return self.element(item, node, place)
        kind = node.type
        if kind is _STRING:
            if type(item) is str:
                return item
        elif kind is _STRUCT or kind is _MAP:
            if type(item) is dict:
                self.custom_object(item, node, place)
                return item
        elif kind is _LIST:
            if type(item) is list:
                self.custom_list(item, node, place)
                return item
        elif kind is _ANY:
            if type(item) is dict:
                self.custom_object(item, node, place)
            elif type(item) is list:
                self.custom_list(item, node, place)
            return item
        elif scalars.custom_fits(item, kind):
            # 1.0 is an integer here, and is written as one from now on.
            return int(item) if type(item) is float and item.is_integer() else item
        self.wrong(self.wrong_type(item, node, place))
        return item

    def custom_list(self, value: list[Any], node: Node, place: Place) -> None:
        items = node.items
        if items is None:
            return
        for index, item in enumerate(value):
            if item is None:
                # A default takes the place of null later; without one, null is a value of the wrong type.
                if not items.nullable and items.default is MISSING and items.type is not _ANY:
                    self.wrong(self.wrong_type(None, items, (place, index)))
                continue
            changed = self.custom(item, items, (place, index))
            if changed is not item:
                value[index] = changed

    @staticmethod
    def wrong_type(item: Any, node: Node, place: Place) -> fields.FieldError:
        path, got = spelled(place), scalars.json_type(item)
        wanted = scalars.TYPE_NAMES[node.type]
        return fields.type_invalid(path, got, f'{path} in body must be of type {wanted}: "{got}"')
