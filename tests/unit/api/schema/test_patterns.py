"""Go's regular expressions, run by RE2."""

from __future__ import annotations

import re

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
    assert patterns.found(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("^a$", "a\n"), (r"^\d$", "\u0663"), (r"^\w$", "ä"), (r"^\Qa.b\E$", "axb"), ("^[[:digit:]]$", "a")],
)
def test_a_pattern_does_not_find_more(pattern: str, text: str) -> None:
    assert not patterns.found(pattern, text)


@pytest.mark.parametrize(("pattern", "text"), [(r"^\pL+$", "äa"), (r"^\p{Greek}$", "λ"), ("^[[:^digit:]]$", "a")])
def test_a_pattern_may_name_classes_of_characters(pattern: str, text: str) -> None:
    assert patterns.found(pattern, text)
    assert not patterns.found(pattern, "1")


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "missing )"),
        ("[a", "missing ]"),
        ("(?=a)", "invalid perl operator"),
        ("(?<!a)b", "invalid"),
        (r"(a)\1", "invalid escape sequence"),
        ("a++", "bad repetition operator"),
        ("(?>a)", "invalid perl operator"),
        (r"\Z", "invalid escape sequence"),
        ("[[:nonsense:]]", "invalid character class range"),
        ("*a", "no argument for repetition operator"),
        (r"\x{110000}", "invalid escape sequence"),
        ("a{1001}", "invalid repetition size"),
    ],
)
def test_what_go_refuses_is_refused_in_the_words_of_re2(pattern: str, words: str) -> None:
    with pytest.raises(patterns.UnusablePattern, match=re.escape(words)):
        patterns.Effort().check(pattern)


def test_the_expressions_of_strangers_take_time_that_grows_with_the_text_alone() -> None:
    # A hundred thousand characters; twenty-six were enough for seconds before.
    assert not patterns.found("^(a+)+$", "a" * 100_000 + "b")


def test_a_schema_cannot_have_patterns_that_take_long_to_compile_together() -> None:
    effort = patterns.Effort()
    effort.check(r"\pL{250}")
    effort.check(r"\pL{250}")  # twice the same is compiled once
    effort.check(r"\pL{251}")
    effort.check(r"\pL{252}")
    with pytest.raises(patterns.UnusablePattern, match="too large together"):
        effort.check("a")


def test_patterns_that_are_refused_count_as_well() -> None:
    effort = patterns.Effort()
    for size in range(1001, 1007):
        with pytest.raises(patterns.UnusablePattern, match="repetition"):
            effort.check(f"a{{{size}}}")
    with pytest.raises(patterns.UnusablePattern, match="too large together"):
        effort.check("a")
