"""Fields that a body has twice."""

from __future__ import annotations

import pytest

from localpv.api.schema import walk


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"a": 1, "b": {"a": 2}}', []),
        (b'{"spec": {}, "spec": {}}', ["spec"]),
        (b'{"spec": {"a": 1, "a": 2, "a": 3}}', ["spec.a"]),
        (b'{"spec": {"l": [{"n": 1}, {"n": 1, "n": 2}]}}', ["spec.l[1].n"]),
        (b'{"m": {"name": 1, "name": 2}, "s": {"x": 1, "x": 2}}', ["m.name", "s.x"]),
        (b'{"a": {"x": 1, "x": 2}, "a": {"x": 1, "x": 2}}', ["a.x", "a"]),
        (b'[{"a": 1, "a": 2}]', ["[0].a"]),
        (b"[]", []),
        (b"{", []),
        (b"", []),
        (b"\xff", []),
    ],
)
def test_fields_that_occur_twice_are_named_once(body: bytes, found: list[str]) -> None:
    assert walk.duplicate_fields(body) == found


def test_a_body_nested_without_end_does_no_harm() -> None:
    assert walk.duplicate_fields(b'{"a":' * 100_000 + b"1" + b"}" * 100_000) == []
