"""Logs are read from either end, by time and by size, and followed across files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from localpv.api.pod_logs import PodLogOptions
from localpv.engine.kubelet import logs
from localpv.testing.waiting import PATIENCE_SECONDS


def line(number: int, text: str, tag: str = "F") -> str:
    return f"2026-01-01T00:00:{number:02d}.123456789+00:00 stdout {tag} {text}\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "0.log"
    path.write_text("".join(line(number, f"line {number}") for number in range(10)))
    return path


async def read(path: Path, **options: object) -> str:
    wanted = PodLogOptions(**options)  # type: ignore[arg-type]
    return b"".join([chunk async for chunk in logs.stream(path, wanted, done=lambda: True)]).decode()


async def test_log_is_the_text_without_what_the_runtime_adds(log: Path) -> None:
    assert await read(log) == "".join(f"line {number}\n" for number in range(10))


async def test_last_lines_are_counted_from_the_end(log: Path) -> None:
    assert await read(log, tail_lines=2) == "line 8\nline 9\n"
    assert await read(log, tail_lines=0) == ""
    assert await read(log, tail_lines=100) == await read(log)


async def test_line_in_parts_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_text(line(0, "zero") + line(1, "one ", "P") + line(1, "and ", "P") + line(1, "half") + line(2, "two"))
    assert await read(path) == "zero\none and half\ntwo\n"
    assert await read(path, tail_lines=2) == "one and half\ntwo\n"


async def test_last_lines_of_a_log_longer_than_one_block(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_text("".join(line(number % 60, f"{number} {'x' * 500}") for number in range(1000)))
    found = (await read(path, tail_lines=300)).splitlines()
    assert len(found) == 300 and found[0].startswith("700 ") and found[-1].startswith("999 ")


async def test_since_leaves_out_what_is_older(log: Path) -> None:
    assert await read(log, since=1767225608.0) == "line 8\nline 9\n"


async def test_times_are_shown_when_asked_for(log: Path) -> None:
    assert await read(log, tail_lines=1, timestamps=True) == "2026-01-01T00:00:09.123456789Z line 9\n"


async def test_no_more_than_so_many_bytes(log: Path) -> None:
    assert await read(log, limit_bytes=10) == "line 0\nlin"


async def test_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert await read(tmp_path / "none") == ""


async def test_followed_log_tells_what_comes_and_ends_with_the_container(log: Path) -> None:
    ended = False
    heard: list[bytes] = []

    async def follow() -> None:
        async for chunk in logs.stream(log, PodLogOptions(follow=True, tail_lines=1), done=lambda: ended):
            heard.append(chunk)  # noqa: PERF401 - others look at it while it grows

    following = asyncio.create_task(follow())
    await _until(lambda: heard == [b"line 9\n"])
    with log.open("a") as file:
        file.write(line(10, "half a line")[:-5])
        file.flush()
        await asyncio.sleep(logs.LOOK_SECONDS * 2)
        assert heard == [b"line 9\n"], "a line that is being written is not told"
        file.write(line(10, "half a line")[-5:])
    await _until(lambda: heard[1:] == [b"half a line\n"])
    # Put aside while it is followed.
    log.rename(log.with_name("0.log.old"))
    with log.with_name("0.log.old").open("a") as file:
        file.write(line(11, "last of the old"))
    log.write_text(line(12, "first of the new"))
    await _until(lambda: heard[2:] == [b"last of the old\n", b"first of the new\n"])
    ended = True
    async with asyncio.timeout(PATIENCE_SECONDS):
        await following


async def _until(holds) -> None:  # type: ignore[no-untyped-def]
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if holds():
                return
            await asyncio.sleep(0.01)
