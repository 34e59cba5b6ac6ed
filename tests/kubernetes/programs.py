"""The processes of one control plane or cluster: started with a log each, stopped in the reverse order."""

from __future__ import annotations

import contextlib
import random
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from localpv.testing.waiting import PATIENCE_SECONDS

READY_SECONDS = PATIENCE_SECONDS
ANSWER_SECONDS = 20.0
STOP_SECONDS = 10.0
PORTS = range(20000, 30000)


class NotReady(Exception):
    """A program ended or did not answer in time; the message carries the end of its log."""


@dataclass(slots=True)
class Programs:
    """Programs that end when told to, or with the process that started them."""

    logs: Path
    """The folder with one log per program."""

    started: Callable[[int], None] = lambda pid: None
    """Told the id of each new process."""

    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, argv: Sequence[str | Path], *, name: str, piped: bool = False) -> subprocess.Popen[bytes]:
        """Start a program; a piped one is spoken to through its standard input."""
        # Killed with us: whatever happens to a test run, no program outlives it. The kernel counts the thread that
        # called, so programs are started from the main thread only.
        leash = shutil.which("setpriv")
        words = [str(part) for part in argv]
        with (self.logs / f"{name}.log").open("wb") as log:
            # A session of its own: Ctrl-C reaches us alone, and we stop the programs in order.
            process = subprocess.Popen(
                [leash, "--pdeathsig", "KILL", *words] if leash else words,
                stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.running.append(process)
        self.started(process.pid)
        return process

    def stop(self) -> None:
        """End all programs, each with time to put its files in order."""
        for process in reversed(self.running):
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
        self.kill()

    def kill(self) -> None:
        """End all programs at once, for those whose files are thrown away."""
        for process in reversed(self.running):
            process.kill()
        for process in self.running:
            process.wait()
            if process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()
        self.running.clear()

    def wait_ready(self, process: subprocess.Popen[bytes], url: str, *, authority: Path | None, name: str) -> None:
        """Return when the program answers with 200 at the address."""
        context = ssl.create_default_context(cafile=str(authority)) if authority else None

        def answers() -> bool:
            try:
                with urllib.request.urlopen(url, timeout=ANSWER_SECONDS, context=context) as answer:
                    return bool(answer.status == 200)
            except (urllib.error.URLError, OSError):
                return False

        self.wait_until(answers, process, name=name, what=f"become ready at {url}")

    def wait_until(self, there: Callable[[], bool], process: subprocess.Popen[bytes], *, name: str, what: str) -> None:
        """Return when the condition holds; a program that ended will not make it hold any more."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            if there():
                return
            time.sleep(0.1)
        raise NotReady(f"{name} did not {what}\n{tail(self.logs / f'{name}.log')}")


def tail(log: Path, characters: int = 3000) -> str:
    """The end of a log; empty when there is none."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - characters))
        return file.read().decode(errors="replace")


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on, below those that the kernel gives to whoever asks for any: such a one
    would be somebody else's by the time that our program listens."""
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise NotReady("no port is free")


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner reads."""
    path.touch(mode=0o600)
    path.write_text(text)
