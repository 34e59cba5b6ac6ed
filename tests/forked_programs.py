"""Programs and commands of localpv that need not import anything: forks of a process which has done that.

A start takes up to a second of a processor, most of it for imports, and tests start many. What is forked has imported
what `localpv up` imports, all programs among it, and then runs `localpv` with words, environment, folder and files of
its own. It has one thread, no open file of anybody else, the signals of a new process and the mounts of whoever
started it; only its command line in /proc is that of the process which it was forked from, whose child it is. That
programs start as people start them is shown by tests which do so, `tests/engine/test_up.py` and
`tests/journey/test_programs.py` among them.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from localpv.testing.waiting import PATIENCE_SECONDS

MAX_ORDER_BYTES = 128 * 1024
"""What one start may take to say, with all of its environment; a socket takes more."""

NUMBER = struct.Struct("i")

MOUNTS = Path("/proc/thread-self/ns/mnt")


class Program:
    """One that was forked, with what tests use of `subprocess.Popen`."""

    def __init__(self, told: int, stdout: IO[bytes]) -> None:
        self._told = told
        """A pipe: its process id, and when it has ended and been waited for, its exit code."""
        self.stdout = stdout
        self.returncode: int | None = None
        self.pid = self._number()

    def poll(self) -> int | None:
        return self._code(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._code(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _code(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._told, selectors.EVENT_READ)
                if not selector.select(timeout):
                    return None
            self.returncode = self._number()
            os.close(self._told)
        return self.returncode

    def _number(self) -> int:
        told = os.read(self._told, NUMBER.size)
        assert told, "the process that forks programs has ended"
        return int(NUMBER.unpack(told)[0])


class _Parent:
    """The process that has imported all programs and forks them when told to."""

    def __init__(self) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                # -P: modules of this folder are not to be found in the place of others.
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self._close)

    def start(self, words: Sequence[str], env: Mapping[str, str], stderr: IO[Any], mounts: Path) -> Program:
        order = json.dumps({"words": [*words], "env": {**env}, "folder": os.getcwd()}).encode()
        assert len(order) <= MAX_ORDER_BYTES
        (reading, stdout), (told, telling) = os.pipe(), os.pipe()
        stdin, entered = os.open(os.devnull, os.O_RDONLY), os.open(mounts, os.O_RDONLY)
        try:
            socket.send_fds(self._orders, [order], [stdin, stdout, stderr.fileno(), telling, entered])
        finally:
            for fd in (stdin, stdout, telling, entered):
                os.close(fd)
        return Program(told, os.fdopen(reading, "rb"))

    def _close(self) -> None:
        self._orders.close()
        self._process.wait()


@functools.cache
def prepare() -> _Parent:
    """Import all programs, once for this process and those that are forked from it."""
    return _Parent()


def start(*words: str, stderr: IO[Any], env: Mapping[str, str] | None = None, mounts: Path = MOUNTS) -> Any:
    """Start `localpv WORDS`, with a pipe as its stdout; what is returned is used like `subprocess.Popen`.

    It has the mounts of whoever calls this, or of the mount namespace that is passed.
    """
    env = os.environ if env is None else env
    if "sitecustomize" in sys.modules:
        # What is to run at the start of every program is to run at the start of this one.
        command = ["nsenter", f"--mount={mounts}", "--"] if mounts != MOUNTS else []
        command += [sys.executable, "-m", "localpv", *words]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, env=env)
    from tests import held_loops  # the process that forks has no use for pytest

    started = prepare().start(words, env, stderr, mounts)
    if isinstance(stderr.name, str | os.PathLike):
        held_loops.follow(Path(stderr.name))
    return started


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `localpv WORDS` to its end."""
    with tempfile.TemporaryFile("w+") as stderr:
        process = start(*words, stderr=stderr)
        with process.stdout:
            stdout = process.stdout.read().decode()
        code = process.wait(PATIENCE_SECONDS)
        stderr.seek(0)
        return subprocess.CompletedProcess(words, code, stdout, stderr.read())


class _Children:
    """What was forked and runs, in the process that forks."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._running: dict[int, tuple[int, int]] = {}
        """By the file that tells that it has ended: its process id, and where to say so."""

    def serve(self) -> dict[str, Any] | None:
        """Fork whenever told to. Returns in each child with what it is to do, and with nothing when all is done."""
        while True:
            with selectors.DefaultSelector() as selector:
                for fd in (self._orders.fileno(), *self._running):
                    selector.register(fd, selectors.EVENT_READ)
                ready = [int(key.fd) for key, _ in selector.select()]
            for fd in ready:
                if fd in self._running:
                    self._bury(fd)
                    continue
                order, files, _, _ = socket.recv_fds(self._orders, MAX_ORDER_BYTES, 5)
                if not order:
                    return None
                if self._fork(*files):
                    found: dict[str, Any] = json.loads(order)
                    return found

    def _fork(self, stdin: int, stdout: int, stderr: int, telling: int, mounts: int) -> bool:
        child = os.fork()
        if child == 0:
            _enter(mounts)
            for number, fd in enumerate((stdin, stdout, stderr)):
                os.dup2(fd, number)
            self._orders.detach()
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            return True
        for fd in (stdin, stdout, stderr, mounts):
            os.close(fd)
        self._running[os.pidfd_open(child)] = (child, telling)
        os.write(telling, NUMBER.pack(child))
        return False

    def _bury(self, fd: int) -> None:
        child, telling = self._running.pop(fd)
        _, status = os.waitpid(child, 0)
        with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
            os.write(telling, NUMBER.pack(os.waitstatus_to_exitcode(status)))
        os.close(telling)
        os.close(fd)


def _enter(mounts: int) -> None:
    """Be in the mount namespace of whoever starts a program, who may be another worker than the last one."""
    if os.fstat(mounts).st_ino != MOUNTS.stat().st_ino and ctypes.CDLL(None).setns(mounts, 0) != 0:
        os.write(2, b"cannot enter a mount namespace\n")
        os._exit(1)


def _main(orders: str) -> None:
    for module in ("localpv.cli.main", "localpv.programs.up"):
        import_module(module)
    assert threading.active_count() == 1, threading.enumerate()
    # Ctrl-C is for the programs: who waits for them is to hear from here how they ended.
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    order = _Children(socket.socket(fileno=int(orders))).serve()
    if order is None:
        return
    signal.signal(signal.SIGINT, handler)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["env"])
    sys.argv = ["localpv", *order["words"]]
    runpy.run_module("localpv", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main(*sys.argv[1:])
