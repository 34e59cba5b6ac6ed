"""Strategic merge patch: a merge patch that knows from the schema how lists merge.

Lists whose schema has a merge key are merged element by element, lists of plain values with the merge strategy are
united, other lists are replaced. Directives in the patch say what a plain merge cannot:

`$patch: replace | delete`          in an object, or in an element of a list
`$retainKeys: [...]`                the fields of an object that may stay
`$deleteFromPrimitiveList/FIELD`    values to take out of a list of plain values
`$setElementOrder/FIELD`            the order of a merged list
"""

from __future__ import annotations

from typing import Any

from localpv import errors
from localpv.api.objects import Object
from localpv.api.patch.merge_patch import copied, refusing_deep_nesting
from localpv.api.schema.node import Node, Type

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_DELETE = "$deleteFromPrimitiveList"
_ORDER = "$setElementOrder"

_ABSENT: Any = object()


@refusing_deep_nesting
def strategic_merge(original: Object, patch: Any, node: Node) -> Object:
    """The object after the patch; `node` is the schema of the object."""
    if patch is None:
        patch = {}
    if not isinstance(patch, dict):
        raise errors.BadRequest("a strategic merge patch must be a JSON object")
    return _merge_objects(original, patch, node)


def _merge_objects(original: Object, patch: Object, node: Node | None) -> Object:
    if _PATCH in patch:
        return _whole(patch)
    kept = _retained(original, patch)
    orders, deletions, changes = _sorted_out(patch)
    result: Object = {}
    for key, value in kept.items():
        if key not in changes and key not in orders and key not in deletions:
            result[key] = copied(value)
    for key in dict.fromkeys((*deletions, *changes, *orders)):
        below = _below(node, key)
        before = kept.get(key)
        if key in orders:
            value = _ordered(before, changes.get(key), orders[key], below, key)
        elif key not in changes:
            value = copied(before)
        elif changes[key] is None:
            continue
        else:
            value = _merge_values(before, changes[key], below, key)
        if key in deletions and isinstance(value, list):
            value = _without(value, deletions[key], key)
        if value is not _ABSENT and value is not None:
            result[key] = value
    return result


def _whole(patch: Object) -> Object:
    """An object that the patch replaces or empties."""
    match patch[_PATCH]:
        case "replace":
            content: Object = _plain({key: value for key, value in patch.items() if key != _PATCH})
            return content
        case "delete":
            return {}
        case other:
            raise errors.BadRequest(f"{_PATCH} must be replace or delete in an object, not {other!r}")


def _retained(original: Object, patch: Object) -> Object:
    """The fields of the original that `$retainKeys` leaves."""
    if _RETAIN not in patch:
        return original
    keys = patch[_RETAIN]
    if not isinstance(keys, list):
        raise errors.BadRequest(f"{_RETAIN} must be a list of field names")
    keys = {key for key in keys if isinstance(key, str)}
    for key, value in patch.items():
        if value is not None and key not in keys and not key.startswith("$"):
            raise errors.BadRequest(f"the patch sets {key!r}, which its {_RETAIN} leaves out")
    return {key: value for key, value in original.items() if key in keys}


def _sorted_out(patch: Object) -> tuple[dict[str, list[Any]], dict[str, list[Any]], Object]:
    """Orders and deletions by the field they are about, and the ordinary changes."""
    orders: dict[str, list[Any]] = {}
    deletions: dict[str, list[Any]] = {}
    changes: Object = {}
    for key, value in patch.items():
        if not key.startswith("$"):
            changes[key] = value
            continue
        directive, _, field = key.partition("/")
        if directive == _RETAIN:
            continue
        if directive not in (_ORDER, _DELETE):
            # Kept as an unknown field, which pruning or strict validation deals with.
            changes[key] = value
            continue
        if not field or not isinstance(value, list):
            raise errors.BadRequest(f"{key!r} must be {directive}/FIELD with a list")
        (orders if directive == _ORDER else deletions)[field] = value
    return orders, deletions, changes


def _below(node: Node | None, key: str) -> Node | None:
    if node is None:
        return None
    return node.items if node.type is Type.MAP else node.fields.get(key)


def _merge_values(before: Any, value: Any, node: Node | None, field: str) -> Any:
    if isinstance(before, dict) and isinstance(value, dict):
        if node is not None and "replace" in node.patch_strategy:
            return _plain(value)
        return _merge_objects(before, value, node)
    if isinstance(before, list) and isinstance(value, list) and node is not None and "merge" in node.patch_strategy:
        return _merge_lists(before, value, node, field)
    return _plain(value)


def _plain(value: Any) -> Any:
    """A value that meets nothing to merge with: a copy without nulls and directives."""
    if isinstance(value, dict):
        if _PATCH in value:
            return _ABSENT
        made = {}
        for key, each in value.items():
            if each is None or (key.startswith("$") and _directive(key)):
                continue
            plain = _plain(each) if isinstance(each, (dict, list)) else each
            if plain is not _ABSENT:
                made[key] = plain
        return made
    if isinstance(value, list):
        elements = [_plain(each) if isinstance(each, (dict, list)) else each for each in value]
        return [each for each in elements if each is not _ABSENT]
    return value


def _directive(key: str) -> bool:
    return key == _RETAIN or key.startswith((f"{_ORDER}/", f"{_DELETE}/"))


