"""Parts of what a client sent are of the type that is expected, or are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from localpv.engine.apiserver.auth import bodies, rbac
from localpv.errors import BadRequest


@pytest.mark.parametrize(
    ("read", "right", "missing", "wrong"),
    [
        (bodies.mapping, {"a": 1}, None, ["x", 1, [], True]),
        (bodies.text, "x", "", [1, [], {}, True]),
        (bodies.texts, ["x"], [], ["x", 1, {}, [1], ["x", None]]),
        (lambda obj, key: bodies.integer(obj, key, 7), 3, 7, ["3", 1.5, True, [], {}]),
        (bodies.extra, {"a": ["b"]}, {}, ["x", {"a": "b"}, {"a": [1]}]),
    ],
    ids=["mapping", "text", "texts", "integer", "extra"],
)
def test_part_of_a_body_has_its_type_or_is_refused(
    read: Callable[[dict[str, Any], str], Any], right: Any, missing: Any, wrong: list[Any]
) -> None:
    read_right = read({"part": right}, "part")
    assert read_right == ({"a": ("b",)} if right == {"a": ["b"]} else right)
    assert read({}, "part") == read({"part": None}, "part") == missing
    for value in wrong:
        with pytest.raises(BadRequest, match="must be"):
            read({"part": value}, "part")


def test_one_error_is_told_as_it_is_and_several_in_brackets() -> None:
    assert rbac.summed_up(["a"]) == "a"
    assert rbac.summed_up(["a", "b"]) == "[a, b]"
