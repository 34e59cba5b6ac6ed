"""Runs at the start of every Python program in a sandbox of `mutants.py`.

Loop devices are taken from the sandbox's own numbers, and, when MUTANTS_REACH names a file, the functions that run are
noted there, one line each: test, module, function. A program that a test started notes them for that test; one that was
started for several tests, for their file.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

GET_FREE = 0x4C82
SOURCE = os.environ.get("MUTANTS_SOURCE", "")
FIRST, LAST = (int(number) for number in os.environ.get("MUTANTS_LOOPS", "0-0").split("-"))
MODULES = tuple(os.environ.get("MUTANTS_MODULES", "").split(":"))

_ioctl = fcntl.ioctl


def ioctl(fd: Any, request: int, *more: Any, **options: Any) -> Any:
    if request != GET_FREE or not FIRST:
        return _ioctl(fd, request, *more, **options)
    for number in range(FIRST, LAST + 1):
        if not os.path.exists(f"/sys/block/loop{number}/loop"):
            return number
    raise OSError(28, "no loop device of this sandbox is free")


class Reach:
    """Notes each function of the modules that are looked at once for each test."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        test, _, phase = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")
        self._test = test if phase == "(call)" else test.partition("::")[0]
        self._seen: set[object] = set()
        self._others: set[object] = set()

    def begin(self, test: str) -> None:
        self._test = test
        self._seen.clear()

    def trace(self, frame: FrameType, event: str, argument: TracebackType | None) -> None:
        code = frame.f_code
        if code in self._seen or code in self._others:
            return
        if not code.co_filename.startswith(SOURCE) or not code.co_filename[len(SOURCE) :].startswith(MODULES):
            self._others.add(code)
            return
        self._seen.add(code)
        name = code.co_qualname.replace(".<locals>", "")
        if self._test:
            os.write(self._fd, f"{self._test}\t{code.co_filename[len(SOURCE) :]}\t{name}\n".encode())


fcntl.ioctl = ioctl
reach: Reach | None = None
if path := os.environ.get("MUTANTS_REACH"):
    reach = Reach(path)
    threading.settrace(reach.trace)
    sys.settrace(reach.trace)
