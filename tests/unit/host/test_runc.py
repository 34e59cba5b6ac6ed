"""How containers are seen: what the runtime and the monitor leave on disk, at whichever moment one looks."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from localpv import errors
from localpv.host import runc
from localpv.host.containers import Bundle
from localpv.host.runc import RuncContainers
from localpv.host.workers import Workers
from localpv.testing.waiting import eventually


def test_container_whose_monitor_ends_during_the_look_has_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = Bundle(id="one", folder=tmp_path / "bundle", log=tmp_path / "log")
    bundle.folder.mkdir()
    (tmp_path / "state" / "one").mkdir(parents=True)
    (tmp_path / "state" / "one" / "state.json").touch()
    (bundle.folder / "conmon.pid").write_text("4194000")

    def ends_just_now(pid: int, id_: str) -> bool:
        (bundle.folder / "exit").write_text("3")
        return False

    monkeypatch.setattr(runc, "_is_monitor", ends_just_now)
    seen = RuncContainers(state=tmp_path / "state", workers=Workers()).look(bundle)
    assert (seen.running, seen.exit_code) == (False, 3)


class Runtime:
    """A program called runc that works on a container until it is told to end."""

    def __init__(self, folder: Path) -> None:
        self.program = folder / "runc"
        self.program.write_text("#!/bin/sh\nread word\n")
        self.program.chmod(0o755)

    @contextlib.asynccontextmanager
    async def at_work(self, id_: str) -> AsyncIterator[asyncio.subprocess.Process]:
        process = await asyncio.create_subprocess_exec(self.program, "start", id_, stdin=asyncio.subprocess.PIPE)
        try:
            # It has this name from the moment in which it is another program than ours.
            await eventually(lambda: runc._Maker.read(process.pid) is not None)
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(tmp_path)


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return Bundle(id=f"{tmp_path.name}.main.0", folder=tmp_path / "bundle", log=tmp_path / "log")


async def test_container_is_not_settled_while_a_runtime_is_at_work_on_it(
    runtime: Runtime, bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runc, "MAKING_SECONDS", 0.1)
    containers = RuncContainers(state=tmp_path / "state", workers=Workers())
    async with runtime.at_work(bundle.id) as process:
        with pytest.raises(errors.HostTimeout, match="still at work"):
            await containers.settled(bundle)
        with pytest.raises(errors.HostTimeout, match="still at work"):
            await containers.delete(bundle)
        assert process.returncode is None
        assert not (await containers.settled(Bundle(id="other", folder=bundle.folder, log=bundle.log))).exists
        process.stdin.close()  # type: ignore[union-attr]
        await process.wait()
    assert not (await containers.settled(bundle)).exists
    await containers.delete(bundle)


async def test_runtime_that_takes_longer_than_it_may_is_killed_and_no_other(
    runtime: Runtime, bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runc, "SECONDS", -1.0)
    containers = RuncContainers(state=tmp_path / "state", workers=Workers())
    async with runtime.at_work(bundle.id) as process, runtime.at_work("other") as other:
        assert not (await containers.settled(bundle)).exists
        assert await process.wait() == -9
        assert other.returncode is None


async def test_process_of_another_name_or_of_another_container_is_no_maker(runtime: Runtime, bundle: Bundle) -> None:
    async with runtime.at_work(bundle.id) as process:
        found = runc._Maker.read(process.pid)
        assert found is not None and found.name == "runc" and bundle.id.encode() in found.words
        assert found.seconds < 3600
        assert runc._Maker.read(1) is None


async def test_many_who_wait_share_a_look_that_is_not_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[threading.Thread] = []
    go_on = threading.Event()

    def look() -> list[runc._Maker]:
        looks.append(threading.current_thread())
        go_on.wait()
        return []

    monkeypatch.setattr(runc, "_look_for_makers", look)
    makers = runc._Makers(Workers())
    waiting = [asyncio.create_task(makers.of(f"container-{number}")) for number in range(50)]
    await eventually(lambda: bool(looks))
    go_on.set()
    assert await asyncio.gather(*waiting) == [[]] * 50
    assert len(looks) <= 2 and threading.main_thread() not in looks
