"""Fields that a body has twice."""

from __future__ import annotations

import pytest

from localpv.api.schema import walk
from localpv.api.schema.catalogue import Catalogue
from localpv.api.schema.duplicates import MOST_FINDINGS


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


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"spec": {"a": {"x": 1, "x": 2}, "hostname": "a", "hostname": "b", "a": 1}}', ["spec.a", "spec.hostname"]),
        (
            b'{"metadata": {"labels": {"a": "1", "a": "2"}, "name": "x", "name": "y"}}',
            ["metadata.labels.a", "metadata.name"],
        ),
        (
            b'{"spec": {"containers": [{"nam": 1, "name": 2, "name": 3}]}}',
            ["spec.containers[0].nam", "spec.containers[0].name"],
        ),
        (b'{"spec": {}, "spec": []}', ["spec"]),
        (b"{", []),
    ],
)
def test_of_built_in_kinds_the_unknown_and_the_repeated_are_told_in_one_order(body: bytes, found: list[str]) -> None:
    told = walk.findings(body, Catalogue().node("io.k8s.api.core.v1.Pod"))
    assert [text.split('"')[1] for text in told] == found


def test_no_more_is_told_than_anybody_reads() -> None:
    body = b"{" + b",".join(b'"k%d": 1' % number for number in range(1000)) + b"}"
    assert len(walk.findings(body, Catalogue().node("io.k8s.api.core.v1.Pod"))) == MOST_FINDINGS
