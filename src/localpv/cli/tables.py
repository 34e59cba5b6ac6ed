"""Tables as people know them from lsblk and kubectl: columns of text, coloured on terminals only."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar

import click

from localpv.api.kinds.localdisk import Phase
from localpv.api.kinds.meta import read_time

T = TypeVar("T")

COLOURS = {
    Phase.UNAVAILABLE: "bright_black",
    Phase.AVAILABLE: "green",
    Phase.PUBLISHED: "green",
    Phase.IN_USE: "cyan",
    Phase.RELEASING: "yellow",
    Phase.CLEANING: "yellow",
    Phase.CLEAN_FAILED: "red",
    Phase.MISSING: "red",
    # Phases of volumes, where they are not those of disks.
    "Bound": "cyan",
    "Released": "yellow",
    "Failed": "red",
}
GAP = "  "


@dataclass(frozen=True)
class Column(Generic[T]):
    head: str
    text: Callable[[T], str]
    wide: bool = False
    """Whether only wide tables have it."""

    right: bool = False
    """Whether it is a number, whose digits should stand below each other."""


class Layout(Generic[T]):
    """Widths that were chosen once, so that lines which come later stand below the first ones."""

    def __init__(self, columns: Sequence[Column[T]], items: Iterable[T], *, wide: bool = False) -> None:
        self._columns = [column for column in columns if wide or not column.wide]
        rows = [self._cells(item) for item in items]
        self._widths = [
            max(len(column.head), *(width(row[place]) for row in rows)) if rows else len(column.head)
            for place, column in enumerate(self._columns)
        ]

    @property
    def width(self) -> int:
        """Columns of the screen that a full line takes."""
        return sum(self._widths) + len(GAP) * (len(self._widths) - 1)

    def head(self) -> str:
        return self._line([column.head for column in self._columns], colour=False)

    def row(self, item: T, *, colour: bool = False) -> str:
        return self._line(self._cells(item), colour=colour)

    def _cells(self, item: T) -> list[str]:
        return [shown(column.text(item)) for column in self._columns]

    def _line(self, cells: Sequence[str], *, colour: bool) -> str:
        parts = []
        for column, cell, wanted in zip(self._columns, cells, self._widths, strict=True):
            padding = " " * (wanted - width(cell))
            styled = click.style(cell, fg=COLOURS[cell]) if colour and cell in COLOURS else cell
            parts.append(padding + styled if column.right else styled + padding)
        return GAP.join(parts).rstrip()


def write(columns: Sequence[Column[T]], items: Sequence[T], *, wide: bool, colour: bool) -> None:
    layout = Layout(columns, items, wide=wide)
    click.echo("\n".join([layout.head(), *(layout.row(item, colour=colour) for item in items)]), color=colour)


def shown(text: str) -> str:
    """A cell: names of files may hold what would move the cursor or recolour the screen of whoever looks."""
    return "".join(char if char.isprintable() else "?" for char in text)


def width(text: str) -> int:
    """Columns that a text takes on the screen."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def age(moment: str | None, *, now: datetime | None = None) -> str:
    """How long ago, in one unit: 45s, 12m, 7h, 3d."""
    if not moment:
        return ""
    seconds = max(0, int(((now or datetime.now(UTC)) - read_time(moment)).total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
