"""Takes out of an object what its manager applied before and applies no longer."""

from __future__ import annotations

from typing import Any

from localpv.api.managed import elements
from localpv.api.managed.elements import SELF
from localpv.api.managed.fieldset import FieldSet
from localpv.api.managed.shape import Kind, Shape
from localpv.api.objects import Object


def abandoned(obj: Object, shape: Shape, *, last: FieldSet, owned: FieldSet) -> None:
    """Remove from `obj` what is in `last` (applied last time) and not in `owned` (what anybody owns now).

    A field that goes takes everything below it along, also what nobody owns, such as the defaults inside a list
    element. A container that others own something in stays, and so does everything in it that is not in `last`.
    """
    _fields(obj, shape, last, owned, given_up=False, doomed=False)


def _fields(
    value: dict[str, Any], shape: Shape, last: FieldSet, owned: FieldSet, *, given_up: bool, doomed: bool
) -> None:
    for key in list(value):
        element = "f:" + key
        was, now = last.get(element), owned.get(element)
        if was is None:
            continue
        named = key in shape.named
        stays, given, dead = _fate(was, now, named=named, given_up=given_up, doomed=doomed)
        if not stays and not (shape.fields[key].kind in (Kind.KEYED, Kind.SET) and value[key] == []):
            del value[key]
        elif was:
            value[key] = _inside(value[key], shape.fields[key], was, now or {}, given_up=given, doomed=dead)


def _fate(was: FieldSet, now: FieldSet | None, *, named: bool, given_up: bool, doomed: bool) -> tuple[bool, bool, bool]:
    """Whether an element stays, whether it or something above it was applied before, and whether it is unowned since.

    A declared field counts as applied, or owned, as soon as anything below it is.
    """
    applied = named or not was or SELF in was
    owned = now is not None and (named or not now or SELF in now)
    given_up = given_up or applied
    doomed = doomed or (given_up and not owned)
    return not (applied and doomed), given_up, doomed


def _inside(value: Any, shape: Shape, last: FieldSet, owned: FieldSet, *, given_up: bool, doomed: bool) -> Any:
    match shape.kind:
        case Kind.STRUCT | Kind.MAP | Kind.ANY if isinstance(value, dict) and value:
            _fields(value, shape, last, owned, given_up=given_up, doomed=doomed)
            # What has lost everything is null, not empty: an empty struct would still say something.
            return value if len(value) else None
        case Kind.KEYED | Kind.SET if isinstance(value, list) and value:
            left = []
            for item in value:
                element = elements.by_value(item) if shape.kind is Kind.SET else elements.by_keys(item, shape)
                was, now = last.get(element), owned.get(element)
                if was is None:
                    left.append(item)
                    continue
                stays, given, dead = _fate(was, now, named=False, given_up=given_up, doomed=doomed)
                if not stays:
                    continue
                if was and shape.kind is Kind.KEYED:
                    item = _inside(item, shape.item, was, now or {}, given_up=given, doomed=dead)
                left.append(item)
            return left or None
    return value
