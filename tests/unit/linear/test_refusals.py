"""However many things are wrong with a body, and however long they are: what is told of them is short."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from tests.unit.linear import growth, kinds
from tests.unit.linear.test_kinds import PLURALS, where

from localpv.api import fields, media_types, names, status
from localpv.api.fields import FieldError
from localpv.api.managed import apply as server_side
from localpv.api.schema import structural, walk
from localpv.api.schema.node import Node, Type
from localpv.engine.apiserver import body
from localpv.engine.apiserver.call import Call
from localpv.engine.apiserver.registry import Kind
from localpv.engine.apiserver.verbs import patch as patching
from localpv.errors import ApiError

LARGEST_ANSWER = 150 << 10
"""Bytes. A hundred findings with the longest paths, written twice."""

MOST_TEXT = 2 << 20
"""Characters of all errors together, the untold ones too: they are in memory at once. Eight times the body."""

MOST_MEMORY = 16 << 20
"""Bytes that a refusal may take beside the body."""

LARGEST_BODY = 256 << 10
"""Bytes. What says again all that is wrong with it is too long an answer by far."""

LONG = "Wrong / " * 200
MANY = 250

Wrong = Callable[[Node, int], Any]
WRONG: dict[str, Wrong] = {
    "long texts": lambda node, number: _wrong(node, iter((f"{number}{LONG}",))),
    "slashes": lambda node, number: _wrong(node, iter(("/" * len(LONG),))),
    "the same short text": lambda node, number: _wrong(node, iter(("a",))),
    "other types": lambda node, number: {LONG: number} if node.type is Type.LIST else [[LONG]],
    "unknown fields": lambda node, number: {**_named(node), f"{number}{LONG}": 1},
    "many unknown fields": lambda node, number: {**_named(node), **_unknown(1 if number else 5_000)},
}


def _unknown(count: int) -> dict[str, Any]:
    return dict.fromkeys(map(str, range(count)))


def _named(node: Node) -> dict[str, Any]:
    return {name: LONG for name in ("name", "key", "ip", "type") if name in node.fields}


def _wrong(node: Node, texts: Iterator[str], depth: int = 2) -> Any:
    """A value that no rule likes, with one long text."""
    match node.type:
        case Type.STRING | Type.ANY | Type.QUANTITY | Type.INT_OR_STRING:
            return next(texts, "/")
        case Type.INTEGER | Type.NUMBER:
            return -1
        case Type.BOOLEAN:
            return True
        case Type.STRUCT if depth:
            return {name: _wrong(child, texts, depth - 1) for name, child in node.fields.items()}
        case Type.LIST:
            return []
        case _:
            return {}


def _obj(kind: Kind, path: kinds.Path, wrong: Wrong) -> dict[str, Any]:
    made = kinds.obj(kind, path, 0, same=True)
    at: Any = made
    for name, node in path[:-1]:
        at = at[name]
        if node.type is not Type.STRUCT:
            at = at[0] if node.type is Type.LIST else next(iter(at.values()))
    name, node = path[-1]
    assert node.items is not None
    elements = [wrong(node.items, 0)]
    left = LARGEST_BODY - len(msgspec.json.encode(elements))
    for number in range(1, MANY):
        elements.append(wrong(node.items, number))
        left -= len(msgspec.json.encode(elements[-1]))
        if left < 0:
            break
    at[name] = elements if node.type is Type.LIST else {f"{n}{LONG}": each for n, each in enumerate(elements)}
    return made


def answer(use: Callable[[], object]) -> int:
    """Bytes of the refusal; none for what is let through."""
    try:
        use()
    except ApiError as error:
        return len(msgspec.json.encode(status.to_status(error)))
    return 0


def _created(kind: Kind, obj: dict[str, Any]) -> None:
    call = Call(kind=kind, namespace="d", field_validation="Strict")
    body.take_in(obj, call, msgspec.json.encode(obj))
    strategy = kind.strategy
    strategy.default(obj)
    strategy.prepare_for_create(obj)
    wrong = names.validate_object_meta(
        obj["metadata"], namespaced=kind.resource.namespaced, check_name=strategy.validate_name
    )
    wrong += [*strategy.validate(obj), *strategy.validate_create(obj)]
    built = sum(len(error.field) + len(error.message) for error in wrong)
    assert built < MOST_TEXT, f"{len(wrong)} errors with {built} characters, such as {str(wrong[-1])[:2000]}"
    if wrong:
        raise status.invalid(kind.resource.kind, kind.resource.group, "a", wrong)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("plural", PLURALS)
def test_what_is_told_of_a_wrong_object_is_short(plural: str) -> None:
    kind = kinds.find(plural)
    resource = kind.resource
    for path in where(plural):
        for shape, wrong in WRONG.items():
            what = f"{plural} with {shape} in {'.'.join(name for name, _ in path)}"
            applied = _obj(kind, path, wrong)
            told = answer(
                lambda obj=applied: server_side.check_fits(  # type: ignore[misc]
                    obj, kind.node, api_version=resource.api_version, kind=resource.kind
                )
            )
            assert told < LARGEST_ANSWER, f"{what}, applied"
            assert answer(lambda obj=applied: _created(kind, obj)) < LARGEST_ANSWER, what  # type: ignore[misc]


def _pod(**container: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [container]}}


def _strict(raw: bytes, media_type: str) -> None:
    call = Call(kind=kinds.find("pods"), namespace="d", field_validation="Strict")
    findings = patching.strict_findings(body.decode_json(raw), raw, media_type)
    body.take_in_patched(_pod(name="a"), call, findings, patch=raw)


def _applied(obj: Any, plural: str = "pods") -> None:
    kind = kinds.find(plural)
    server_side.check_fits(obj, kind.node, api_version=kind.resource.api_version, kind=kind.resource.kind)


def _contested(count: int, key: str) -> None:
    node = kinds.find("configmaps").node
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "data": {f"{number}{key}": "a" for number in range(count)}}
    live: Any = None
    for value, manager in (("a", "one" * 40), ("b", "two")):
        wanted = {**obj, "data": dict.fromkeys(obj["data"], value)}
        live = server_side.apply(
            live, wanted, node, manager=manager, force=False, time="2026-01-01T00:00:00Z", api_version="v1"
        )


def _valued(schema: dict[str, Any], value: Any) -> None:
    found = walk.check_values(value, structural.build({"type": "object", **schema}), LONG)
    assert len(found) <= 2 * fields.MOST
    raise status.invalid("A", "b", "c", found)


_TEXTS = {"type": "object", "additionalProperties": {"type": "string", "maxLength": 1}}
_MANY_TEXTS = {str(number): LONG[:50] for number in range(5000)}

REFUSED: dict[str, Callable[[], object]] = {
    "apply: unknown fields of an element with a long name": lambda: _applied(
        _pod(name=LONG, **dict.fromkeys(map(str, range(45_000))))
    ),
    "apply: duplicates with a long name": lambda: _applied(
        {**_pod(name="a"), "spec": {"containers": [{"name": LONG}] * 1500}}
    ),
    "apply: wrong values that are long": lambda: _applied(
        _pod(name=LONG, args=[[LONG]] * 1000, command=[{LONG: LONG}] * 500)
    ),
    "apply: a long object in place of a text": lambda: _applied(_pod(name="a", image=dict.fromkeys(_MANY_TEXTS, LONG))),
    "apply: conflicts": lambda: _contested(20_000, "k" * 20),
    "apply: conflicts with long names": lambda: _contested(800, LONG),
    "JSON patch: unknown fields": lambda: _strict(
        json.dumps([{"op": "test", **dict.fromkeys(map(str, range(40_000)))}]).encode(), media_types.JSON_PATCH
    ),
    "JSON patch: long unknown fields": lambda: _strict(
        json.dumps([{"op": "test", f"{n}{LONG}": 1} for n in range(1000)]).encode(), media_types.JSON_PATCH
    ),
    "merge patch: repeated fields": lambda: _strict(
        b'{"' + LONG.encode() + b'":{' + b",".join(b'"a":1' for _ in range(40_000)) + b"}}", media_types.MERGE_PATCH
    ),
    "schema: required fields": lambda: _valued({"required": [f"{n}{LONG}" for n in range(1000)]}, {}),
    "schema: branches of anyOf": lambda: _valued({"anyOf": [_TEXTS] * 50}, dict(_MANY_TEXTS)),
    "schema: branches of oneOf": lambda: _valued({"oneOf": [_TEXTS] * 50}, dict(_MANY_TEXTS)),
    "schema: branches of allOf": lambda: _valued({"allOf": [_TEXTS] * 50}, dict(_MANY_TEXTS)),
    "schema: a set": lambda: _valued(
        {"properties": {"a": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}},
        {"a": [str(number // 2) for number in range(40_000)]},
    ),
}


@pytest.mark.parametrize("how", REFUSED)
def test_a_refusal_is_short_and_takes_little_memory(how: str) -> None:
    told: list[int] = []
    took = growth.memory(lambda: None, lambda _: told.append(answer(REFUSED[how])))
    assert 0 < told[0] < LARGEST_ANSWER
    assert took < MOST_MEMORY


def test_a_long_value_is_shown_by_its_beginning() -> None:
    assert fields.shown("x" * 10**6) == '"' + "x" * (fields.LONGEST_SHOWN - 1) + "…"
    assert fields.shown({"a": [1, True, None, "é", {"b": 1.5}]}) == '{"a":[1,true,null,"\\u00e9",{"b":1.5}]}'
    assert len(fields.shown([["x" * 10**6]] * 10**4)) == fields.LONGEST_SHOWN + 1


def test_at_least_one_error_is_told_however_long_it_is() -> None:
    long = FieldError("a", "b", "c" * fields.MOST_TEXT * 2)
    assert fields.told([long, long]) == [long]
    assert len(fields.told([FieldError("a", "b", "c")] * 1000)) == fields.MOST
