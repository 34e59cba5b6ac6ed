"""The rules of a JSON schema about single values: ranges, lengths, patterns, enums, and combinations of schemas."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sized
from typing import Any

from localpv.api import fields
from localpv.api.fields import FieldErrors
from localpv.api.schema import formats
from localpv.api.schema.node import Node, check_values

Schema = dict[str, Any]

_MOST_NAMED = 100
"""Values of an enum that are told to who used another one."""

Check = Callable[[str, Any], FieldErrors]


def of(schema: Schema, *, nested: Callable[[Schema], Node]) -> tuple[Check, ...]:
    """The checks that a schema asks for, those of its fields and items excepted. `nested` builds the schemas within."""
    return tuple(_checks(schema, nested))


def _checks(schema: Schema, nested: Callable[[Schema], Node]) -> Iterator[Check]:
    if not schema.keys().isdisjoint(("maxLength", "minLength", "pattern")):
        yield _text(schema)
    if check := formats.check_of(schema.get("format", "")):
        yield _format(schema["format"], check)
    if not schema.keys().isdisjoint(("minimum", "maximum", "multipleOf")):
        yield _number(schema)
    if not schema.keys().isdisjoint(("minItems", "maxItems")):
        yield _count(list, "items", schema.get("minItems"), schema.get("maxItems"))
    if not schema.keys().isdisjoint(("minProperties", "maxProperties")):
        yield _count(dict, "properties", schema.get("minProperties"), schema.get("maxProperties"))
    if "enum" in schema:
        yield _enum(schema["enum"])
    match schema.get("x-kubernetes-list-type"):
        case "set":
            yield _set
        case "map":
            yield _map(tuple(schema.get("x-kubernetes-list-map-keys", ())))
    for rules in map(nested, schema.get("allOf", ())):
        yield _all_of(rules)
    if branches := schema.get("anyOf"):
        yield _any_of([nested(branch) for branch in branches])
    if branches := schema.get("oneOf"):
        yield _one_of([nested(branch) for branch in branches])
    if "not" in schema:
        yield _not(nested(schema["not"]))


def _text(schema: Schema) -> Check:
    longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")

    def check(path: str, value: Any) -> FieldErrors:
        if not isinstance(value, str):
            return []
        if longest is not None and len(value) > longest:
            return [fields.too_long(path, longest)]
        if shortest is not None and len(value) < shortest:
            return [fields.invalid(path, value, f"must be at least {shortest} characters long")]
        if pattern and not formats.found(pattern, value):
            return [fields.invalid(path, value, f"must match the pattern '{pattern}'")]
        return []

    return check


def _format(name: str, fits: formats.Check) -> Check:
    def check(path: str, value: Any) -> FieldErrors:
        if not isinstance(value, str) or fits(value):
            return []
        return [fields.type_invalid(path, value, f"{path} in body must be of type {name}")]

    return check


def _number(schema: Schema) -> Check:
    least, most, step = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    above, below = schema.get("exclusiveMinimum", False), schema.get("exclusiveMaximum", False)

    def check(path: str, value: Any) -> FieldErrors:
        if type(value) is not int and type(value) is not float:
            return []
        errors = []
        if most is not None and (value > most or (below and value == most)):
            errors.append(fields.invalid(path, value, f"must be less than {'' if below else 'or equal to '}{most}"))
        if least is not None and (value < least or (above and value == least)):
            errors.append(fields.invalid(path, value, f"must be greater than {'' if above else 'or equal to '}{least}"))
        if step and not _is_multiple(value, step):
            errors.append(fields.invalid(path, value, f"must be a multiple of {step}"))
        return errors

    return check


def _is_multiple(value: float, step: float) -> bool:
    if type(value) is int and type(step) is int:
        return value % step == 0
    ratio = value / step
    return abs(ratio - round(ratio)) <= 1e-9 * max(1.0, abs(ratio))


def _count(kind: type[Sized], noun: str, least: int | None, most: int | None) -> Check:
    def check(path: str, value: Any) -> FieldErrors:
        if not isinstance(value, kind):
            return []
        size = len(value)
        if most is not None and size > most:
            return [fields.too_many(path, size, most)]
        if least is not None and size < least:
            return [fields.invalid(path, size, f"must have at least {least} {noun}")]
        return []

    return check


def _enum(allowed: list[Any]) -> Check:
    keys = frozenset(map(identity, allowed))
    names = [value if isinstance(value, str) else json.dumps(value) for value in allowed[:_MOST_NAMED]]

    def check(path: str, value: Any) -> FieldErrors:
        return [] if identity(value) in keys else [fields.not_supported(path, value, names)]

    return check


def identity(value: Any) -> str:
    """Equal for equal JSON values and for those alone: 1 is 1.0 but neither true nor "1"."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True)


def _set(path: str, value: Any) -> FieldErrors:
    return _repeated(path, value) if isinstance(value, list) else []


def _map(keys: tuple[str, ...]) -> Check:
    def check(path: str, value: Any) -> FieldErrors:
        if not isinstance(value, list) or not all(isinstance(element, dict) for element in value):
            return []
        return _repeated(path, [{key: element[key] for key in keys if key in element} for element in value])

    return check


def _repeated(path: str, values: list[Any]) -> FieldErrors:
    seen: dict[str, int] = {}
    errors: FieldErrors = []
    for index, value in enumerate(values):
        if len(errors) >= fields.MOST:
            break
        key = identity(value)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] == 2:
            errors.append(fields.duplicate(f"{path}[{index}]", value))
    return errors


def _all_of(rules: Node) -> Check:
    return lambda path, value: check_values(value, rules, path)


def _any_of(branches: list[Node]) -> Check:
    def check(path: str, value: Any) -> FieldErrors:
        _, nearest = _tried(path, value, branches, enough=1)
        if not nearest:
            return []
        return [fields.invalid(path, _kind(value), "must match at least one schema of anyOf"), *nearest]

    return check


def _tried(path: str, value: Any, branches: list[Node], *, enough: int) -> tuple[int, FieldErrors]:
    """How many of the schemas the value matches, and what is wrong by the one that it comes nearest to. Only that is
    kept: there may be thousands of schemas, each with all that it finds."""
    matching, nearest = 0, None
    for branch in branches:
        found = check_values(value, branch, path)
        matching += not found
        if nearest is None or len(found) < len(nearest):
            nearest = found
        if matching == enough:
            break
    return matching, nearest or []


def _one_of(branches: list[Node]) -> Check:
    def check(path: str, value: Any) -> FieldErrors:
        matching, nearest = _tried(path, value, branches, enough=len(branches))
        if matching == 1:
            return []
        error = fields.invalid(path, _kind(value), f"must match exactly one schema of oneOf, but matches {matching}")
        return [error, *nearest]

    return check


def _not(rules: Node) -> Check:
    def check(path: str, value: Any) -> FieldErrors:
        if check_values(value, rules, path):
            return []
        return [fields.invalid(path, _kind(value), "must not match the schema of not")]

    return check


def _kind(value: Any) -> Any:
    """Objects and lists are too long to be repeated in a message."""
    return "object" if isinstance(value, dict) else "array" if isinstance(value, list) else value
