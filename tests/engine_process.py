"""Our engine as its own process, for the tests that must not share an interpreter with it."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests import forked_programs, run_folders

from localpv.testing.waiting import PATIENCE_SECONDS

READY_LINE = re.compile(rb"^ready (?P<url>https://\S+) KUBECONFIG=(?P<kubeconfig>.+)$")


class EngineFailed(Exception):
    """The engine ended or said nothing in time; the message carries the end of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A running engine."""

    process: forked_programs.Program
    url: str
    kubeconfig: Path
    data: Path
    log: Path

    def log_tail(self, size: int = 5000) -> str:
        return self.log.read_text(errors="replace")[-size:]


@contextlib.contextmanager
def running(
    *,
    data: Path | None = None,
    listen: str = "127.0.0.1:0",
    options: Sequence[str] = (),
    program: str = "apiserver",
    log: Path | None = None,
) -> Iterator[Engine]:
    """The engine alone (`localpv apiserver`), or with all that works on it (`localpv up`), until the with-block ends; a
    data folder and a log that are passed in stay."""
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="localpv-engine-")))
        stack.callback(run_folders.remove_below, scratch)
        folder = data if data is not None else scratch / "data"
        log = log if log is not None else scratch / "engine.log"
        words = ["--data", str(folder), "--listen", listen, *options]
        with log.open("wb") as stderr:
            process = forked_programs.start(program, *words, stderr=stderr, env={**os.environ, "NO_COLOR": "1"})
        stack.callback(stop, process)
        url, kubeconfig = _wait_for_ready_line(process, log)
        yield Engine(process=process, url=url, kubeconfig=kubeconfig, data=folder, log=log)


def _wait_for_ready_line(process: forked_programs.Program, log: Path) -> tuple[str, Path]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    os.set_blocking(process.stdout.fileno(), False)
    seen = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            if not selector.select(left):
                break
            chunk = process.stdout.read()
            if not chunk:
                break
            seen += chunk
            for line in seen.splitlines():
                if found := READY_LINE.match(line):
                    return found["url"].decode(), Path(os.fsdecode(found["kubeconfig"]))
    said = seen.decode(errors="replace") + log.read_text(errors="replace")
    raise EngineFailed(f"the engine was not ready after {PATIENCE_SECONDS:g} s or ended; it said:\n{said[-5000:]}")


def stop(process: forked_programs.Program | subprocess.Popen[bytes]) -> None:
    """End a process as people do, and by force when it does not."""
    process.terminate()
    try:
        process.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()
