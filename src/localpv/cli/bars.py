"""Progress bars for disks that are being wiped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from localpv.api.kinds.localdisk import Cleaning, CleaningState, LocalDisk, size_text
from localpv.cli import describe

if TYPE_CHECKING:
    from rich.progress import TaskID

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
