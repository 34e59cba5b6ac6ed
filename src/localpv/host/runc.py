"""The door to the container runtime: runc, each container watched over by conmon.

conmon is a small process beside each container that writes its output to the log and its exit code to a file. Neither
is a child of ours, so containers, logs and exit codes outlive this process. All that is known of a container is in the
folder of its bundle, where conmon writes it; nothing has to be remembered. The processes themselves are found again in
the kernel's list of processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from localpv import errors
from localpv.host import commands, processes
from localpv.host.containers import Bundle, Features, Process, Seen
from localpv.host.workers import Workers

RUNTIME, MONITOR = "runc", "conmon"
GOING_SECONDS = 5.0
"""How long a monitor may stay when its container is gone."""

SECONDS = 60.0
"""How long the runtime may take for one step; a container that is created on a hung volume takes for ever."""

MAKING_SECONDS, LOOK_SECONDS = 10.0, 0.02
"""How long a container that is being made is waited for at a time, and how often it is looked at."""

PROCESSES_SECONDS = 10.0
"""How long one look at all processes may take."""

_LONGEST_LINE = 64 * 1024
_MESSAGE = re.compile(r'level=error msg="((?:[^"\\]|\\.)*)"')


def _ended(folder: Path) -> tuple[int | None, datetime | None]:
    """The exit code that a monitor has left in the folder of its container, and when it did."""
    path = folder / "exit"
    code = _number_in(path)
    if code is None:
        return None, None
    return code, datetime.fromtimestamp(path.stat().st_mtime, UTC)


def _is_under_way(folder: Path) -> bool:
    """Whether the first process of a container has become what it is to run, and is the runtime no more."""
    try:
        name = Path(f"/proc/{_number_in(folder / 'pid')}/comm").read_text()
    except OSError:
        return False
    return not name.startswith(f"{RUNTIME}:[")


def _number_in(path: Path) -> int | None:
    """What stands in a file with one number; None while there is none."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _is_monitor(pid: int, id_: str) -> bool:
    """Whether a process watches over this very container: numbers of processes are given again."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    # A process that has ended and waits to be reaped has no command line any more.
    return id_.encode() in words and words[0].endswith(MONITOR.encode())


class _Maker(NamedTuple):
    """A program that makes, starts or watches over containers."""

    name: str
    pid: int
    words: frozenset[bytes]
    """Its command line, which names its container."""

    @classmethod
    def read(cls, pid: int) -> _Maker | None:
        """None for any other process. In namespaces of its own it is one of a container, whatever it calls itself."""
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            if name not in (RUNTIME, MONITOR) or os.readlink(f"/proc/{pid}/ns/pid") != os.readlink("/proc/self/ns/pid"):
                return None
            with open(f"/proc/{pid}/cmdline", "rb") as line:
                return cls(name, pid, frozenset(line.read(_LONGEST_LINE).split(b"\0")))
        except OSError:
            return None

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        fields = _stat(self.pid)
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK") if fields else 0.0

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            fd = os.pidfd_open(self.pid)
            try:
                if _Maker.read(self.pid) == self:  # numbers of processes are given again
                    signal.pidfd_send_signal(fd, signal.SIGKILL)
            finally:
                os.close(fd)


class _Makers:
    """Finds them in the kernel's list of processes, in a worker thread: it may be long, and to read it may hang.

    After a restart of ours many containers may be waited for at the same time: they share a look that began after they
    asked for one.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers, self._one = workers, asyncio.Lock()
        self._found: list[_Maker] = []
        self._began = float("-inf")

    async def of(self, id_: str) -> list[_Maker]:
        """Those of one container. A runtime that takes longer than it may is killed, as we would have, had we lived."""
        asked = time.monotonic()
        async with self._one:
            if self._began < asked:
                began = time.monotonic()
                self._found = await self._workers.call(_look_for_makers, key="/proc", timeout=PROCESSES_SECONDS)
                self._began = began
        found = [one for one in self._found if id_.encode() in one.words]
        for one in found:
            if one.name == RUNTIME and one.seconds > SECONDS:
                await self._workers.call(one.kill, key=f"/proc/{one.pid}", timeout=PROCESSES_SECONDS)
        return found


def _look_for_makers() -> list[_Maker]:
    return [one for entry in os.listdir("/proc") if entry.isdecimal() and (one := _Maker.read(int(entry)))]