def _merge_lists(before: list[Any], patch: list[Any], node: Node, field: str) -> list[Any]:
    if not before and not patch:
        return []
    if not _of_objects(before, patch, field):
        return _interleaved(list(dict.fromkeys(before + patch)), order=patch, server_order=before)
    name = node.patch_merge_key
    if not name:
        raise errors.BadRequest(f"{field!r} cannot be merged: its elements have no merge key")
    kept, changes = _special_elements(before, patch, name, field)
    result = [copied(element) for element in kept]
    there = _places([element.get(name) for element in result])
    for change in changes:
        named = _key_of(change, name, field)
        index = there.get(named)
        if index is None:
            there[named] = len(result)
            result.append(_plain(change))
        else:
            result[index] = _merge_objects(result[index], change, node.items)
    return _interleaved(
        result,
        order=[change[name] for change in changes],
        server_order=[element.get(name) for element in kept],
        name=name,
    )


def _of_objects(before: list[Any], patch: list[Any], field: str) -> bool:
    """Whether a list is one of objects; BadRequest unless all its elements are, or none is."""
    kinds = {type(element) for element in (*before, *patch)}
    if len(kinds) > 1 or kinds & {list, type(None)}:
        raise errors.BadRequest(f"{field!r} cannot be merged: its elements must all be objects, or all be plain values")
    return dict in kinds


def _special_elements(before: list[Any], patch: list[Any], name: str, field: str) -> tuple[list[Any], list[Any]]:
    """What stays of the original, and what is merged into it, after the elements that carry `$patch`."""
    ordinary = [element for element in patch if _PATCH not in element]
    gone = set()
    replaced = False
    for element in patch:
        match element.get(_PATCH, _ABSENT):
            case "delete":
                gone.add(_key_of(element, name, field))
            case "replace":
                replaced = True
            case other if other is not _ABSENT:
                raise errors.BadRequest(f"{_PATCH} must be replace or delete in an element of {field!r}, not {other!r}")
    if replaced:
        return [_plain(element) for element in ordinary], []
    return [element for element in before if element.get(name) not in gone], ordinary


def _key_of(element: Object, name: str, field: str) -> Any:
    key = element.get(name)
    if key is None or isinstance(key, (dict, list)):
        raise errors.BadRequest(f"an element of {field!r} in the patch lacks its merge key {name!r}")
    return key


def _without(before: list[Any], deleted: list[Any], field: str) -> list[Any]:
    if _of_objects(before, deleted, field):
        raise errors.BadRequest(f"{_DELETE}/{field} is for lists of plain values; use {_PATCH}: delete in its elements")
    gone = set(deleted)
    return [value for value in before if value not in gone]


def _ordered(before: Any, value: Any, order: list[Any], node: Node | None, field: str) -> Any:
    """A list merged as usual and then put in the order that the patch asks for."""
    name = node.patch_merge_key if node is not None else ""
    if before is None and value is None:
        return _ABSENT
    for each in (before, value):
        if each is not None and not isinstance(each, list):
            raise errors.BadRequest(f"{_ORDER}/{field} is for a list")
    merged = copied(before) if value is None else _merge_values(before, value, node, field)
    wanted = [_key_of(each, name, field) if isinstance(each, dict) and name else each for each in order]
    if any(isinstance(key, (dict, list)) for key in wanted):
        raise errors.BadRequest(f"{_ORDER}/{field} must name elements by their merge key")
    if merged and not name and isinstance(merged[0], dict):
        return merged
    _check_subsequence(value or [], wanted, name, field)
    server_order = _server_order(before or [], value or [], name)
    return _interleaved(merged, order=wanted, server_order=server_order, name=name)


def _server_order(before: list[Any], patch: list[Any], name: str) -> list[Any]:
    """The order that the server knows. kube-apiserver lets a new element inherit the place of a deleted one, last."""
    keys = [each.get(name) if isinstance(each, dict) else each for each in before]
    changes = [each for each in patch if isinstance(each, dict)]
    if any(isinstance(each.get(name), dict | list) for each in changes):
        raise errors.BadRequest(f"an element in the patch has an object for its merge key {name!r}")
    gone = {each.get(name) for each in changes if each.get(_PATCH) == "delete"}
    kept = [key for key in keys if key not in gone]
    known = set(kept)
    new = [each.get(name) for each in changes if _PATCH not in each and each.get(name) not in known]
    return kept + new[: len(keys) - len(kept)]


def _check_subsequence(patch: list[Any], wanted: list[Any], name: str, field: str) -> None:
    if not wanted:
        return
    rest = iter(wanted)
    for each in patch:
        if isinstance(each, dict):
            if _PATCH in each:
                continue
            each = _key_of(each, name, field)
        if each not in rest:
            raise errors.BadRequest(f"{_ORDER}/{field} must name every element of the patch, in the same order")


def _interleaved(merged: list[Any], *, order: list[Any], server_order: list[Any], name: str = "") -> list[Any]:
    """Elements that the patch names in its order, the others where the server had them.

    An element that only the server knows goes in front of a named one when the server had it in front.
    """

    def key(element: Any) -> Any:
        return element.get(name) if isinstance(element, dict) else element

    wanted = _places(order)
    there = _places(server_order)
    named = sorted((each for each in merged if key(each) in wanted), key=lambda each: wanted[key(each)])
    others = sorted(
        (each for each in merged if key(each) not in wanted), key=lambda each: there.get(key(each), len(there))
    )
    result: list[Any] = []
    remaining = iter(others)
    other = next(remaining, _ABSENT)
    for each in named:
        while other is not _ABSENT and there.get(key(other), len(there)) < there.get(key(each), -1):
            result.append(other)
            other = next(remaining, _ABSENT)
        result.append(each)
    if other is not _ABSENT:
        result.append(other)
    result.extend(remaining)
    return result


def _places(order: list[Any]) -> dict[Any, int]:
    """Where each key stands; the first time counts."""
    places: dict[Any, int] = {}
    for index, key in enumerate(order):
        places.setdefault(key, index)
    return places
