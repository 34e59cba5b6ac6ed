"""Progress of disks that are being wiped: bars on a terminal, elsewhere a line for each step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from localpv.api.kinds.localdisk import Cleaning, CleaningState, LocalDisk, size_text
from localpv.cli import describe

if TYPE_CHECKING:
    from rich.progress import TaskID
import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TypeVar

import click

from localpv import errors
from localpv.cli import common
from localpv.client.client import Client
from localpv.client.informer import SharedInformer
from localpv.client.objects import Objects, Selection
from localpv.runtime.clock import Clock, SystemClock

LINGER_SECONDS = 10.0
"""How long a bar stays after its end: people look away."""

NARROW = 100
"""Columns of a terminal below which speed and rest of the time give way to the bar."""

_STYLES = {
    CleaningState.WAITING: "yellow",
    CleaningState.RUNNING: "cyan",
    CleaningState.FAILED: "red",
    CleaningState.VERIFIED: "green",
}

T = TypeVar("T")

SILENT_SECONDS = 10.0
"""After this long without a sign of the agent a person is told where to look."""

REFRESH = 0.5
"""Seconds after which a picture is drawn again although nothing changed: ages and ends of bars go on."""


class Bars:
    """A bar for each disk with an order to clean; `progress` is what rich draws."""

    def __init__(self, *, columns: int, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn

        self._clock = clock
        self._tasks: dict[str, TaskID] = {}
        self._ended: dict[str, float] = {}
        shown: list[ProgressColumn] = [
            TextColumn("{task.description}", markup=False),
            TextColumn("[{task.fields[style]}]{task.fields[word]}"),
            BarColumn(bar_width=None if columns < NARROW else 30),
            TextColumn("{task.fields[percent]}", justify="right"),
            TextColumn("{task.fields[amount]}", justify="right"),
        ]
        if columns >= NARROW:
            shown += [TextColumn(f"{{task.fields[{name}]}}", justify="right") for name in ("speed", "rest")]
        self.progress = Progress(*shown, auto_refresh=False, expand=columns < NARROW, get_time=clock)

    def __len__(self) -> int:
        return len(self._tasks)

    def show(self, disks: Iterable[LocalDisk]) -> None:
        """Bring the bars in line with the disks as they are now."""
        seen = set()
        for disk in disks:
            name, cleaning = disk.metadata.name, describe.current(disk)
            if cleaning is None:
                # The manager takes an order back once it is done, which may be before we saw the end.
                cleaning = self._last(disk)
            if cleaning is None:
                continue
            seen.add(name)
            self._draw(disk, cleaning)
        for name in [name for name in self._tasks if name not in seen or self._over(name)]:
            self.progress.remove_task(self._tasks.pop(name))

    def _last(self, disk: LocalDisk) -> Cleaning | None:
        last = disk.status.cleaning
        if disk.metadata.name in self._tasks and last is not None and last.state == CleaningState.VERIFIED:
            return last
        return None

    def _over(self, name: str) -> bool:
        ended = self._ended.get(name)
        return ended is not None and self._clock() - ended > LINGER_SECONDS

    def _draw(self, disk: LocalDisk, cleaning: Cleaning) -> None:
        name, state = disk.metadata.name, cleaning.state
        if state != CleaningState.VERIFIED:
            self._ended.pop(name, None)
        elif self._ended.setdefault(name, self._clock()) and self._over(name):
            return
        total = float(cleaning.bytes_total) or None
        done = float(cleaning.bytes_done)
        if state == CleaningState.VERIFIED:
            total = total or 1.0
            done = total
        if name not in self._tasks:
            self._tasks[name] = self.progress.add_task(
                describe.short_name(disk), total=total, completed=int(done), **_fields(cleaning, 0.0)
            )
        task = self._tasks[name]
        speed = next((each.speed for each in self.progress.tasks if each.id == task), None) or 0.0
        self.progress.update(task, total=total, completed=done, **_fields(cleaning, speed))


def _fields(cleaning: Cleaning, speed: float) -> dict[str, Any]:
    """The texts beside a bar."""
    known = cleaning.state == CleaningState.RUNNING and cleaning.bytes_total > 0 and speed >= 1
    word = {
        CleaningState.WAITING: cleaning.reason or "waiting",
        CleaningState.RUNNING: cleaning.step or "wiping",
        CleaningState.FAILED: f"failed: {cleaning.reason}" if cleaning.reason else "failed",
        CleaningState.VERIFIED: "verified",
    }.get(CleaningState(cleaning.state), cleaning.state)
    if cleaning.attempt > 1 and cleaning.state != CleaningState.VERIFIED:
        word += f" (attempt {cleaning.attempt})"
    if cleaning.bytes_total:
        amount = f"{size_text(cleaning.bytes_done)}/{size_text(cleaning.bytes_total)}"
        percent = f"{100 * cleaning.bytes_done // cleaning.bytes_total}%"
    else:
        amount, percent = describe.progress(cleaning), ""
    if cleaning.state == CleaningState.VERIFIED:
        percent = "100%"
    return {
        "style": _STYLES[CleaningState(cleaning.state)],
        "word": word.replace("[", "("),
        "amount": amount,
        "percent": percent,
        "speed": f"{size_text(int(speed))}/s" if known else "",
        "rest": _duration((cleaning.bytes_total - cleaning.bytes_done) / speed) if known else "",
    }


def _duration(seconds: float) -> str:
    """`0:45`, `12:03`, `7:15:00`"""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextlib.asynccontextmanager
async def following(
    objects: Objects[T], selection: Selection, *, clock: Clock | None = None
) -> AsyncIterator[SharedInformer[T]]:
    """An informer that holds all that exists, and goes on as long as the with-block."""
    informer = SharedInformer(objects, clock=clock or SystemClock(), selection=selection)
    async with informer.following():
        await informer.wait_synced()
        yield informer


async def until_verified(client: Client, disk: LocalDisk) -> None:
    """Show the cleaning that the disk has an order for until it is verified."""
    order = disk.spec.clean
    if order is None:
        return
    name = describe.short_name(disk)
    only = Selection(fields=f"metadata.name={disk.metadata.name}")
    with common.asking("watch", LocalDisk.resource):
        async with following(client.objects(LocalDisk), only) as informer, _bar(informer, disk) as say:
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
            await asyncio.sleep(REFRESH)

    with Live(console=console, auto_refresh=False) as live:
        task = asyncio.create_task(keep_drawing())
        try:
            yield say
            draw()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
