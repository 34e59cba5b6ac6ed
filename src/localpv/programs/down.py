"""`localpv down`: everything of localpv on this machine ended and unmounted; data and volumes stay.

It works on the data folder and on the machine alone, so it does not matter whether the engine runs, has stopped or was
killed, nor whether its data folder is still there. Every step can be repeated.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from localpv import errors
from localpv.engine.kubelet.paths import KubeletPaths
from localpv.engine.kubelet.shutdown import Shutdown
from localpv.engine.kubelet.volumes import host_parts
from localpv.engine.kubelet.volumes.volume_manager import Teardown
from localpv.engine.store.lock import FolderLock
from localpv.host.mounts import KernelMounts
from localpv.host.runc import RuncContainers
from localpv.host.sandboxes import KernelLayers, KernelSandboxes
from localpv.host.workers import Workers
from localpv.programs import stored as reading
from localpv.programs.stored import Stored
from localpv.runtime.clock import SystemClock

STOP_SECONDS = 60.0
"""How long the engine may take to stop: it finishes what it has accepted, and the demo takes its pods along."""

Say = Callable[[str], None]


async def run(data: Path, *, grace_seconds: float | None, say: Say) -> None:
    """Stop the engine, end the pods, unmount; DeviceBusy, with what is left, when something has to stay."""
    stop_engine(data, say=say)
    with locked(data):
        stored = reading.read(data)
        if stored.trouble:
            say(f"the database cannot be read, so pods get 30 s to end: {stored.trouble}")
        # Only root's engines run pods.
        failed = await _end(data, stored, grace_seconds, say) if os.geteuid() == 0 else []
        left = await mounted(data)
    if failed or left:
        raise errors.DeviceBusy(
            "not everything could be taken away: " + "; ".join([*failed, *(f"{one} is mounted" for one in left[:5])]),
            hint="see who works there with `fuser -vm`, and run `localpv down` again",
        )
    say("No pod runs, and nothing is mounted. Data, objects and volumes stay as they are.")


def stop_engine(data: Path, *, say: Say) -> None:
    """Tell the process that has the data folder open to stop, and wait until it has."""
    lock = FolderLock(Path(os.path.realpath(data)))
    if (pid := lock.owner()) is None:
        return
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if lock.owner() != pid:  # not before we hold on to it: numbers of processes are given again
            return
        say(f"localpv (process {pid}) is told to stop")
        signal.pidfd_send_signal(fd, signal.SIGTERM)
        waiting = select.poll()
        waiting.register(fd, select.POLLIN)
        if not waiting.poll(STOP_SECONDS * 1000):
            raise errors.StartError(
                f"localpv (process {pid}) has not stopped in {STOP_SECONDS:.0f} s",
                hint=f"look at its log; `kill -9 {pid}` harms neither data nor pods",
            )
    finally:
        os.close(fd)
    say(f"localpv (process {pid}) has stopped")


@contextlib.contextmanager
def locked(data: Path) -> Iterator[None]:
    """The data folder held, so that no engine starts meanwhile; one that is not there is there for so long."""
    folder = Path(os.path.realpath(data))
    made = not folder.exists()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = FolderLock(folder)
    lock.acquire()
    try:
        yield
    finally:
        if made:
            lock.path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                folder.rmdir()
        lock.release()


async def mounted(data: Path) -> list[str]:
    """Everything that is mounted below the data folder or the folder for its mounts."""
    table, folders = await KernelMounts().table(), {Path(os.path.realpath(data)), KubeletPaths.of(data).run}
    return sorted({str(mount.mount_point) for folder in folders for mount in table.below(folder)})


async def _end(data: Path, stored: Stored, grace_seconds: float | None, say: Say) -> list[str]:
    """End the pods; what could not be taken away, in words."""
    workers = Workers()
    kernel = host_parts.on_this_machine(workers=workers)

    async def end(paths: KubeletPaths) -> list[str]:
        ending = Shutdown(
            paths=paths,
            containers=RuncContainers(state=paths.runtime, workers=workers),
            sandboxes=KernelSandboxes(workers=workers),
            layers=KernelLayers(workers=workers),
            volumes=Teardown.below(paths.layout, host=kernel),
            pods=stored.pods,
            clock=SystemClock(),
            say=say,
            grace_seconds=grace_seconds,
        )
        return [*await ending.run()]

    before = KubeletPaths.before(data)
    if before.runtime.is_dir() and os.listdir(before.runtime):
        # Pods of an earlier version come first, and alone: records do not say where their containers are, and no
        # engine of this version has started beside them.
        return await end(before)
    pods = {
        mount.relative_to(before.pods).parts[0]
        for mount in map(Path, await mounted(data))
        if before.pods in mount.parents
    }
    tearing = Teardown.below(before.layout, host=kernel)
    failed = []
    for uid in sorted(pods):
        try:
            await tearing.tear_down(uid)
        except errors.HostError as error:
            failed.append(f"pod {uid}: {error.message}")
    return [*failed, *await end(KubeletPaths.of(data))]
