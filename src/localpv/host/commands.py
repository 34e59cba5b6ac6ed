"""System tools: argv lists only, a plain environment, a time limit, bounded output, ended with their caller."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from localpv import errors

KEPT_BYTES = 64 * 1024
"""The last bytes of each stream that are kept; a tool that writes a line for every block must not fill our memory."""

REAP_SECONDS = 2.0
"""How long to wait for a killed tool; one that hangs in the kernel is reaped whenever it comes back."""

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a tool wrote, the last KEPT_BYTES of each stream unless more was asked for."""

    exit_code: int
    stdout: str
    stderr: str


def find(tool: str) -> str | None:
    """Full path of a tool, or None when it is not installed."""
    return shutil.which(tool, path=_PATH)


async def run(
    argv: Sequence[str],
    *,
    timeout: float | None,  # noqa: ASYNC109 - the tool is killed, which a cancelled wait alone would not do
    env: Mapping[str, str] | None = None,
    on_output: Callable[[bytes], None] | None = None,
    ok: Sequence[int] = (0,),
    outlives: bool = False,
    keep_bytes: int = KEPT_BYTES,
) -> Output:
    """Run a tool to its end. CommandFailed for an exit code that is not in `ok`, HostTimeout when it takes too long.

    The tool gets a process group of its own, which is killed as a whole when time is up or the caller is cancelled;
    should this process die, the kernel kills the tool. One that `outlives` us goes on then.
    """
    program = find(argv[0])
    if program is None:
        raise errors.NotSupported(f"{argv[0]} is not installed", hint=f"install the package that has {argv[0]}")
    launcher, setup = ((), None) if outlives else _tied_to_us()
    process = await asyncio.create_subprocess_exec(
        *launcher,
        program,
        *argv[1:],
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": _PATH, "LC_ALL": "C", **(env or {})},
        start_new_session=True,
        preexec_fn=setup,
    )
    assert process.stdout is not None and process.stderr is not None
    streams = asyncio.gather(_keep(process.stdout, on_output, keep_bytes), _keep(process.stderr, on_output, KEPT_BYTES))
    try:
        async with asyncio.timeout(timeout):
            stdout, stderr = await streams
            exit_code = await process.wait()
    except TimeoutError:
        raise errors.HostTimeout(f"{argv[0]} did not end in {timeout:g} s and was killed") from None
    finally:
        # Also after a plain end: what the tool left running in its group must not go on.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        streams.cancel()
        if process.returncode is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REAP_SECONDS):
                    await asyncio.shield(process.wait())
    if exit_code not in ok:
        raise errors.CommandFailed(argv, exit_code=exit_code, stderr=stderr or stdout)
    return Output(exit_code=exit_code, stdout=stdout, stderr=stderr)


async def _keep(stream: asyncio.StreamReader, on_output: Callable[[bytes], None] | None, most: int) -> str:
    kept = bytearray()
    while chunk := await stream.read(16 * 1024):
        if on_output is not None:
            on_output(chunk)
        kept += chunk
        if len(kept) > 2 * most:
            del kept[:-most]
    return kept[-most:].decode(errors="replace")


@functools.cache
def _tied_to_us() -> tuple[tuple[str, ...], Callable[[], None] | None]:
    """How a tool comes to die with us: setpriv asks the kernel for it; without setpriv we ask between fork and exec."""
    if setpriv := find("setpriv"):
        return (setpriv, "--pdeathsig", "KILL", "--"), None
    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(1, signal.SIGKILL, 0, 0, 0)

    return (), ask
