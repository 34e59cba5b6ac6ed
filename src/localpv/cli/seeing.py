"""Seeing a cleaning through to its end: a bar on a terminal, elsewhere a line for each step."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import click

from localpv import errors
from localpv.api.kinds.localdisk import Cleaning, CleaningState, LocalDisk
from localpv.cli import common, describe, watching
from localpv.cli.bars import Bars
from localpv.client.client import Client
from localpv.client.informer import SharedInformer
from localpv.client.objects import Selection

SILENT_SECONDS = 10.0
"""After this long without a sign of the agent a person is told where to look."""


async def until_verified(client: Client, disk: LocalDisk) -> None:
    """Show the cleaning that the disk has an order for until it is verified."""
    order = disk.spec.clean
    if order is None:
        return
    name = describe.short_name(disk)
    only = Selection(fields=f"metadata.name={disk.metadata.name}")
    with common.asking("watch", LocalDisk.resource):
        async with watching.following(client.objects(LocalDisk), only) as informer, _bar(informer, disk) as say:
            story = Story()
            async for now in _changes(informer, disk, on_silence=lambda: say(_silence(disk))):
                if now is None:
                    raise errors.ConfigurationError(
                        f"the record of {name} is gone", hint="see whether the disk is there: localpv disks"
                    )
                cleaning = now.status.cleaning
                mine = cleaning is not None and cleaning.volume_uid == order.volume_uid
                if mine and cleaning is not None and (line := story.line(cleaning)):
                    say(line)
                if mine and cleaning is not None and cleaning.state == CleaningState.VERIFIED:
                    break
                if now.spec.clean is None or now.spec.clean.volume_uid != order.volume_uid:
                    raise errors.ConfigurationError(
                        f"somebody took the order to wipe {name} back",
                        hint=f"see: localpv explain {disk.metadata.name}",
                    )
    click.echo(f"{name} is clean.")


class Story:
    """What to tell of a cleaning: each state once, and progress by tenths."""

    def __init__(self) -> None:
        self._told: tuple[object, ...] = ()

    def line(self, cleaning: Cleaning) -> str:
        chapter = _chapter(cleaning)
        if chapter == self._told:
            return ""
        self._told = chapter
        return describe.state(cleaning)


def _chapter(cleaning: Cleaning) -> tuple[object, ...]:
    tenths = 10 * cleaning.bytes_done // cleaning.bytes_total if cleaning.bytes_total else 0
    if cleaning.state != CleaningState.RUNNING:
        tenths = 0
    return cleaning.state, cleaning.attempt, cleaning.step, cleaning.error, tenths


async def _changes(
    informer: SharedInformer[LocalDisk], disk: LocalDisk, *, on_silence: Callable[[], None]
) -> AsyncIterator[LocalDisk | None]:
    """The disk as it is, each time it changes; None when its record is gone."""
    changed = asyncio.Event()
    informer.add_event_handler(lambda _old, _new: changed.set())
    silent = True
    while True:
        changed.clear()
        now = informer.get(disk.metadata.name)
        yield now
        try:
            # The first sign comes at once from an agent that runs.
            async with asyncio.timeout(SILENT_SECONDS if silent else None):
                await changed.wait()
            silent = False
        except TimeoutError:
            silent = False
            if now is not None and describe.current(now) is None:
                on_silence()


def _silence(disk: LocalDisk) -> str:
    node = disk.spec.node_name
    return f"the agent has not begun yet; see that it runs on node {node} (Ctrl-C leaves the order standing)"


@contextlib.asynccontextmanager
async def _bar(informer: SharedInformer[LocalDisk], disk: LocalDisk) -> AsyncIterator[Callable[[str], None]]:
    """How to say something: above a bar that moves by itself, or just on the next line."""
    name = describe.short_name(disk)
    if not common.on_terminal():
        yield lambda text: click.echo(f"{name}: {text}")
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    bars = Bars(columns=console.width)

    def draw() -> None:
        bars.show([now] if (now := informer.get(disk.metadata.name)) else [])
        live.update(bars.progress, refresh=True)

    def say(text: str) -> None:
        # What the bar shows needs no line.
        if not text.startswith(("being wiped", "wiped and verified")):
            live.console.print(f"{name}: {text}", markup=False)

    async def keep_drawing() -> None:
        while True:
            draw()
            await asyncio.sleep(watching.REFRESH)

    with Live(console=console, auto_refresh=False) as live:
        task = asyncio.create_task(keep_drawing())
        try:
            yield say
            draw()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
