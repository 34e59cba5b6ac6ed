"""Name patterns match as Go's filepath.Match does."""

from __future__ import annotations

import time

import pytest

from localpv.config import globs
from localpv.config.globs import NamePattern


@pytest.mark.parametrize(
    ("glob", "name", "matches"),
    [
        ("abc", "abc", True),
        ("*", "abc", True),
        ("*", "", True),
        ("*c", "abc", True),
        ("a*", "a", True),
        ("a*", "ab/c", False),
        ("a*b*c*d*e*", "axbxcxdxe", True),
        ("a*b?c*x", "abxbbxdbxebxczzx", True),
        ("a*b?c*x", "abxbbxdbxebxczzy", False),
        ("ab[c]", "abc", True),
        ("ab[b-d]", "abc", True),
        ("ab[e-g]", "abc", False),
        ("ab[^c]", "abc", False),
        ("ab[^e-g]", "abc", True),
        ("a\\*b", "a*b", True),
        ("a\\*b", "ab", False),
        ("a?b", "a☺b", True),
        ("a[^a]b", "a☺b", True),
        ("a???b", "a☺b", False),
        ("[a-ζ]*", "ζ", True),
        ("*[a-ζ]", "A", False),
        ("[\\]a]", "]", True),
        ("[\\-]", "-", True),
        ("[x\\-]", "x", True),
        ("[x\\-]", "z", False),
        ("[z-a]", "m", False),
        ("*x", "xxx", True),
        ("nvme?n1", "nvme0n1", True),
        ("NVME*", "nvme0", False),
    ],
)
def test_glob_covers_the_whole_name(glob: str, name: str, matches: bool) -> None:
    assert globs.match(glob, name) is matches


@pytest.mark.parametrize("glob", ["[]a]", "[-]", "[x-]", "[-x]", "[a-b-c]", "[", "[^", "[^bc", "a[", "\\", "[\\"])
def test_malformed_glob_is_refused(glob: str) -> None:
    with pytest.raises(globs.Malformed):
        NamePattern(glob)


def test_pattern_is_a_list_of_which_one_must_match() -> None:
    pattern = NamePattern("nvme*, sd[b-z]")
    assert pattern.matches("nvme0n1")
    assert pattern.matches("sdb")
    assert not pattern.matches("sda")


@pytest.mark.parametrize(
    ("one", "two", "overlap"),
    [
        ("*", "sd*", True),
        ("nvme*", "sd*", False),
        ("*a", "b*", True),
        ("a*b", "a*c", False),
        ("sd[a-c]", "sd[c-e]", True),
        ("sd[a-b]", "sd[c-e]", False),
        ("sd[^a]", "sda", False),
        ("sd?", "sd??", False),
        ("a,b", "c,b", True),
    ],
)
def test_patterns_overlap_when_a_name_can_match_both(one: str, two: str, overlap: bool) -> None:
    assert NamePattern(one).overlaps(NamePattern(two)) is overlap
    assert NamePattern(two).overlaps(NamePattern(one)) is overlap


def test_many_stars_do_not_take_long() -> None:
    began = time.thread_time()
    assert not globs.match("a*" * 40 + "b", "a" * 500)
    assert NamePattern("*a" * 40).overlaps(NamePattern("*b" * 40 + "*"))
    assert time.thread_time() - began < 1
