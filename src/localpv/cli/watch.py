"""`localpv disks --watch`: a picture that stays up to date on a terminal, elsewhere a line for each change."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from localpv.api.kinds.localdisk import LocalDisk
from localpv.api.objects import Object
from localpv.cli import common, describe, disks, progress, tables
from localpv.cli.progress import Bars
from localpv.client.client import Client
from localpv.client.informer import SharedInformer
from localpv.client.objects import Objects, Selection

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


T = TypeVar("T")


FASTEST = 0.1
"""Seconds between two pictures: a hundred disks that report at once make one."""

GIVING_WAY = ("LOCALDISK", "SERIAL", "PATH", "MODEL", "MEDIUM", "TYPE", "CLASS", "SIZE", "VOLUME")
"""Columns that a narrow screen goes without, first to last."""

STEP_PERCENT = 10
"""Progress is a line of its own each time it has come this far: a log is read later, not watched."""


async def follow(client: Client, selection: Selection, form: str) -> None:
    """Show until cancelled."""
    if form in ("json", "yaml"):
        await _objects(client.untyped(LocalDisk.resource), selection, form)
    elif common.on_terminal():
        await _screen(client.objects(LocalDisk), selection, wide=form == "wide")
    else:
        await _lines(client.objects(LocalDisk), selection, wide=form == "wide")


async def _screen(objects: Objects[LocalDisk], selection: Selection, *, wide: bool) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    async with progress.following(objects, selection) as informer:
        changed = asyncio.Event()
        informer.add_event_handler(lambda _old, _new: changed.set())
        bars = Bars(columns=console.width)
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            while True:
                changed.clear()
                live.update(picture(informer, bars, console, wide=wide), refresh=True)
                await asyncio.sleep(FASTEST)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(progress.REFRESH):
                        await changed.wait()


def picture(informer: SharedInformer[LocalDisk], bars: Bars, console: Console, *, wide: bool) -> RenderableType:
    """Head, bars, and as much of the table as the screen has room for."""
    from rich.console import Group
    from rich.text import Text

    found = disks.in_order(informer.list())
    bars.show(found)
    parts: list[RenderableType] = [Text(headline(found), style="bold", no_wrap=True, overflow="ellipsis")]
    if informer.trouble is not None:
        parts.append(Text(f"out of date: {informer.trouble.message}", style="red", no_wrap=True, overflow="ellipsis"))
    if len(bars):
        parts += [Text(""), bars.progress, Text("")]
    room = max(2, console.height - len(bars) - len(parts) - 3)
    layout = fitting(found, console.width, wide=wide)
    parts.append(Text(layout.head(), style="dim", no_wrap=True, overflow="ellipsis"))
    for disk in found[:room]:
        line = Text.from_ansi(layout.row(disk, colour=True))
        line.no_wrap, line.overflow = True, "ellipsis"
        parts.append(line)
    if len(found) > room:
        parts.append(Text(f"and {len(found) - room} more; --node or --class shows fewer", style="dim"))
    return Group(*parts)


def fitting(found: Sequence[LocalDisk], width: int, *, wide: bool) -> tables.Layout[LocalDisk]:
    """The columns that a screen has room for: what a disk is gives way to what happens to it."""
    columns = list(disks.COLUMNS)
    layout = tables.Layout(columns, found, wide=wide)
    for head in GIVING_WAY:
        if layout.width <= width:
            break
        columns = [column for column in columns if column.head != head]
        layout = tables.Layout(columns, found, wide=wide)
    return layout


def headline(found: Sequence[LocalDisk]) -> str:
    """`12 disks on 3 nodes: 4 InUse, 8 Published   Ctrl-C stops`"""
    nodes = len({disk.spec.node_name for disk in found})
    phases = Counter(disk.status.phase or "new" for disk in found)
    counted = ", ".join(f"{count} {phase}" for phase, count in sorted(phases.items()))
    total = f"{len(found)} {'disk' if len(found) == 1 else 'disks'} on {nodes} {'node' if nodes == 1 else 'nodes'}"
    return f"{total}{': ' + counted if counted else ''}   Ctrl-C stops"


class Lines:
    """What a log should have of each disk: a line when one of its cells changes, or a good piece was wiped."""

    COLUMNS = (*disks.COLUMNS[:10], tables.Column[LocalDisk]("PROGRESS", lambda disk: _progress(disk)))

    def __init__(self, found: Sequence[LocalDisk], *, wide: bool) -> None:
        columns = (*self.COLUMNS, *(column for column in disks.COLUMNS if column.wide)) if wide else self.COLUMNS
        self._layout = tables.Layout(columns, found, wide=wide)
        self._coarse = tables.Layout(disks.COLUMNS[:10], found)
        self._told: dict[str, tuple[str, str, int]] = {}

    def head(self) -> str:
        return self._layout.head()

    def line(self, disk: LocalDisk) -> str | None:
        """The line to print now, if there is something to tell."""
        cleaning = describe.current(disk)
        tenths = 0
        if cleaning is not None and cleaning.bytes_total:
            tenths = 100 * cleaning.bytes_done // cleaning.bytes_total // STEP_PERCENT
        told = (self._coarse.row(disk), f"{cleaning.state} {cleaning.attempt}" if cleaning else "", tenths)
        if self._told.get(disk.metadata.name) == told:
            return None
        self._told[disk.metadata.name] = told
        return self._layout.row(disk)

    def gone(self, disk: LocalDisk) -> str:
        self._told.pop(disk.metadata.name, None)
        return f"{self._coarse.row(disk)}  (gone)"


def _progress(disk: LocalDisk) -> str:
    cleaning = describe.current(disk)
    return describe.state(cleaning) if cleaning else ""


async def _lines(objects: Objects[LocalDisk], selection: Selection, *, wide: bool) -> None:
    async with progress.following(objects, selection) as informer:
        found = disks.in_order(informer.list())
        lines = Lines(found, wide=wide)
        click.echo(lines.head())
        for disk in found:
            click.echo(lines.line(disk))
        changes: asyncio.Queue[tuple[LocalDisk | None, LocalDisk | None]] = asyncio.Queue()
        informer.add_event_handler(lambda old, new: changes.put_nowait((old, new)))
        while True:
            old, new = await changes.get()
            if new is not None:
                if line := lines.line(new):
                    click.echo(line)
            elif old is not None:
                click.echo(lines.gone(old))


async def _objects(objects: Objects[Object], selection: Selection, form: str) -> None:
    """Each object as it is, whenever it changes: JSON on a line, or YAML documents."""
    async with progress.following(objects, selection) as informer:
        changes: asyncio.Queue[Object] = asyncio.Queue()
        informer.add_event_handler(lambda _, new: changes.put_nowait(new) if new is not None else None)
        while True:
            obj = common.plain(await changes.get())
            click.echo(
                json.dumps(obj, ensure_ascii=False) if form == "json" else f"---\n{common.as_yaml(obj)}".rstrip()
            )
