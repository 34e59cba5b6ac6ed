"""Regular expressions of custom kinds, run by RE2: Go's syntax, and time that grows with the text alone."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

LARGEST_TOGETHER: Final = 600_000
"""Instructions to which all patterns of one schema may come: a quarter of a second to compile. Ordinary ones have 20 to
1,000; one with a repeated class of Unicode, such as \\pL{253}, has 300,000."""

_REFUSED: Final = 100_000
"""As what a pattern counts that was refused: finding out can take as long as compiling it."""


class UnusablePattern(ValueError):
    """RE2 refuses the expression, as Go would; the message is its own."""


def found(pattern: str, text: str) -> bool:
    """Whether the expression, which must be usable, is found in a text."""
    return _compiled(pattern).search(text) is not None


class Effort:
    """Checks the patterns of one schema, and bounds what compiling all of them costs."""

    def __init__(self) -> None:
        self._left = LARGEST_TOGETHER
        self._known: set[str] = set()

    def check(self, pattern: str) -> None:
        """UnusablePattern when it is, or when there was too much before it."""
        if pattern in self._known:
            return
        self._known.add(pattern)
        if self._left <= 0:
            raise UnusablePattern("the patterns of this schema are too large together")
        try:
            self._left -= _compiled(pattern).programsize
        except UnusablePattern:
            self._left -= _REFUSED
            raise


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    import re2  # 3.4 MB, for those who have definitions with patterns

    options = re2.Options()
    options.never_capture = True
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        said = error.args[0] if error.args else ""
        raise UnusablePattern(said.decode(errors="replace") if isinstance(said, bytes) else str(said)) from None
