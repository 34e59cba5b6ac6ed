"""What a definition of the schema asks of its fields, as tables: required, allowed values, ranges, one of several.

The generated schema knows types and nothing of this. `wrong` and `fill_in` walk an object along its schema and apply
the table of each definition that they come across, wherever it is used. `errors` applies a table of single fields, in
the order of the table: for kinds of which more is asked than tables can say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from localpv.api import fields
from localpv.api.fields import FieldError, FieldErrors
from localpv.api.objects import Object
from localpv.api.schema.node import Node, Type

Form = Callable[[str], list[str]]
"""What is wrong with a text, as sentences, such as `names.dns_label`."""


@dataclass(frozen=True, slots=True)
class Field:
    """What is asked of one field: that it is there, is one of these, has this form, is in this range."""

    name: str
    _: KW_ONLY
    required: bool | str = False
    """It must be there and not be empty; a text says why."""

    enum: tuple[str, ...] = ()
    form: Form | None = None
    least: int | None = None
    most: int | None = None
    said: str = ""
    """The range in other words."""

    unset: str | int | None = None
    """What a field that is left out counts as; None: nothing is asked of it."""

    may_be_empty: bool = False
    """Empty is as good as left out."""

    fine: Callable[[Any], bool] = field(init=False, repr=False, compare=False)
    """Whether nothing is wrong with a value, which is so of nearly all: made once, because every write asks it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "fine", self._fine())

    def _fine(self) -> Callable[[Any], bool]:
        unset_is_fine, empty_is_fine = not self.required, self.may_be_empty
        if self.enum:
            return frozenset((*self.enum, *(None,) * unset_is_fine, *("",) * empty_is_fine)).__contains__
        if (form := self.form) is not None:
            return lambda found: not form(found) if found else unset_is_fine and (found is None or empty_is_fine)
        least, most = self.least, self.most
        if most is not None:
            assert least is not None
            return lambda found: least <= found <= most if found else unset_is_fine and (found is None or empty_is_fine)
        if least is not None:
            return lambda found: found >= least if found is not None else unset_is_fine
        return bool

    def wrong(self, found: Any, path: str) -> Iterator[FieldError]:
        if self.required and not found:
            yield fields.required(path, self.required if isinstance(self.required, str) else "")
            return
        if found is None or (self.may_be_empty and not found):
            return
        if self.enum and found not in self.enum:
            yield fields.not_supported(path, found, self.enum)
        if self.form is not None:
            yield from fields.malformed(path, found, self.form(found))
        if (self.least is not None and found < self.least) or (self.most is not None and found > self.most):
            yield fields.invalid(path, found, self.said or self._range())

    def _range(self) -> str:
        if self.most is None:
            return f"must be greater than or equal to {self.least}"
        return f"must be from {self.least} to {self.most}"


