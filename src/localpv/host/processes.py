"""Processes that are not run to their end at once: those that outlive us, and those that people talk to."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import termios
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

from localpv import errors
from localpv.host import commands
from localpv.host.containers import Process

CHUNK = 32 * 1024
STDOUT, STDERR = 1, 2
MOST_WAITING = 16
"""Chunks of output that nobody has read yet; then the process waits."""

ENDING_SECONDS, LOOK_SECONDS = 3.0, 0.05
"""How long a process that nobody listens to may take to end, and how often it is looked at."""

_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "TZ": "UTC"}


class Told(msgspec.Struct):
    """What a detached process tells once: the process that it looks after, or why there is none."""

    pid: int = -1
    message: str = ""


async def detached(argv: Sequence[str], *, folder: Path, seconds: float) -> Told:
    """Start a program that puts itself into the background, and read the one line that it then tells.

    It is told where by _OCI_SYNCPIPE, as conmon expects. It works in the folder, and is not tied to us: that is what it
    is for.
    """
    program = _found(argv[0])
    reading, writing = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *argv[1:],
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env={**_ENVIRONMENT, "_OCI_SYNCPIPE": str(writing)},
            pass_fds=(writing,),
            cwd=folder,
            start_new_session=True,
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    reader, transport = await _reader(reading)
    try:
        async with asyncio.timeout(seconds):
            line = await reader.readline()
            await process.wait()
    except TimeoutError:
        raise errors.HostTimeout(f"{argv[0]} told nothing in {seconds:g} s") from None
    finally:
        transport.close()
    try:
        return msgspec.json.decode(line, type=Told)
    except msgspec.DecodeError:
        return Told(message=line.decode(errors="replace") or f"{argv[0]} ended with {process.returncode}")


async def attached(argv: Sequence[str], *, stdin: bool, tty: bool, pid_file: Path) -> Process:
    """Start a program with pipes, or with a terminal of its own; it writes its real process to the pid file."""
    return await (_terminal(argv, pid_file) if tty else _piped(argv, pid_file, stdin=stdin))


class _Attached:
    """What both ways have in common."""

    def __init__(self, process: asyncio.subprocess.Process, pid_file: Path) -> None:
        self._process = process
        self._pid_file = pid_file

    async def wait(self) -> int:
        code = await self._process.wait()
        return 128 - code if code < 0 else code

    async def close(self) -> None:
        end = asyncio.get_running_loop().time() + ENDING_SECONDS
        while self._process.returncode is None and asyncio.get_running_loop().time() < end:
            # What runs in the container is no child of the program that we have started, and may not have begun yet.
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(self._pid_file.read_text()), signal.SIGKILL)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._process.wait()
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        self._pid_file.unlink(missing_ok=True)


class _Piped(_Attached):
    async def write(self, data: bytes) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(ConnectionError):
                self._process.stdin.write(data)
                await self._process.stdin.drain()

    async def close_input(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()

    async def resize(self, width: int, height: int) -> None:
        return

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        assert self._process.stdout is not None and self._process.stderr is not None
        said: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue(MOST_WAITING)

        async def carry(number: int, stream: asyncio.StreamReader) -> None:
            while chunk := await stream.read(CHUNK):
                await said.put((number, chunk))
            await said.put((number, b""))

        streams = ((STDOUT, self._process.stdout), (STDERR, self._process.stderr))
        tasks = [asyncio.create_task(carry(number, stream)) for number, stream in streams]
        try:
            left = len(tasks)
            while left:
                number, chunk = await said.get()
                if chunk:
                    yield number, chunk
                else:
                    left -= 1
        finally:
            for task in tasks:
                task.cancel()

    async def close(self) -> None:
        await self.close_input()
        await super().close()


class _Terminal(_Attached):
    def __init__(self, process: asyncio.subprocess.Process, pid_file: Path, master: int) -> None:
        super().__init__(process, pid_file)
        self._master = master
        os.set_blocking(master, False)

    async def write(self, data: bytes) -> None:
        while data and self._master >= 0:
            try:
                data = data[os.write(self._master, data) :]
            except BlockingIOError:
                await _ready(self._master, writing=True)
            except OSError:
                return

    async def close_input(self) -> None:
        await self.write(b"\x04")

    async def resize(self, width: int, height: int) -> None:
        if self._master >= 0:
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGWINCH)

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        while self._master >= 0:
            try:
                chunk = os.read(self._master, CHUNK)
            except BlockingIOError:
                await _ready(self._master, writing=False)
                continue
            except OSError:
                return  # the other side is closed
            if not chunk:
                return
            yield STDOUT, chunk

    async def close(self) -> None:
        await super().close()
        if self._master >= 0:
            os.close(self._master)
            self._master = -1


async def _piped(argv: Sequence[str], pid_file: Path, *, stdin: bool) -> Process:
    process = await asyncio.create_subprocess_exec(
        _found(argv[0]),
        *argv[1:],
        stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=_ENVIRONMENT,
        start_new_session=True,
    )
    return _Piped(process, pid_file)


async def _terminal(argv: Sequence[str], pid_file: Path) -> Process:
    master, slave = pty.openpty()
    try:
        process = await asyncio.create_subprocess_exec(
            _found(argv[0]), *argv[1:], stdin=slave, stdout=slave, stderr=slave, env=_ENVIRONMENT
        )
    except BaseException:
        os.close(master)
        raise
    finally:
        os.close(slave)
    return _Terminal(process, pid_file, master)


async def _ready(fd: int, *, writing: bool) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    add, remove = (loop.add_writer, loop.remove_writer) if writing else (loop.add_reader, loop.remove_reader)
    add(fd, wake)
    try:
        await ready
    finally:
        remove(fd)


async def _reader(fd: int) -> tuple[asyncio.StreamReader, asyncio.BaseTransport]:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", buffering=0)
    )
    return reader, transport


def _found(tool: str) -> str:
    program = commands.find(tool)
    if program is None:
        raise errors.NotSupported(f"{tool} is not installed", hint=f"install the package that has {tool}")
    return program