def _parent_of(pid: int) -> int | None:
    """Whose child a process is."""
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def _stat(pid: int) -> list[str]:
    """What the kernel tells of a process, from its state on; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


async def _gone(monitor: int, id_: str) -> None:
    """Wait for a monitor whose container is gone; one that stays is ended."""
    try:
        fd = os.pidfd_open(monitor)
    except ProcessLookupError:
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(fd, ended.set)
    try:
        async with asyncio.timeout(GOING_SECONDS):
            await ended.wait()
    except TimeoutError:
        if _is_monitor(monitor, id_):
            signal.pidfd_send_signal(fd, signal.SIGKILL)
    finally:
        loop.remove_reader(fd)
        os.close(fd)


class _Seccomp(msgspec.Struct):
    enabled: bool | None = None


class _Linux(msgspec.Struct):
    seccomp: _Seccomp = msgspec.field(default_factory=_Seccomp)


class _Features(msgspec.Struct, rename="camel"):
    """The part of `runc features` that is of interest."""

    mount_options: tuple[str, ...] | None = None
    linux: _Linux = msgspec.field(default_factory=_Linux)


class RuncContainers:
    """Containers by runc, whose own state is kept in the folder `state`."""

    def __init__(self, *, state: Path, workers: Workers) -> None:
        self._state = state
        self._makers = _Makers(workers)
        self._execs = 0

    def missing(self) -> tuple[str, ...]:
        return tuple(tool for tool in (RUNTIME, MONITOR) if commands.find(tool) is None)

    async def version(self) -> str:
        """Of the runtime, such as 1.1.5; empty when it is not installed."""
        if commands.find(RUNTIME) is None:
            return ""
        told = (await commands.run([RUNTIME, "--version"], timeout=SECONDS)).stdout.split()
        return told[2] if len(told) > 2 else ""

    async def features(self) -> Features:
        """What this runtime was built with, as it says itself; one that cannot say has none."""
        try:
            told = (await commands.run([RUNTIME, "features"], timeout=SECONDS)).stdout
            found = msgspec.json.decode(told, type=_Features)
        except (errors.HostError, msgspec.DecodeError):
            return Features()
        return Features(
            seccomp=found.linux.seccomp.enabled is True, recursive_read_only="rro" in (found.mount_options or ())
        )

    async def create(self, bundle: Bundle) -> None:
        # 0700, also for what is below: the state tells how to get into every container.
        self._state.mkdir(parents=True, exist_ok=True, mode=0o700)
        bundle.log.parent.mkdir(parents=True, exist_ok=True)
        for stale in ("exit", "oom", "pid", "conmon.pid"):
            (bundle.folder / stale).unlink(missing_ok=True)
        runtime = commands.find(RUNTIME) or RUNTIME
        folder = str(bundle.folder)
        argv = [
            *(MONITOR, "--cid", bundle.id, "--name", bundle.id, "--cuuid", bundle.id, "--bundle", folder),
            *("--runtime", runtime, "--runtime-arg=--root", f"--runtime-arg={self._state}"),
            *("--container-pidfile", f"{folder}/pid", "--conmon-pidfile", f"{folder}/conmon.pid"),
            *("--log-path", f"k8s-file:{bundle.log}", "--persist-dir", folder, "--socket-dir-path", folder),
            *("--full-attach", "--no-sync-log", "--log-level", "error"),
            *(("--stdin", "--leave-stdin-open") if bundle.stdin else ()),
            *(("--terminal",) if bundle.terminal else ()),
        ]
        said = await processes.detached(argv, folder=bundle.folder, seconds=SECONDS)
        if said.pid <= 0:
            raise errors.CommandFailed(
                [RUNTIME], exit_code=1, stderr=_sentence(said.message) or "no container was made"
            )

    async def start(self, bundle: Bundle) -> None:
        # The container waits for it, and if it is cut off half-way ends with code 1 though nothing ran. So it goes on
        # when we die, and when we are told to stop we wait for it.
        starting = asyncio.ensure_future(self._runc("start", bundle.id, outlives=True))
        try:
            await asyncio.shield(starting)
        finally:
            await asyncio.wait([starting])

    def look(self, bundle: Bundle) -> Seen:
        state = self._state / bundle.id
        exists = (state / "state.json").exists()
        # Whoever starts a container removes this pipe, and may have been killed just before.
        started = exists and (not (state / "exec.fifo").exists() or _is_under_way(bundle.folder))
        # First: it writes the exit code and then ends, so after a look that finds it gone the code is there.
        watched = self._monitor(bundle) is not None
        code, ended_at = _ended(bundle.folder)
        return Seen(
            exists=exists,
            started=started or code is not None,
            running=started and code is None and watched,
            exit_code=code,
            ended_at=ended_at,
            out_of_memory=(bundle.folder / "oom").exists(),
        )

    async def settled(self, bundle: Bundle) -> Seen:
        await self._made(bundle)
        return self.look(bundle)

    def watch(self, bundle: Bundle, ended: Callable[[], None]) -> Callable[[], None]:
        loop = asyncio.get_running_loop()
        monitor = self._monitor(bundle)
        try:
            fd = os.pidfd_open(monitor) if monitor is not None else -1
        except ProcessLookupError:
            fd = -1
        if fd < 0:
            return loop.call_soon(ended).cancel

        def stop() -> None:
            nonlocal fd
            if fd >= 0:
                loop.remove_reader(fd)
                os.close(fd)
                fd = -1

        def gone() -> None:
            stop()
            ended()

        # The monitor ends after it has written the exit code.
        loop.add_reader(fd, gone)
        return stop

    async def signal(self, bundle: Bundle, number: int) -> None:
        monitor, pid = self._monitor(bundle), _number_in(bundle.folder / "pid")
        if monitor is None or pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            fd = os.pidfd_open(pid)
            try:
                # The number may belong to somebody else by now; a child of the monitor is ours.
                if _parent_of(pid) == monitor:
                    signal.pidfd_send_signal(fd, number)
            finally:
                os.close(fd)

    async def delete(self, bundle: Bundle) -> None:
        if not self.look(bundle).started:
            await self._made(bundle)
        monitor = self._monitor(bundle)
        if (self._state / bundle.id).exists():
            try:
                await self._runc("delete", "--force", bundle.id)
            except errors.CommandFailed as error:
                if "does not exist" not in error.stderr:
                    raise
                shutil.rmtree(self._state / bundle.id, ignore_errors=True)
        if monitor is not None:
            await _gone(monitor, bundle.id)

    async def _made(self, bundle: Bundle) -> None:
        """Wait for whoever makes or starts the container, on behalf of a process of ours that has died meanwhile.

        HostTimeout while a runtime is at it: made anew now, the container would run twice, or what was made be lost.
        """
        end, pause = asyncio.get_running_loop().time() + MAKING_SECONDS, LOOK_SECONDS
        while True:
            makers = {one.name for one in await self._makers.of(bundle.id)}
            if not makers or (RUNTIME not in makers and (self._state / bundle.id / "state.json").exists()):
                return
            if asyncio.get_running_loop().time() > end:
                break
            await asyncio.sleep(pause)
            pause *= 1.5
        if RUNTIME in makers:
            raise errors.HostTimeout(
                f"{RUNTIME} is still at work on container {bundle.id}", hint="it is looked at again by itself"
            )

    async def ids(self) -> frozenset[str]:
        try:
            return frozenset(entry.name for entry in os.scandir(self._state))
        except FileNotFoundError:
            return frozenset()

    async def reopen_log(self, bundle: Bundle) -> None:
        with contextlib.suppress(OSError):  # nobody reads there any more: the container has ended
            fd = os.open(bundle.folder / "ctl", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.write(fd, b"2 0 0\n")
            finally:
                os.close(fd)

    async def exec(self, bundle: Bundle, command: Sequence[str], *, stdin: bool, tty: bool) -> Process:
        self._execs += 1
        pid_file = bundle.folder / f"exec-{os.getpid()}-{self._execs}.pid"
        argv = [RUNTIME, "--root", str(self._state), "exec", "--pid-file", str(pid_file)]
        argv += ["--tty", bundle.id] if tty else [bundle.id]
        return await processes.attached([*argv, *command], stdin=stdin, tty=tty, pid_file=pid_file)

    async def _runc(self, *words: str, outlives: bool = False) -> None:
        await commands.run([RUNTIME, "--root", str(self._state), *words], timeout=SECONDS, outlives=outlives)

    def _monitor(self, bundle: Bundle) -> int | None:
        """The process that watches over a container, if it lives."""
        pid = _number_in(bundle.folder / "conmon.pid")
        return pid if pid is not None and _is_monitor(pid, bundle.id) else None


def _sentence(said: str) -> str:
    """What the runtime has to say, out of the log line that it says it in."""
    found = _MESSAGE.search(said)
    return found[1].replace('\\"', '"') if found else said
