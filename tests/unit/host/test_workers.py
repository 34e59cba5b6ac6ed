"""One hung disk stops nobody, and no tool lives longer than its caller."""

# ruff: noqa: ASYNC110 - what is waited for happens in a thread or another process

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from pathlib import Path

import pytest

from localpv import errors
from localpv.host import commands, mountcalls
from localpv.host.feeds import WAITING, Feed
from localpv.host.workers import Control, Workers
from localpv.testing.waiting import PATIENCE_SECONDS


async def test_a_hung_disk_is_left_behind_and_the_others_answer() -> None:
    workers, release = Workers(at_once=2), threading.Event()
    try:
        with pytest.raises(errors.HostTimeout):
            await workers.call(lambda: release.wait(PATIENCE_SECONDS), key="/dev/dead", timeout=0.05)
        assert workers.stuck() == ("/dev/dead",)
        with pytest.raises(errors.HostTimeout, match="still hangs"):
            await workers.call(lambda: None, key="/dev/dead", timeout=3600)  # it is not waited for
        answers = await asyncio.gather(
            *(workers.call(lambda n=n: n, key=f"/dev/{n}", timeout=PATIENCE_SECONDS) for n in range(20))  # type: ignore[misc]
        )
        assert answers == list(range(20))
    finally:
        release.set()
    while workers.stuck():
        await asyncio.sleep(0.01)
    assert await workers.call(lambda: "back", key="/dev/dead", timeout=PATIENCE_SECONDS) == "back"


async def test_threads_are_used_again_and_end_when_nobody_needs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localpv.host.workers.IDLE_SECONDS", 3600)
    workers = Workers()

    async def thread() -> threading.Thread:
        found = await workers.call(threading.current_thread, key="x", timeout=PATIENCE_SECONDS)
        while not workers._threads._idle:
            await asyncio.sleep(0.001)
        return found

    first = await thread()
    assert await thread() is first and first.name == "host x"
    monkeypatch.setattr("localpv.host.workers.IDLE_SECONDS", 0.1)
    assert await workers.call(threading.current_thread, key="x", timeout=PATIENCE_SECONDS) is first
    first.join(PATIENCE_SECONDS)
    assert not first.is_alive()
    assert await workers.call(threading.current_thread, key="x", timeout=PATIENCE_SECONDS) is not first


async def test_a_thread_in_namespaces_of_its_own_is_not_used_again() -> None:
    workers = Workers()

    def leave() -> threading.Thread:
        # Who may not leave is not believed to have stayed either.
        with contextlib.suppress(PermissionError):
            mountcalls.leave_namespaces(mountcalls.NAMESPACES["uts"])
        return threading.current_thread()

    gone = await workers.call(leave, key="x", timeout=PATIENCE_SECONDS)
    gone.join(PATIENCE_SECONDS)
    assert not gone.is_alive() and not workers._threads._idle
    assert not await workers.call(mountcalls.has_own_namespaces, key="x", timeout=PATIENCE_SECONDS)


async def test_an_error_of_the_call_is_the_callers() -> None:
    def fail() -> None:
        raise FileNotFoundError("gone")

    with pytest.raises(FileNotFoundError):
        await Workers().call(fail, key="x", timeout=PATIENCE_SECONDS)


async def test_a_cancelled_job_has_stopped_when_its_caller_is_told() -> None:
    begun, ended = threading.Event(), threading.Event()

    def count(control: Control) -> None:
        try:
            while True:
                control.check()
                begun.set()
                time.sleep(0.01)
        finally:
            time.sleep(0.05)  # who does not wait for the end is told before it
            ended.set()

    job = asyncio.create_task(Workers().long(count, key="x"))
    while not begun.is_set():
        await asyncio.sleep(0.01)
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    assert ended.is_set()


async def test_a_tool_gets_a_plain_environment_and_its_output_is_bounded() -> None:
    answer = await commands.run(["env"], timeout=PATIENCE_SECONDS, env={"A": "b"})
    assert set(answer.stdout.split()) >= {"LC_ALL=C", "A=b"} and "HOME=" not in answer.stdout
    told: list[int] = []
    answer = await commands.run(
        ["sh", "-c", "head -c 3000000 /dev/zero; echo end"],
        timeout=PATIENCE_SECONDS,
        on_output=lambda part: told.append(len(part)),
    )
    assert len(answer.stdout) == commands.KEPT_BYTES and answer.stdout.endswith("end\n")
    assert sum(told) == 3_000_004


async def test_a_tool_that_fails_tells_its_exit_code_and_words() -> None:
    with pytest.raises(errors.CommandFailed, match="sh exited with 3: broken") as caught:
        await commands.run(["sh", "-c", "echo broken >&2; exit 3"], timeout=PATIENCE_SECONDS)
    assert caught.value.exit_code == 3
    assert (await commands.run(["sh", "-c", "exit 2"], timeout=PATIENCE_SECONDS, ok=(0, 2))).exit_code == 2
    with pytest.raises(errors.NotSupported, match="not installed"):
        await commands.run(["no-such-tool"], timeout=PATIENCE_SECONDS)


async def test_a_tool_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    script = f"sleep 3600 & echo $! > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; wait"
    for seconds in (0.5, 5, 30):  # a busy machine may need longer to come as far as the child
        with pytest.raises(errors.HostTimeout):
            await commands.run(["sh", "-c", script], timeout=seconds)
        if (tmp_path / "pid").exists():
            break
    await _gone(int((tmp_path / "pid").read_text()))


async def test_a_tool_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    script = (
        "import asyncio\nfrom localpv.host import commands\n"
        f"asyncio.run(commands.run(['sh', '-c', 'echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; "
        "exec sleep 3600'], timeout=3600))"
    )
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    while not (tmp_path / "pid").exists():
        await asyncio.sleep(0.02)
    parent.kill()
    await parent.wait()
    await _gone(int((tmp_path / "pid").read_text()))


async def _gone(pid: int) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                await asyncio.sleep(0.01)


async def test_a_feed_that_nobody_reads_asks_to_look_at_everything() -> None:
    feed = Feed(overflow=-1)
    for number in range(WAITING + 1):
        feed.put(number)
    feed.put(5)
    feed.put(5)
    assert [await anext(feed), await anext(feed)] == [-1, 5]
    feed.close()
    assert [change async for change in feed] == []
