"""Logs of containers in the format of container runtimes: `TIME stdout F text`, one line each; P for part of one.

They are kept small: one that has grown too long is put aside, and the oldest go.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from localpv.api.pod_logs import PodLogOptions
from localpv.engine.kubelet.records import Records
from localpv.host.containers import Containers
from localpv.runtime.clock import Clock

LOOK_SECONDS = 0.2
"""How long to wait for more of a log that is followed."""

BLOCK = 64 * 1024

ROTATE_SECONDS = 10.0
LOG_BYTES = 10 * 1024 * 1024
"""How long a log grows before a new one is begun."""

LOG_FILES = 5
"""How many files of a container's log are kept, the present one included."""

log = logging.getLogger(__name__)


def read_line(line: bytes) -> tuple[bytes, bytes, bytes]:
    """(time, stream, text with its newline if it had one); a line in another form is taken as it is."""
    parts = line.split(b" ", 3)
    if len(parts) < 4:
        return b"", b"stdout", line
    time, stream, tag, text = parts
    return time, stream, text if tag == b"F" else text.removesuffix(b"\n")


def last_lines(path: Path, count: int) -> list[bytes]:
    """The text of the last lines."""
    try:
        with path.open("rb") as file:
            _seek_tail(file, count)
            return [read_line(line)[2] for line in file]
    except OSError:
        return []


async def stream(path: Path, options: PodLogOptions, *, done: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The log, line by line; with `follow` until the container is done and all of it was told."""
    left = options.limit_bytes
    async for line in _lines(path, options, done):
        time, _, text = read_line(line)
        if options.since is not None and time and _seconds(time) < options.since:
            continue
        # The monitor of containers writes UTC in its long form; Kubernetes shows the short one.
        told = time.replace(b"+00:00", b"Z") + b" " + text if options.timestamps else text
        if left is not None:
            told = told[:left]
            left -= len(told)
        if told:
            yield told
        if left is not None and left <= 0:
            return


async def _lines(path: Path, options: PodLogOptions, done: Callable[[], bool]) -> AsyncIterator[bytes]:
    if options.tail_lines == 0 and not options.follow:
        return
    file: BinaryIO | None = None
    try:
        rest, leaving = b"", False
        while True:
            # Asked before reading: what a container wrote before it ended is read after that.
            ended = done()
            if file is None:
                try:
                    file = path.open("rb")
                    if options.tail_lines is not None:
                        _seek_tail(file, options.tail_lines)
                except FileNotFoundError:
                    file = None
            if file is not None:
                for whole in _whole_lines(file, rest):
                    if whole.endswith(b"\n"):
                        rest = b""
                        yield whole
                    else:
                        rest = whole
            if not options.follow or ended:
                return
            if leaving and file is not None:
                file.close()
                file, leaving, options = None, False, dataclasses.replace(options, tail_lines=None)
            elif file is not None and _replaced(path, file):
                leaving = True  # what was written to the old one in its last moments is read first
            else:
                await asyncio.sleep(LOOK_SECONDS)
    finally:
        if file is not None:
            file.close()


def _whole_lines(file: BinaryIO, rest: bytes) -> Iterator[bytes]:
    while line := file.readline():
        rest += line
        yield rest
        if rest.endswith(b"\n"):
            rest = b""


def _replaced(path: Path, file: BinaryIO) -> bool:
    """Whether the log was begun anew under the same name."""
    try:
        return os.stat(path).st_ino != os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return False


def _seek_tail(file: BinaryIO, count: int) -> None:
    """Go to where the last so many lines begin; lines in parts count as one."""
    end = position = file.seek(0, os.SEEK_END)
    found = b""
    while position > 0 and found.count(b"\n") <= count + 1:
        step = min(BLOCK, position)
        position -= step
        file.seek(position)
        found = file.read(step) + found
    lines = found.splitlines(keepends=True)
    if position > 0:
        lines = lines[1:]  # the first may be cut
    kept, whole = 0, 0
    for line in reversed(lines):
        if _is_end(line) and whole == count:
            break
        whole += _is_end(line)
        kept += len(line)
    file.seek(end - kept)


def _is_end(line: bytes) -> bool:
    return line.split(b" ", 3)[2:3] != [b"P"]


def _seconds(time: bytes) -> float:
    try:
        # Nine digits of a second are more than datetime reads.
        text = time.decode()
        whole, _, rest = text.partition(".")
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        zone = rest[len(digits) :] if digits else ""
        moment = datetime.fromisoformat(f"{whole}{zone}" if digits else text)
        return moment.timestamp() + (float(f"0.{digits}") if digits else 0.0)
    except ValueError:
        return 0.0


class LogRotation:
    """Somebody must own the task of `run`."""

    def __init__(
        self, *, containers: Containers, records: Records, clock: Clock, most: int = LOG_BYTES, files: int = LOG_FILES
    ) -> None:
        self._containers, self._records, self._clock = containers, records, clock
        self._most, self._files = most, files

    async def run(self) -> None:
        while True:
            await self._clock.sleep(ROTATE_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Put aside every log that is too long."""
        for uid in self._records.uids():
            for record in self._records.latest(uid).values():
                bundle = self._records.bundle(record)
                try:
                    if not record.running:
                        continue
                    if not bundle.log.exists():
                        # We died between the two steps below: the monitor still writes to the file put aside.
                        await self._containers.reopen_log(bundle)
                        continue
                    if bundle.log.stat().st_size < self._most:
                        continue
                    stamp = self._clock.now().strftime("%Y%m%d-%H%M%S")
                    os.rename(bundle.log, bundle.log.with_name(f"{bundle.log.name}.{stamp}"))
                    await self._containers.reopen_log(bundle)
                    for path in older(bundle.log)[: -(self._files - 1)]:
                        path.unlink(missing_ok=True)
                except OSError as error:
                    log.debug("log not put aside log=%s reason=%s", bundle.log, error)


def older(path: Path) -> list[Path]:
    """The files of a log that were put aside, oldest first."""
    return sorted(path.parent.glob(f"{path.name}.*"))
