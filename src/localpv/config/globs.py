"""Name patterns: lists of globs as Go's filepath.Match understands them.

`*` is any run of characters, `?` any one, `[a-c]` and `[^a-c]` one of or none of a set, and a backslash takes the next
character as it is. None of them matches a slash. A glob covers the whole name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

EVERYTHING = "*"


class Malformed(ValueError):
    """The glob cannot be read; the message says why."""


@dataclass(frozen=True, slots=True)
class Star:
    """Any run of characters, also none."""


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of ranges, or, when negated, none of them."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False

    def __contains__(self, char: str) -> bool:
        inside = any(low <= char <= high for low, high in self.ranges)
        return char != "/" and inside is not self.negated

    def meets(self, other: Chars) -> bool:
        """Whether a character may be in both; says so in doubt."""
        if self.negated and other.negated:
            return True
        ours, theirs = (other, self) if self.negated else (self, other)
        if theirs.negated:
            # A wide range is hardly covered by what is excluded; of single characters we can be sure.
            return any(low != high or low in theirs for low, high in ours.ranges)
        return any(low <= top and bottom <= high for low, high in ours.ranges for bottom, top in theirs.ranges)


ANY_CHAR = Chars((), negated=True)
Token = Star | Chars


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A comma-separated list of globs; a name matches when one of them does."""

    text: str = EVERYTHING

    def __post_init__(self) -> None:
        for glob in self.globs:
            tokens(glob)

    @property
    def globs(self) -> list[str]:
        return [glob for part in self.text.split(",") if (glob := part.strip())]

    def matches(self, name: str) -> bool:
        return any(match(glob, name) for glob in self.globs)

    def overlaps(self, other: NamePattern) -> bool:
        """Whether a name may match both; says so in doubt."""
        return any(_meet(tokens(one), tokens(two)) for one in self.globs for two in other.globs)


def match(glob: str, name: str) -> bool:
    """Whether the name, all of it, is what the glob describes."""
    wanted = tokens(glob)
    # Only the last star needs a second chance, so matching takes no more than len(glob) * len(name) steps.
    at = here = 0
    star = retry = -1
    while here < len(name):
        token = wanted[at] if at < len(wanted) else None
        if isinstance(token, Star):
            star, retry = at, here
            at += 1
        elif token is not None and name[here] in token:
            at, here = at + 1, here + 1
        elif star >= 0 and name[retry] != "/":
            retry += 1
            at, here = star + 1, retry
        else:
            return False
    return all(isinstance(token, Star) for token in wanted[at:])


@lru_cache(maxsize=256)
def tokens(glob: str) -> tuple[Token, ...]:
    """The parts of a glob; Malformed when it has none that make sense."""
    found: list[Token] = []
    chars = iter(glob)
    for char in chars:
        if char == "*":
            if not found or not isinstance(found[-1], Star):
                found.append(Star())
        elif char == "?":
            found.append(ANY_CHAR)
        elif char == "[":
            found.append(_set(chars, glob))
        else:
            literal = _next(chars, glob, "ends with a backslash") if char == "\\" else char
            found.append(Chars(((literal, literal),)))
    return tuple(found)


def _set(chars: Iterator[str], glob: str) -> Chars:
    unclosed = "has a [ without its ]"
    char = _next(chars, glob, unclosed)
    negated = char == "^"
    if negated:
        char = _next(chars, glob, unclosed)
    ranges: list[tuple[str, str]] = []
    while char != "]" or not ranges:
        low = _member(char, chars, glob)
        char = _next(chars, glob, unclosed)
        high = low
        if char == "-":
            high = _member(_next(chars, glob, unclosed), chars, glob)
            char = _next(chars, glob, unclosed)
        # A range that runs backwards holds nothing, which is no mistake to Go.
        ranges.append((low, high))
    return Chars(tuple(ranges), negated)


def _member(char: str, chars: Iterator[str], glob: str) -> str:
    if char == "\\":
        return _next(chars, glob, "has a [ without its ]")
    if char in "-]":
        raise Malformed(f'"{glob}" has {char} in a set where a character is expected; write \\{char}')
    return char


def _next(chars: Iterator[str], glob: str, trouble: str) -> str:
    for char in chars:
        return char
    raise Malformed(f'"{glob}" {trouble}')


def _meet(one: tuple[Token, ...], two: tuple[Token, ...]) -> bool:
    """Whether some name matches both: walk all pairs of positions that a common name could lead to."""
    todo, seen = [(0, 0)], {(0, 0)}
    while todo:
        i, j = todo.pop()
        if i == len(one) and j == len(two):
            return True
        a = one[i] if i < len(one) else None
        b = two[j] if j < len(two) else None
        steps: list[tuple[int, int]] = []
        if isinstance(a, Star):
            steps += [(i + 1, j)] if b is None else [(i + 1, j), (i, j + 1)]
        if isinstance(b, Star):
            steps += [(i, j + 1)] if a is None else [(i, j + 1), (i + 1, j)]
        if isinstance(a, Chars) and isinstance(b, Chars) and a.meets(b):
            steps.append((i + 1, j + 1))
        for step in steps:
            if step not in seen:
                seen.add(step)
                todo.append(step)
    return False


ALL = NamePattern()
