"""Texts that make bad parsers slow: one sign over and over, and small pieces that look like something begun."""

from __future__ import annotations

SIGNS = " a0.,:;=!<>()[]{}\\'\"@$-_/%&*?|^~#+\n\tZé"

PIECES = (
    "a,", "a=b,", "a!=b,", "a in (b),", "!a,", "a.", "a/", "a-", "1h", "1.", "0:", "[0]", "[0,0]", "..a", ".a", "['a']",
    "[?(", "[?(@.a==1)]", "(a", "a)", "(a+", "[a", "a|", "{1,9}", "\\'", "\\\\", "a b ", "a@", "a@b,", "%20",
    "a;", "a&", "$(a)", "$$", "<a>", "\"a\" ", "1 ", "a\n", "e1", "1e", "*a", "?*",
)  # fmt: skip

STARTS = ("", "a", "[", "(", "'", '"', "@", ".", "rgb(", "1", "^(a+)+$")
ENDS = ("", "\x00")


SHAPES: dict[str, tuple[str, str, str]] = {
    **{f"{piece!r} again and again, then {end!r}": ("", piece, end) for piece in (*SIGNS, *PIECES) for end in ENDS},
    **{
        f"{start!r}, then {piece!r} again and again": (start, piece, "")
        for start in STARTS
        for piece in (" ", "a", "1", "a ")
    },
}
"""How each begins, goes on and ends, under a name that says so."""


def text(shape: str, size: int) -> str:
    """A text of about that size."""
    start, piece, end = SHAPES[shape]
    return start + piece * (size // len(piece)) + end
