"""No text that a client sends takes a parser more time than its length is worth."""

from __future__ import annotations

import pytest
from tests.unit.linear import growth, parsers, shapes

LONGEST = 25_000
"""Characters. A parser that is quadratic shows with as many (test_growth); a body may have a hundred times that."""


@pytest.mark.parametrize("name", sorted(parsers.PARSERS))
def test_a_text_takes_time_in_proportion_to_its_length(name: str) -> None:
    use = parsers.PARSERS[name]
    longest = LONGEST // 10 if name in parsers.SLOW else LONGEST
    for shape in shapes.SHAPES:
        growth.check(lambda size, shape=shape: shapes.text(shape, size), use, limit=longest, what=f"{name} of {shape}")


def test_every_parser_is_in_the_table() -> None:
    known = {name.partition(" ")[0] for name in parsers.PARSERS} | parsers.EXCEPTIONS.keys()
    assert sorted(set(parsers.public()) - known) == []


def test_every_exception_is_still_there() -> None:
    assert all(reason for reason in parsers.EXCEPTIONS.values())
    assert sorted(parsers.EXCEPTIONS.keys() & {name.partition(" ")[0] for name in parsers.PARSERS}) == []
