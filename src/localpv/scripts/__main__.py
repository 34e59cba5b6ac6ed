"""Clean the disk that the environment names: `python3 -m localpv.scripts METHOD [PASSES]`.

Exit status: 0 it is clean and that was checked, 1 it is not, 2 the call makes no sense and nothing was touched,
130 interrupted.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from localpv import errors
from localpv.host.devices import KernelDevices, KernelOpeners
from localpv.host.model import methods
from localpv.host.model.methods import Progress
from localpv.host.mounts import KernelMounts
from localpv.host.trees import KernelTrees
from localpv.host.wiper import KernelWiper
from localpv.host.workers import Workers

DEVICE, DIRECTORY = "LOCAL_PV_BLKDEVICE", "LOCAL_PV_FILESYSTEM"
FS_CLEAN = "fs-clean"
TELL_SECONDS = 5.0


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Clean, and say how it went."""
    try:
        if list(arguments) == [FS_CLEAN]:
            work = _empty(_path(environment, DIRECTORY))
        else:
            method = methods.parse(arguments)
            if isinstance(method, methods.Command):
                raise ValueError(f"{arguments[0]} is no method ({', '.join((*methods.built_in(), FS_CLEAN))})")
            work = _wipe(_path(environment, DEVICE), method)
    except ValueError as error:
        print(f"localpv: {error}", file=sys.stderr)
        return 2
    try:
        print(asyncio.run(work))
    except errors.LocalpvError as error:
        print(f"localpv: {error}" + (f"\n  {error.hint}" if error.hint else ""), file=sys.stderr)
        return 1
    except OSError as error:
        print(f"localpv: the disk refused: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("localpv: interrupted; the disk is not clean", file=sys.stderr)
        return 130
    return 0


def _path(environment: Mapping[str, str], variable: str) -> Path:
    path = environment.get(variable, "")
    if not path.startswith("/"):
        raise ValueError(f"{variable} must name the disk to clean by its full path")
    return Path(path)


async def _wipe(path: Path, method: methods.Method) -> str:
    workers = Workers()
    devices = KernelDevices(workers=workers)
    try:
        device = await devices.describe(path)
    except FileNotFoundError as error:
        raise errors.HostError(f"{path} is not there") from error
    if openers := await KernelOpeners(workers=workers).of(device.number):
        raise errors.DeviceBusy(f"{path} is open in {', '.join(openers)}", hint="end that first")
    # Who names a device by hand means the one that is there now; it must only not change until it is wiped.
    wiping = KernelWiper(workers=workers, devices=devices)
    await wiping.wipe(device.path, method, expected=device.identity, on_progress=_Told())
    return f"{path} is clean"


async def _empty(path: Path) -> str:
    trees = KernelTrees(workers=Workers(), mounts=KernelMounts())
    count = await trees.empty(path, inside=path.parent, on_progress=_Told())
    return f"{path} is empty; {count} entries were removed"


class _Told:
    """Tells now and then how far it is: the log of a Job must not fill with it."""

    def __init__(self) -> None:
        self._next, self._step = 0.0, ""

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if now < self._next and progress.step == self._step:
            return
        self._next, self._step = now + TELL_SECONDS, progress.step
        share = f"{progress.done * 100 // progress.total} %" if progress.total else str(progress.done)
        print(f"{progress.step}: {share}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
