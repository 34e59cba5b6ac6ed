"""A test fails when an event loop was held: one in this process, or that of a program which the test started.

What counts is the processor time of the loop's own thread, so a busy machine makes no false alarm. A test that holds a
loop on purpose says so with the mark `holds_the_loop`.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import re
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import localpv
from localpv.runtime.watchdog import LIMIT_SECONDS, Held, Watchdog

LINE = re.compile(rb"the event loop (?:is held|goes on) seconds=[0-9.]+ cpu_seconds=([0-9.]+)[^\n]*(?:\n(?!20).*)*")
MARK = "holds_the_loop"
OURS = os.path.join(os.path.dirname(localpv.__file__), "")
"""In the stack of what holds a loop: it is one of our own modules, or was called by one."""

FREEZE_EVERY = 50
"""Tests after which the garbage collector leaves alone what is there by then."""

_count = itertools.count(1)


class Loops:
    """Every event loop that runs, here and in programs whose log is a file."""

    def __init__(self) -> None:
        self.held: list[str] = []
        self._logs: dict[Path, int] = {}
        """How much of each log has been read."""
        self._watchdog = Watchdog(on_held=self.hear)
        self._stack = ""

    def install(self) -> None:
        run_forever, popen = asyncio.BaseEventLoop.run_forever, subprocess.Popen.__init__

        def run(loop: asyncio.BaseEventLoop) -> None:
            with self._watchdog.watching(loop):
                run_forever(loop)

        def start(process: Any, args: Any, *more: Any, **options: Any) -> None:
            popen(process, args, *more, **options)
            name = getattr(options.get("stderr"), "name", None)
            if isinstance(name, str | os.PathLike) and isinstance(args, list | tuple) and "localpv" in args:
                self.follow(Path(name))

        asyncio.BaseEventLoop.run_forever = run  # type: ignore[method-assign]
        subprocess.Popen.__init__ = start  # type: ignore[method-assign]

    def follow(self, log: Path) -> None:
        """Read what a program writes there from now on."""
        self._logs.setdefault(log, log.stat().st_size)

    def hear(self, held: Held) -> None:
        self._stack = held.stack or self._stack  # the report that it goes on has none of its own
        # A test that does a lot of work by itself, such as making files, holds up nobody but itself.
        if held.cpu_seconds >= LIMIT_SECONDS and OURS in self._stack:
            self.held.append(f"for {held.cpu_seconds:.2f} s of processor time by:\n{self._stack}")

    def read_logs(self) -> None:
        for path, offset in list(self._logs.items()):
            try:
                with path.open("rb") as log:
                    log.seek(offset)
                    text = log.read()
            except OSError:
                del self._logs[path]
                continue
            self._logs[path] = offset + len(text)
            stack = ""
            for found in LINE.finditer(text):
                line = found[0].decode(errors="replace")
                if "goes on" in line:  # on a busy machine only this one tells how much it was, and not by what
                    line += f" after:\n{stack}"
                else:
                    stack = line
                if float(found[1]) >= LIMIT_SECONDS:
                    self.held.append(f"{path.name}: {line}")

    def check(self, item: pytest.Item) -> None:
        self.read_logs()
        held, self.held = self.held, []
        if held and item.get_closest_marker(MARK) is None:
            pytest.fail("an event loop was held " + "\n".join(held), pytrace=False)


_loops = Loops()
follow = _loops.follow


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARK}: this test holds an event loop on purpose")
    _loops.install()


def pytest_runtest_setup(item: pytest.Item) -> None:
    # What thousands of tests have left would take the garbage collector longer than any work of one test takes.
    if next(_count) % FREEZE_EVERY == 0:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    _loops.read_logs()  # they may go with the fixtures
    yield
    _loops.check(item)
