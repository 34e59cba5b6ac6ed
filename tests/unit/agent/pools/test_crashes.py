"""The agent dies before every act on the disk and before and after every write to the API server: another goes on, and
nothing is left over, made twice, lost, or shown to the next."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.agent.pools.node import MIB, PoolNode

from localpv import errors
from localpv.agent.pools.file_pool import FilePool
from localpv.api.kinds.localpool import PoolVolume
from localpv.client.transport import Answer, Request, Transport
from localpv.host.model import methods
from localpv.host.workers import Workers

SIZE = 2 * MIB
OLD = b"old tenant"


class Died(BaseException):
    """The process is no more."""


class Death:
    """Comes before the given act on anything below a folder; told by the interpreter's own audit events."""

    EVENTS = frozenset({"open", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate", "fcntl.ioctl"})

    def __init__(self) -> None:
        self.folder, self.left, self.came = "", -1, False
        sys.addaudithook(self._hear)

    def before(self, act: int, folder: Path) -> None:
        self.folder, self.left, self.came = str(folder), act, False

    def over(self) -> None:
        self.left = -1

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.left < 0 or event not in self.EVENTS:
            return
        if event != "fcntl.ioctl" and not str(arguments[0]).startswith(self.folder):
            return
        if self.left == 0:
            # A dead process does nothing more, whatever its code would do about an error.
            self.came = True
            raise Died
        self.left -= 1


DEATH = Death()
Act = Callable[[FilePool], Coroutine[Any, Any, object]]


def a_pool(folder: Path) -> FilePool:
    return FilePool(name="fast", directory=folder, size_bytes=16 * MIB, workers=Workers())


async def until_it_lives(folder: Path, act: Act) -> int:
    """Do something as processes that die one act later each time, on one and the same pool; returns how many died."""
    for died in range(100):
        DEATH.before(died, folder)
        try:
            await act(a_pool(folder))
        except Died:
            continue
        finally:
            DEATH.over()
        assert not DEATH.came
        return died
    raise AssertionError("it never lives")


async def dies_at_each(folder: Path, prepare: Act, act: Act, check: Act) -> int:
    """For each act of it: prepared anew, dead before that act, done again by another, checked."""
    for number in range(100):
        place = folder / str(number)
        await prepare(a_pool(place))
        DEATH.before(number, place)
        try:
            await act(a_pool(place))
            came = False
        except Died:
            came = True
        finally:
            DEATH.over()
        await act(a_pool(place))
        await check(a_pool(place))
        if not came:
            return number
    raise AssertionError("it never ends")


async def nothing(pool: FilePool) -> None:
    await pool.state()


async def with_old_bytes(pool: FilePool) -> None:
    await pool.create("pvc-1", SIZE)
    data = pool._files.data("pvc-1")
    data.write_bytes(OLD * (SIZE // len(OLD)) + bytes(SIZE % len(OLD)))


def expects(**sizes: int) -> Act:
    async def check(pool: FilePool) -> None:
        state = await pool.state()
        assert {name: volume.size_bytes for name, volume in state.volumes.items()} == sizes
        assert all(volume.ready and not volume.abnormal for volume in state.volumes.values())
        assert state.promised_bytes == sum(sizes.values())
        assert {path.name for path in pool._files.directory.iterdir()} == {*sizes}
        for name in sizes:
            folder = pool._files.directory / name
            assert {path.name for path in folder.iterdir()} <= {"data", "localpv.json", ".new-localpv.json"}

    return check


async def test_a_volume_whose_maker_dies_is_made_whole_by_the_next(tmp_path: Path) -> None:
    async def check(pool: FilePool) -> None:
        await expects(**{"pvc-1": SIZE})(pool)
        assert pool._files.data("pvc-1").read_bytes() == bytes(SIZE)

    acts = await dies_at_each(tmp_path, nothing, lambda pool: pool.create("pvc-1", SIZE), check)
    assert acts > 6
    assert await until_it_lives(tmp_path / "again", lambda pool: pool.create("pvc-1", SIZE)) > 6


async def test_a_volume_whose_remover_dies_is_gone_with_the_next_and_its_bytes_are_seen_by_nobody(
    tmp_path: Path,
) -> None:
    async def check(pool: FilePool) -> None:
        await expects()(pool)
        await pool.create("pvc-1", SIZE)
        assert pool._files.data("pvc-1").read_bytes() == bytes(SIZE)

    remove: Act = lambda pool: pool.remove("pvc-1", method=methods.ZeroOut())  # noqa: E731
    assert await dies_at_each(tmp_path, with_old_bytes, remove, check) > 6


async def test_a_volume_whose_remover_died_is_never_handed_out(tmp_path: Path) -> None:
    """Also when whoever comes next wants to make one of the same name, instead of removing it."""
    for number in range(100):
        place = tmp_path / str(number)
        await with_old_bytes(a_pool(place))
        DEATH.before(number, place)
        try:
            await a_pool(place).remove("pvc-1", method=methods.ZeroOut())
            return
        except Died:
            pass
        finally:
            DEATH.over()
        state = (await a_pool(place).state()).volumes.get("pvc-1")
        data = a_pool(place)._files.data("pvc-1")
        if state is not None and state.ready:
            assert data.read_bytes().startswith(OLD)  # nothing has begun
            continue
        try:
            await a_pool(place).create("pvc-1", SIZE)
        except errors.DeviceBusy:
            continue
        assert data.read_bytes() == bytes(SIZE)
    raise AssertionError("it never ends")


async def test_a_clone_whose_maker_dies_is_made_whole_by_the_next(tmp_path: Path) -> None:
    async def check(pool: FilePool) -> None:
        await expects(**{"pvc-1": SIZE, "pvc-2": 2 * SIZE})(pool)
        source, clone = (pool._files.data(name).read_bytes() for name in ("pvc-1", "pvc-2"))
        assert clone == source + bytes(SIZE)

    acts = await dies_at_each(
        tmp_path, with_old_bytes, lambda pool: pool.create("pvc-2", 2 * SIZE, source="pvc-1"), check
    )
    assert acts > 6


async def test_a_volume_whose_expander_dies_is_as_large_as_asked_for_after_the_next(tmp_path: Path) -> None:
    async def check(pool: FilePool) -> None:
        await expects(**{"pvc-1": 2 * SIZE})(pool)
        data = pool._files.data("pvc-1").read_bytes()
        assert data[:SIZE].startswith(OLD)
        assert data[SIZE:] == bytes(SIZE)

    assert await dies_at_each(tmp_path, with_old_bytes, lambda pool: pool.expand("pvc-1", 2 * SIZE), check) > 3


class DiesAt:
    """Lets so many writes through, and then nothing: the next is lost on its way, or only its answer is."""

    def __init__(self, inner: Transport, writes: int, *, answered: bool) -> None:
        self._inner, self._left, self._answered = inner, writes, answered
        self.dead = asyncio.Event()

    async def request(self, request: Request) -> Answer:
        if request.method != "GET":
            if self._left == 0 and not self.dead.is_set():
                self.dead.set()
                if self._answered:
                    await self._inner.request(request)
            if self.dead.is_set():
                await asyncio.get_running_loop().create_future()
            self._left -= 1
        return await self._inner.request(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._inner.stream(request)


@pytest.mark.parametrize("answered", [False, True])
async def test_an_agent_that_dies_at_any_write_is_followed_by_one_that_goes_on(node: PoolNode, answered: bool) -> None:
    for writes in range(6):
        name = f"pvc-{writes}"
        await node.ask(name, SIZE)
        transport = DiesAt(node.engine.transport, writes, answered=answered)
        async with node.agent(client=node.engine.client_over(transport)):
            await until_dead_or(node, transport, lambda name=name: is_ready(node, name))  # type: ignore[misc]
        async with node.agent():
            await node.until_ready(name)
        assert node.folders() == {name}
        node.data(name).write_bytes(OLD + bytes(SIZE - len(OLD)))
        await node.client.objects(PoolVolume).delete(name)
        transport = DiesAt(node.engine.transport, writes, answered=answered)
        async with node.agent(client=node.engine.client_over(transport)):
            await until_dead_or(node, transport, lambda name=name: is_gone(node, name))  # type: ignore[misc]
        async with node.agent():
            await node.until_gone(name)
            await node.until_pool(lambda pool: pool.status.foreign_bytes == 0)
        assert node.folders() == set()


async def is_ready(node: PoolNode, name: str) -> bool:
    found = await node.volume(name)
    return found is not None and found.status.phase == "Ready"


async def is_gone(node: PoolNode, name: str) -> bool:
    return await node.volume(name) is None


async def until_dead_or(node: PoolNode, transport: DiesAt, done: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    async def over() -> bool:
        return transport.dead.is_set() or await done()

    await node.engine.until(over, "dead or done")


def test_the_audit_of_acts_sees_what_the_pool_does(tmp_path: Path) -> None:
    DEATH.before(1, tmp_path)
    try:
        (tmp_path / "one").mkdir()
        with pytest.raises(Died):
            os.rename(tmp_path / "one", tmp_path / "two")
    finally:
        DEATH.over()
    assert (tmp_path / "one").exists()
