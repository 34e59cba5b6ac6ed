"""The container runtime, real and fake, held to one suite; and what only the real one has."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from localpv import errors
from localpv.host.containers import Bundle, Containers, Process
from localpv.host.runc import RuncContainers
from localpv.host.sandboxes import KernelLayers, KernelSandboxes
from localpv.host.workers import Workers
from localpv.testing.fake_containers import FakeContainers
from localpv.testing.waiting import PATIENCE_SECONDS, eventually

SCRIPT = "trap 'exit 7' TERM; echo out; echo err >&2; while :; do sleep 0.05; done"
PROGRAMS = ("runc", "conmon", "busybox")
MISSING = [name for name in PROGRAMS if shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin") is None]
needs_runtime = pytest.mark.skipif(os.geteuid() != 0 or bool(MISSING), reason=f"needs root and {', '.join(PROGRAMS)}")


class Room:
    """Where containers are made for one test."""

    def __init__(self, folder: Path, containers: Containers) -> None:
        self.folder, self.containers = folder, containers
        self.made: list[Bundle] = []

    def bundle(self, *args: str, **process: Any) -> Bundle:
        id_ = f"test-{uuid.uuid4()}"
        folder = self.folder / id_
        root = folder / "root"
        for name in ("bin", "proc", "dev"):
            (root / name).mkdir(parents=True)
        shutil.copy(shutil.which("busybox", path="/usr/bin:/bin") or "", root / "bin/busybox")
        (root / "bin/sh").symlink_to("busybox")
        (root / "bin/sleep").symlink_to("busybox")
        config = {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": 0, "gid": 0},
                "args": args or ("sh", "-c", SCRIPT),
                "env": ["PATH=/bin"],
                "cwd": "/",
                **process,
            },
            "root": {"path": str(root)},
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
                {"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": ["newinstance"]},
            ],
            "linux": {
                "namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts", "network")],
                "cgroupsPath": f"/localpv/{id_}",
                "resources": {"devices": [{"allow": False, "access": "rwm"}]},
            },
        }
        (folder / "config.json").write_text(json.dumps(config))
        self.made.append(Bundle(id=id_, folder=folder, log=folder / "log" / "0.log"))
        return self.made[-1]

    async def start(self, *args: str) -> Bundle:
        bundle = self.bundle(*args)
        await self.containers.create(bundle)
        await self.containers.start(bundle)
        return bundle


@pytest.fixture(params=[pytest.param("real", marks=needs_runtime), "fake"])
async def room(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Room]:
    containers: Containers = (
        FakeContainers() if request.param == "fake" else RuncContainers(state=tmp_path / "run", workers=Workers())
    )
    if request.param == "fake" and MISSING:
        pytest.skip("the folders are made from busybox")
    made = Room(tmp_path, containers)
    yield made
    for bundle in made.made:
        await containers.delete(bundle)
    assert await containers.ids() == frozenset()


async def test_container_is_created_then_started_then_runs(room: Room) -> None:
    bundle = room.bundle()
    assert not room.containers.look(bundle).exists
    await room.containers.create(bundle)
    seen = room.containers.look(bundle)
    assert seen.exists and not seen.started and not seen.running
    await room.containers.start(bundle)
    seen = room.containers.look(bundle)
    assert seen.started and seen.running and seen.exit_code is None
    assert await room.containers.ids() == {bundle.id}


async def test_end_is_told_once_and_its_code_stays(room: Room) -> None:
    bundle = await room.start()
    told: list[int] = []
    room.containers.watch(bundle, lambda: told.append(1))
    if isinstance(room.containers, FakeContainers):
        room.containers.end(bundle.id, 7)
    else:
        await eventually(lambda: b"out" in bundle.log.read_bytes())
        await room.containers.signal(bundle, signal.SIGTERM)
    await eventually(lambda: told)
    seen = room.containers.look(bundle)
    assert (seen.running, seen.started, seen.exit_code, seen.out_of_memory) == (False, True, 7, False)
    assert seen.ended_at is not None and told == [1]


async def test_watching_what_has_ended_tells_at_once(room: Room) -> None:
    bundle = await room.start()
    await room.containers.signal(bundle, signal.SIGKILL)
    await eventually(lambda: room.containers.look(bundle).exit_code == 137)
    told = asyncio.Event()
    room.containers.watch(bundle, told.set)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await told.wait()


async def test_watch_that_was_given_up_tells_nothing(room: Room) -> None:
    bundle = await room.start()
    told: list[int] = []
    room.containers.watch(bundle, lambda: told.append(1))()
    others = asyncio.Event()
    room.containers.watch(bundle, others.set)
    await room.containers.delete(bundle)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await others.wait()
    assert told == []


async def test_delete_ends_what_runs_and_may_be_repeated(room: Room) -> None:
    bundle = await room.start()
    await room.containers.delete(bundle)
    assert not room.containers.look(bundle).exists
    await room.containers.delete(bundle)
    await room.containers.signal(bundle, signal.SIGTERM)


async def test_same_id_is_not_made_twice(room: Room) -> None:
    bundle = await room.start()
    with pytest.raises(errors.CommandFailed):
        await room.containers.create(bundle)


async def test_nothing_is_run_in_a_container_that_does_not_run(room: Room) -> None:
    bundle = room.bundle()
    await room.containers.create(bundle)
    await room.containers.start(bundle)
    await room.containers.signal(bundle, signal.SIGKILL)
    await eventually(lambda: not room.containers.look(bundle).running)
    try:
        process = await room.containers.exec(bundle, ("sh", "-c", "true"), stdin=False, tty=False)
    except errors.HostError:
        return
    assert await process.wait() != 0
    await process.close()


# What only a real runtime can show.


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[Room]:
    made = Room(tmp_path, RuncContainers(state=tmp_path / "run", workers=Workers()))
    yield made
    for bundle in made.made:
        await made.containers.delete(bundle)


async def heard(process: Process) -> tuple[int, dict[int, bytes]]:
    found: dict[int, bytes] = {}
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for number, chunk in process.output():
            found[number] = found.get(number, b"") + chunk
        code = await process.wait()
    await process.close()
    return code, found


@needs_runtime
async def test_output_is_logged_by_stream_and_line(real: Room) -> None:
    bundle = await real.start("sh", "-c", "echo out; echo err >&2; echo -n half; exit 3")
    await eventually(lambda: real.containers.look(bundle).exit_code == 3)
    lines = sorted(line.split(" ", 1)[1] for line in bundle.log.read_text().splitlines())
    assert lines == ["stderr F err", "stdout F out", "stdout P half"]


@needs_runtime
async def test_process_inside_has_streams_and_an_exit_code(real: Room) -> None:
    bundle = await real.start()
    script = "read word; echo got $word; echo no >&2; exit 5"
    process = await real.containers.exec(bundle, ("sh", "-c", script), stdin=True, tty=False)
    await process.write(b"this\n")
    await process.close_input()
    assert await heard(process) == (5, {1: b"got this\n", 2: b"no\n"})


@needs_runtime
async def test_process_inside_can_have_a_terminal_of_any_size(real: Room) -> None:
    bundle = await real.start()
    process = await real.containers.exec(bundle, ("sh",), stdin=True, tty=True)
    await process.resize(99, 33)
    said = b""

    async def until(word: bytes) -> None:
        nonlocal said
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for _, chunk in process.output():
                said += chunk
                if word in said:
                    return

    await until(b"# ")
    for _ in range(100):
        # The size travels by a signal, which takes a moment.
        said = b""
        await process.write(b"busybox stty size; echo d'o'ne\n")
        await until(b"done")
        if b"33 99" in said:
            break
        await asyncio.sleep(0.05)
    assert b"33 99" in said
    await process.write(b"exit 4\n")
    code, _ = await heard(process)
    assert code == 4


@needs_runtime
async def test_process_inside_ends_when_nobody_listens_any_more(real: Room) -> None:
    bundle = await real.start()
    process = await real.containers.exec(bundle, ("sleep", "12345"), stdin=False, tty=False)
    await eventually(lambda: _runs(b"sleep", b"12345"))
    await process.close()
    await eventually(lambda: not _runs(b"sleep", b"12345"))
    assert real.containers.look(bundle).running


@needs_runtime
async def test_container_that_cannot_be_made_says_why(real: Room) -> None:
    with pytest.raises(errors.CommandFailed, match='exec: "/nope"'):
        await real.containers.create(real.bundle("/nope"))


@needs_runtime
async def test_log_goes_on_in_a_new_file(real: Room) -> None:
    bundle = await real.start("sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; busybox sleep 0.01; done")
    await eventually(lambda: bundle.log.exists() and bundle.log.stat().st_size > 200)
    aside = bundle.log.with_name("0.log.old")
    bundle.log.rename(aside)
    await real.containers.reopen_log(bundle)
    await eventually(lambda: bundle.log.exists() and bundle.log.stat().st_size > 200)
    numbers = [int(line.split()[-1]) for path in (aside, bundle.log) for line in path.read_text().splitlines(True)[:]]
    assert numbers == list(range(1, len(numbers) + 1)), "no line is lost"


@needs_runtime
async def test_namespaces_stay_without_a_process_and_go_when_told(tmp_path: Path) -> None:
    sandboxes, folder, names = KernelSandboxes(workers=Workers()), tmp_path / "sandbox", ("net", "uts", "ipc")
    try:
        await sandboxes.make(folder, namespaces=names, host_name="elsewhere")
        assert await sandboxes.whole(folder, namespaces=names)
        numbers = [os.stat(folder / name).st_ino for name in names]
        assert numbers != [os.stat(f"/proc/self/ns/{name}").st_ino for name in names]
        await sandboxes.make(folder, namespaces=names, host_name="elsewhere")
        assert numbers == [os.stat(folder / name).st_ino for name in names], "what is there stays"
        interfaces = await sandboxes.inside(folder, lambda: _interfaces(), seconds=PATIENCE_SECONDS)
        assert interfaces == {"lo"} and os.uname().nodename != "elsewhere"
    finally:
        await sandboxes.remove(folder)
    assert not folder.exists()
    await sandboxes.remove(folder)


@needs_runtime
async def test_root_folder_has_the_image_below_and_is_removed_whole(tmp_path: Path) -> None:
    image, folder = tmp_path / "image: with, signs", tmp_path / "container"
    (image / "etc").mkdir(parents=True)
    (image / "etc/file").write_text("image")
    layers = KernelLayers(workers=Workers())
    root = await layers.stack(image, folder)
    (root / "etc/file").write_text("changed")
    (root / "new").touch()
    with pytest.raises(errors.DeviceBusy):
        await layers.remove(tmp_path)
    assert (image / "etc/file").read_text() == "image" and not (image / "new").exists()
    await layers.hide(folder)
    assert not os.path.ismount(root)
    await layers.remove(folder)
    assert not folder.exists() and (image / "etc/file").exists()


def _runs(*command: bytes) -> bool:
    """Whether a process is this command, and not one that is about to start it."""
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                if Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")[:-1] == [*command]:
                    return True
            except OSError:
                continue
    return False


def _interfaces() -> set[str]:
    lines = Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]
    return {line.partition(":")[0].strip() for line in lines}


@needs_runtime
async def test_container_that_began_while_its_starter_was_killed_has_begun(real: Room) -> None:
    bundle = await real.start()
    fifo = real.folder / "run" / bundle.id / "exec.fifo"
    os.mkfifo(fifo)
    await eventually(lambda: real.containers.look(bundle).running)
    fifo.unlink()


@needs_runtime
async def test_start_that_goes_on_when_its_caller_was_killed_is_waited_for(real: Room) -> None:
    bundle = real.bundle()
    await real.containers.create(bundle)
    runtime = await asyncio.create_subprocess_exec("runc", "--root", str(real.folder / "run"), "start", bundle.id)
    with contextlib.suppress(ProcessLookupError):
        runtime.send_signal(signal.SIGSTOP)  # at whatever moment of the start
    settled = asyncio.create_task(real.containers.settled(bundle))
    await asyncio.sleep(0.1)
    with contextlib.suppress(ProcessLookupError):
        runtime.send_signal(signal.SIGCONT)
    assert (await settled).started
    assert await runtime.wait() == 0


async def test_container_that_nobody_starts_is_not_waited_for(room: Room) -> None:
    bundle = room.bundle()
    assert not (await room.containers.settled(bundle)).exists
    await room.containers.create(bundle)
    seen = await room.containers.settled(bundle)
    assert seen.exists and not seen.started


STARTER = """
import asyncio, pathlib, sys
from localpv.host.containers import Bundle
from localpv.host.runc import RuncContainers
from localpv.host.workers import Workers
folder = pathlib.Path(sys.argv[2])
bundle = Bundle(id=sys.argv[1], folder=folder, log=folder / "log" / "0.log")
asyncio.run(RuncContainers(state=folder.parent / "run", workers=Workers()).start(bundle))
"""


@needs_runtime
async def test_start_goes_on_when_we_are_killed_in_the_middle_of_it(real: Room) -> None:
    bundle = real.bundle()
    await real.containers.create(bundle)
    starter = await asyncio.create_subprocess_exec(sys.executable, "-c", STARTER, bundle.id, str(bundle.folder))
    await eventually(lambda: _stopped(b"start", bundle.id.encode()) or starter.returncode is not None)
    with contextlib.suppress(ProcessLookupError):
        starter.kill()
    await starter.wait()
    for runtime in _processes(b"start", bundle.id.encode()):
        os.kill(runtime, signal.SIGCONT)
    seen = await real.containers.settled(bundle)
    assert (seen.running, seen.exit_code) == (True, None)


def _stopped(*words: bytes) -> bool:
    """Stop the process whose command line ends with these words; whether there is one."""
    found = _processes(*words)
    for process in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGSTOP)
    return bool(found)


def _processes(*words: bytes) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")[-3:-1] == [*words]:
                    found.append(int(name))
    return found


@needs_runtime
async def test_start_is_waited_for_when_we_are_told_to_stop(real: Room) -> None:
    bundle = real.bundle()
    await real.containers.create(bundle)
    starting = asyncio.ensure_future(real.containers.start(bundle))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert real.containers.look(bundle).running
