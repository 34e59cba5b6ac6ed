"""Sets of fields, held as the JSON that `fieldsV1` is, and the path elements that they are made of.

f:NAME      a field of a struct, a key of a map
k:{...}     the list element with these keys
v:VALUE     the list element with this value
i:NUMBER    the list element at this place (read for completeness, never written)

A set is a dictionary from path elements to the sets below them. `{}` below an element means that the element itself is
in the set. When there is more below it, the entry "." says so. Sets are kept in one order (the one Kubernetes prints),
are never changed once made, and may share parts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from localpv.api.managed import shape as shapes
from localpv.api.managed.shape import Kind, Shape
from localpv.api.schema.node import Node

SELF: Final = "."
"""Stands beside the path elements below an element, when that element is in the set itself."""

_ESCAPED: Final = re.compile(r'["\\<>&\x00-\x1f\u2028\u2029]')


class NotAnElement(ValueError):
    """This is not how a path element is written."""


def quoted(text: str) -> str:
    """A JSON string as it stands inside a path element: as Go writes it, safe for HTML."""
    if _ESCAPED.search(text) is None:
        return f'"{text}"'
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    short = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char)
    return short or f"\\u{ord(char):04x}"


def _json(value: Any) -> str:
    if type(value) is str:
        return quoted(value)
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        value = int(value)
    return json.dumps(value, separators=(",", ":"))


def by_value(value: Any) -> str:
    """The path element of an element of a set."""
    return "v:" + _json(value)


def by_keys(element: dict[str, Any], shape: Shape) -> str:
    """The path element of an element of a keyed list; empty when it has none of its keys."""
    keys = shape.keys
    if len(keys) == 1:
        key = keys[0]
        value = element.get(key)
        if type(value) is str and _ESCAPED.search(value) is None:
            return f'k:{{"{key}":"{value}"}}'
    defaults = shape.key_defaults
    parts = []
    for key in keys:
        value = element.get(key, defaults.get(key))
        if value is not None:
            parts.append(f'"{key}":{_json(value)}')
    return "k:{" + ",".join(parts) + "}" if parts else ""


_RANK: Final = {"v": 2, "i": 3}


def _order_of_value(value: Any) -> tuple[int, Any]:
    # Numbers before strings before booleans, as in Kubernetes; what else JSON has is compared as text.
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, int | float):
        return 0, value
    if isinstance(value, str):
        return 1, value
    return 3, json.dumps(value, sort_keys=True)


def order(element: str) -> tuple[Any, ...]:
    """Sort key of a path element."""
    if element.startswith("f:"):
        return 0, element
    if element == SELF:
        return (-1,)
    kind, text = element[0], element[2:]
    value = json.loads(text)
    if kind == "k":
        return 1, [(name, *_order_of_value(value[name])) for name in sorted(value)]
    return _RANK[kind], _order_of_value(value)


def canonical(name: str) -> str | None:
    """A path element as we write it; None for a kind of element that we do not know."""
    if len(name) < 2 or name[1] != ":":
        raise NotAnElement(f"{name[:100]!r} is not a path element")
    if name[0] == "f":
        return name
    if name[0] not in "kvi":
        return None
    try:
        value = json.loads(name[2:])
    except (ValueError, RecursionError) as error:
        raise NotAnElement(f"{name[:100]!r} is not a path element") from error
    match name[0], value:
        case "k", dict():
            return "k:{" + ",".join(f"{_json(key)}:{_json(value[key])}" for key in sorted(value)) + "}"
        case "v", _:
            return by_value(value)
        case "i", int():
            return f"i:{value}"
    raise NotAnElement(f"{name[:100]!r} is not a path element")


def element_shown(element: str) -> str:
    kind, text = element[0], element[2:]
    if kind == "f":
        return "." + text
    value = json.loads(text)
    if kind == "k":
        return "[" + ",".join(f"{key}={_shown_value(value[key])}" for key in sorted(value)) + "]"
    return f"[={_shown_value(value)}]" if kind == "v" else f"[{text}]"


def _shown_value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


FieldSet = dict[str, Any]


class NotAFieldSet(ValueError):
    """This is not what fieldsV1 looks like."""


def sort(fields: FieldSet) -> FieldSet:
    """The same elements in the order in which they are printed; the sets below them are left as they are."""
    names = list(fields)
    if any(name[0] in "kvi" for name in names):
        names.sort(key=order)
    else:
        names.sort()  # "." comes before "f:"
    return {name: fields[name] for name in names}


# In and out


def parse(fields: Any) -> FieldSet:
    """A set from the fieldsV1 that a client sent. Elements of a kind we do not know are dropped, as Kubernetes does."""
    if not isinstance(fields, dict):
        raise NotAFieldSet("fieldsV1 is not an object")
    parsed: FieldSet = {}
    for name, below in fields.items():
        if name == SELF:
            continue
        try:
            element = canonical(name)
        except NotAnElement as error:
            raise NotAFieldSet(str(error)) from error
        if element is not None:
            parsed[element] = _parse_below(below)
    return sort(parsed)


def _parse_below(fields: Any) -> FieldSet:
    below = parse(fields)
    return {SELF: {}, **below} if below and SELF in fields else below


def encode(fields: FieldSet) -> FieldSet:
    """The set as fieldsV1, in the order that Kubernetes prints."""
    return sort({name: encode(below) for name, below in fields.items()})


def of(value: Any, node: Node) -> FieldSet:
    """Every field that an applied object speaks of, without those that nobody can own."""
    return without_identity(mentioned(value, shapes.root(node)))


def mentioned(value: Any, shape: Shape) -> FieldSet:
    """Every leaf in a value, and every list element and map key."""
    fields: FieldSet = {}
    match shape.kind:
        case Kind.STRUCT | Kind.MAP | Kind.ANY if isinstance(value, dict):
            for key in sorted(value):
                child = value[key]
                inner = shape.fields[key]
                below = mentioned(child, inner)
                if _is_leaf(child, inner):
                    fields["f:" + key] = {}
                elif key not in shape.named or child is None or child == {}:
                    fields["f:" + key] = {SELF: {}, **below} if below else {}
                elif below:
                    fields["f:" + key] = below
        case Kind.KEYED if isinstance(value, list):
            seen: set[str] = set()
            for child in value:
                element = by_keys(child, shape)
                below = {} if element in seen else mentioned(child, shape.item)
                fields[element] = {SELF: {}, **below} if below else below
                seen.add(element)
            return sort(fields)
        case Kind.SET if isinstance(value, list):
            return sort({by_value(child): {} for child in value})
    return fields


def _is_leaf(value: Any, shape: Shape) -> bool:
    return shape.kind is Kind.LEAF or (shape.kind is Kind.ANY and not isinstance(value, dict))


_NOBODYS: Final = frozenset({"f:apiVersion", "f:kind"})
NOBODYS_METADATA: Final = frozenset(
    "f:" + field
    for field in (
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    )
)


def without_identity(fields: FieldSet) -> FieldSet:
    """The set without the fields that make an object the one it is: nobody owns those."""
    kept: FieldSet = {}
    for name, below in fields.items():
        if name == "f:metadata":
            below = {field: deeper for field, deeper in below.items() if field not in NOBODYS_METADATA}
            below.pop(SELF, None)
            if not below:
                continue
        elif name in _NOBODYS:
            continue
        kept[name] = below
    return kept


# Set algebra


def union(a: FieldSet, b: FieldSet) -> FieldSet:
    """What is in one or the other."""
    if not b or a is b:
        return a
    if not a:
        return b
    joined = dict(a)
    for name, below in b.items():
        mine = a.get(name)
        joined[name] = below if mine is None else _union_below(mine, below)
    return sort(joined) if len(joined) > len(a) else joined


def unions(sets: list[FieldSet]) -> FieldSet:
    """What is in any of them. Two by two, because one after the other would copy the first again and again."""
    while len(sets) > 1:
        pairs = [union(one, other) for one, other in zip(sets[::2], sets[1::2], strict=False)]
        sets = pairs + sets[2 * len(pairs) :]
    return sets[0] if sets else {}


def _union_below(a: FieldSet, b: FieldSet) -> FieldSet:
    if not a:
        return b if not b or SELF in b else {SELF: {}, **b}
    if not b:
        return a if SELF in a else {SELF: {}, **a}
    return union(a, b)


def difference(a: FieldSet, b: FieldSet) -> FieldSet:
    """What is in the first and not in the second; the first itself when they have nothing in common."""
    if not a or not b:
        return a
    left: FieldSet | None = None
    # The smaller one leads: a thousand owners of a field each are compared with every change.
    for name in b if len(b) <= len(a) else list(a):
        mine, theirs = a.get(name), b.get(name)
        if mine is None or theirs is None or name == SELF:
            continue
        rest = _difference_below(mine, theirs)
        if rest is mine:
            continue
        if left is None:
            left = dict(a)
        if rest is None:
            del left[name]
        else:
            left[name] = rest
    return a if left is None else left


def _difference_below(a: FieldSet, b: FieldSet) -> FieldSet | None:
    """The same for what is below one element, where membership of the element counts too; None when nothing is left."""
    mine, theirs = not a or SELF in a, not b or SELF in b
    rest = difference(a, b)
    if mine and theirs:
        if SELF in rest:
            rest = {name: below for name, below in rest.items() if name != SELF}
        return rest or None
    if rest is a:
        return a
    if mine:
        # Only "." is left: the element is in the set by itself.
        return {} if len(rest) == 1 else rest
    return rest or None


def recursive_difference(a: FieldSet, b: FieldSet) -> FieldSet:
    """The first without the elements of the second and without everything below those."""
    left: FieldSet = {}
    for name, mine in a.items():
        theirs = b.get(name)
        if theirs is None:
            left[name] = mine
        elif theirs and SELF not in theirs and mine:
            rest = recursive_difference(mine, theirs)
            if rest:
                left[name] = {} if rest == {SELF: {}} else rest
        elif theirs and SELF not in theirs:
            left[name] = mine
    return left


def intersection(a: FieldSet, b: FieldSet) -> FieldSet:
    """What is in both."""
    both: FieldSet = {}
    for name, mine in a.items():
        theirs = b.get(name)
        if theirs is None or name == SELF:
            continue
        below = intersection(mine, theirs)
        if (not mine or SELF in mine) and (not theirs or SELF in theirs):
            both[name] = {SELF: {}, **below} if below else {}
        elif below:
            both[name] = below
    return both


def paths(fields: FieldSet) -> Iterator[tuple[str, ...]]:
    """Every element in the set as its path, those of one level before those below."""
    for name, below in fields.items():
        if name != SELF and (not below or SELF in below):
            yield (name,)
    for name, below in fields.items():
        for path in paths(below):
            yield (name, *path)


def shown(path: tuple[str, ...]) -> str:
    """A path for people: `.spec.containers[name="web"].image`."""
    return "".join(map(element_shown, path))