def errors(table: Iterable[Field], value: Object, path: str) -> FieldErrors:
    """What the fields of a table find wrong with the object at a path, or with the whole one when that is empty."""
    wrong: FieldErrors = []
    for each in table:
        found = value.get(each.name, each.unset)
        if not each.fine(found):
            wrong += each.wrong(found, f"{path}.{each.name}" if path else each.name)
    return wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Of one definition. What is said of a field whose value is a list of texts holds for each of them."""

    required: tuple[str, ...] = ()
    """Fields that must be there and not be empty."""

    enum: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    least: Mapping[str, int] = field(default_factory=dict)
    most: Mapping[str, int] = field(default_factory=dict)
    form: Mapping[str, Form] = field(default_factory=dict)

    unique: Mapping[str, str] = field(default_factory=dict)
    """Lists, and the field in which no two of their elements may be the same."""

    unique_elements: Mapping[str, str] = field(default_factory=dict)
    """The same, where Kubernetes names the element and not the field."""

    most_items: Mapping[str, int] = field(default_factory=dict)
    one_of: tuple[str, ...] = ()
    """Exactly one of these fields must be there."""

    union: tuple[str, Mapping[str, str]] | None = None
    """A field whose value says which of several others must be there; none of those others may."""

    default: Mapping[str, Any] = field(default_factory=dict)
    """For what is left out."""

    instead_of_zero: Mapping[str, Any] = field(default_factory=dict)
    """For what is left out or zero, in fields where zero cannot be meant."""

    fill_in: Callable[[Object], None] | None = None
    also: Callable[[Object, str], Iterable[FieldError]] | None = None
    """For what depends on several fields."""

    def wrong(self, value: Object, path: str) -> Iterator[FieldError]:
        def at(name: str) -> str:
            return f"{path}.{name}" if path else name

        for name in self.required:
            if value.get(name) in (None, "", [], {}):
                yield fields.required(at(name))
        for name, known in self.enum.items():
            for place, each in _texts(value, name):
                if each not in known:
                    yield fields.not_supported(at(place), each, known)
        for name, check in self.form.items():
            for place, each in _texts(value, name):
                for sentence in check(each):
                    yield fields.invalid(at(place), each, sentence)
        for name, least in self.least.items():
            if name in value and value[name] < least:
                yield fields.invalid(at(name), value[name], f"must be greater than or equal to {least}")
        for name, most in self.most.items():
            if name in value and value[name] > most:
                yield fields.invalid(at(name), value[name], f"must be less than or equal to {most}")
        for name, count in self.most_items.items():
            if len(value.get(name) or ()) > count:
                yield fields.too_many(at(name), len(value[name]), count)
        for lists, whole in ((self.unique, False), (self.unique_elements, True)):
            for name, key in lists.items():
                elements = value.get(name) or []
                for index in sorted(fields.repeated(element.get(key, "") for element in elements)):
                    place = f"{at(name)}[{index}]"
                    yield fields.duplicate(place if whole else f"{place}.{key}", elements[index].get(key, ""))
        if self.one_of:
            present = [name for name in self.one_of if value.get(name) not in (None, [])]
            if not present:
                yield fields.required(path, f"exactly one of {', '.join(self.one_of)} is needed")
            elif len(present) > 1:
                yield fields.invalid(path, present, f"only one of {', '.join(self.one_of)} can be there")
        if self.union is not None:
            yield from self._wrong_union(value, path, *self.union)
        if self.also is not None:
            yield from self.also(value, path)

    def _wrong_union(self, value: Object, path: str, chooser: str, members: Mapping[str, str]) -> Iterator[FieldError]:
        chosen = value.get(chooser, "")
        if chosen not in members:
            yield fields.not_supported(f"{path}.{chooser}", chosen, members)
            return
        for name, member in members.items():
            if not member:
                continue
            if name == chosen and value.get(member) is None:
                yield fields.required(f"{path}.{member}", f"{chooser} {chosen} needs it")
            elif name != chosen and value.get(member) is not None:
                yield fields.forbidden(f"{path}.{member}", f"goes with {chooser} {name} only")

    def put_defaults(self, value: Object) -> None:
        for name, default in self.default.items():
            if value.get(name) is None:
                value[name] = deepcopy(default)
        for name, default in self.instead_of_zero.items():
            value[name] = value.get(name) or default
        if self.fill_in is not None:
            self.fill_in(value)


Tables = Mapping[str, Rules]
"""By the name of the definition."""


def wrong(value: Any, node: Node, path: str, tables: Tables) -> Iterator[FieldError]:
    """All that the tables do not allow."""
    for name, place, part in _parts(value, node, path, tables):
        if (rules := tables.get(name)) is not None:
            yield from rules.wrong(part, place)


def fill_in(value: Any, node: Node, tables: Tables) -> None:
    """Put in what was left out."""
    # From the inside out, so that what a table sees is complete.
    for name, _, part in reversed(list(_parts(value, node, "", tables))):
        if (rules := tables.get(name)) is not None:
            rules.put_defaults(part)


def _parts(value: Any, node: Node, path: str, tables: Tables) -> Iterator[tuple[str, str, Object]]:
    """Every object inside an object, with the name of its definition and its path."""
    match node.type:
        case Type.STRUCT:
            if not isinstance(value, dict):
                return
            yield node.name, path, value
            rules = tables.get(node.name)
            told = rules.required if rules is not None else ()
            for name, child in node.fields.items():
                if name == "metadata" and not path:
                    continue
                place = f"{path}.{name}" if path else name
                if name in value:
                    yield from _parts(value[name], child, place, tables)
                elif name in node.required and name not in told and child.type is Type.STRUCT:
                    # What must be there and is not is wrong in the same way as what is there and empty.
                    yield from _parts({}, child, place, tables)
        case Type.LIST | Type.MAP if node.items is not None and node.items.type in (Type.STRUCT, Type.LIST):
            entries = enumerate(value) if isinstance(value, list) else value.items()
            for key, element in entries:
                yield from _parts(element, node.items, f"{path}[{key}]", tables)


def _texts(value: Object, name: str) -> Iterator[tuple[str, str]]:
    found = value.get(name)
    if isinstance(found, list):
        for index, each in enumerate(found):
            yield f"{name}[{index}]", each
    elif found:
        yield name, found
