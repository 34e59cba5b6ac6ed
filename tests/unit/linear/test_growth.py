"""What holds the parsers to their cost notices what is too steep, in time and in memory, at the sizes in use."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.linear import growth, kinds, shapes, test_bodies, test_kinds, test_texts


def test_what_grows_in_proportion_passes() -> None:
    growth.check(lambda size: "x" * size, lambda text: [one.upper() for one in text], limit=300_000, what="letters")


def looked_back(text: str) -> list[bool]:
    """Looks at all that is before, for each sign."""
    return [text[:place].isspace() for place in range(len(text))]


@pytest.mark.parametrize("parse", [looked_back, re.compile(r"\s+$").search])
def test_a_parser_that_goes_through_the_text_for_each_sign_is_noticed(parse: Callable[[str], object]) -> None:
    spaces = f"{' '!r} again and again, then {shapes.ENDS[1]!r}"
    with pytest.raises(AssertionError, match="times as long"):
        growth.check(lambda size: shapes.text(spaces, size), parse, limit=test_texts.LONGEST, what="signs")


def test_a_rule_that_compares_each_element_with_all_others_is_noticed() -> None:
    kind = kinds.find("services")
    path = next(path for path in kinds.places(kind.node) if path[-1][0] == "ports")

    def use(obj: dict[str, Any]) -> None:
        test_kinds.written(kind, obj)
        ports, fields = obj["spec"]["ports"], ("name", "port", "protocol", "targetPort")
        assert sum(port.get(field) == other.get(field) for port in ports for other in ports for field in fields)

    with pytest.raises(AssertionError, match="times as long"):
        growth.check(lambda size: kinds.obj(kind, path, size, same=False), use, limit=test_kinds.MOST, what="names")


def test_a_body_of_which_all_values_are_compared_is_noticed() -> None:
    with pytest.raises(AssertionError, match="times as long"):
        growth.check(range, lambda all_: [one for one in all_ for _ in all_], limit=test_bodies.MOST, what="pairs")


def test_what_is_too_steep_far_below_the_limit_is_noticed_there() -> None:
    with pytest.raises(AssertionError, match="for 3000, "):
        growth.check(range, lambda all_: [one for one in all_ for _ in all_], limit=30_000, what="pairs")


def test_memory_that_grows_with_the_square_is_noticed() -> None:
    with pytest.raises(AssertionError, match="times the memory"):
        growth.check_memory(lambda size: size, lambda size: bytes(size * size), limit=10_000, what="a field")
