"""What is wrong with a YAML text, in words for the person who wrote it."""

from __future__ import annotations


def trouble(error: Exception, *, lines_before: int = 0) -> str:
    """`line 3: expected ',' or '}', but got the end of the file`: the parser's words, without its excerpt.

    `lines_before` are those of the file that the parser was not given.
    """
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None)
    if mark is None or not problem:
        return " ".join(str(getattr(error, "strerror", None) or error).split())
    context = getattr(error, "context", None)
    words = f"{problem} ({context})" if context else problem
    return f"line {mark.line + 1 + lines_before}: {words}".replace("'<stream end>'", "the end of the file")
