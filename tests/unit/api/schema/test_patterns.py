"""Go's regular expressions, run by Python."""

from __future__ import annotations

import pytest

from localpv.api.schema import patterns


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^a+$", "aaa"),
        ("b", "abc"),
        (r"^\d+\z", "12"),
        ("^[[:alpha:]_]+$", "ab_c"),
        ("^[]a]+$", "]a"),
        ("^[^]a]+$", "bc"),
        ("^[$]$", "$"),
        (r"^\$$", "$"),
        (r"^\Qa.b\E$", "a.b"),
        (r"^\x{41}$", "A"),
        ("^(?P<x>a)(?<y>b)$", "ab"),
        ("(?i)^abc$", "ABC"),
        ("^[a&&b~~|[]+$", "a&b~|["),
        ("^(a|b){2,3}?$", "ab"),
        (r"^[\w.-]+$", "a.b-c"),
    ],
)
def test_a_pattern_finds_what_go_finds(pattern: str, text: str) -> None:
    assert patterns.compiled(pattern).search(text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("^a$", "a\n"), (r"^\d$", "\u0663"), (r"^\w$", "ä"), (r"^\Qa.b\E$", "axb"), ("^[[:digit:]]$", "a")],
)
def test_a_pattern_does_not_find_more(pattern: str, text: str) -> None:
    assert not patterns.compiled(pattern).search(text)


@pytest.mark.parametrize(
    "pattern",
    ["(", "[a", "(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b", r"(a)\1", "a++", "a*+", "a{2}+", "(?>a)", r"\pL", r"\p{Greek}",
     r"\Z", "[[:nonsense:]]", "*a", r"\x{110000}"],
)  # fmt: skip
def test_what_go_refuses_or_python_cannot_say_is_refused(pattern: str) -> None:
    with pytest.raises(patterns.UnusablePattern):
        patterns.compiled(pattern)
