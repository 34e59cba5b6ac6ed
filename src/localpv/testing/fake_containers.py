"""A container runtime in memory, with the namespaces and root folders that go with it.

All parts write what is done to one journal, so a test can see in which order things happened across them.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from localpv import errors
from localpv.host.containers import Bundle, Process, Seen
from localpv.host.processes import STDOUT

T = TypeVar("T")


@dataclass(slots=True)
class FakeContainer:
    started: bool = False
    exit_code: int | None = None
    ended_at: datetime | None = None
    out_of_memory: bool = False
    heeds: bool = True
    """Whether it ends when it is asked to."""

    signals: list[int] = field(default_factory=list)
    watchers: list[Callable[[], None]] = field(default_factory=list)


class FakeProcess:
    """A command that has run already."""

    def __init__(self, code: int, said: bytes) -> None:
        self._code, self._said = code, said
        self.closed = False
        self.given = b""

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        if self._said:
            yield STDOUT, self._said

    async def write(self, data: bytes) -> None:
        self.given += data

    async def close_input(self) -> None: ...

    async def resize(self, width: int, height: int) -> None: ...

    async def wait(self) -> int:
        return self._code

    async def close(self) -> None:
        self.closed = True


class FakeContainers:
    """Containers by id; what outlives a real engine outlives a new runner over the same fake."""

    def __init__(self, journal: list[str] | None = None) -> None:
        self.journal: list[str] = journal if journal is not None else []
        self.containers: dict[str, FakeContainer] = {}
        self.lacking: tuple[str, ...] = ()
        self.refusals: dict[str, str] = {}
        """Ids that cannot be created, and why."""

        self.heeds = True
        """Whether new containers end when they are asked to."""

        self.stuck = False
        """Whether starting takes for ever."""

        self.being_started: set[str] = set()
        """Ids that a runtime is starting whose caller has died."""

        self.at_work: set[str] = set()
        """Ids at which that runtime is still at work when whoever waits for it gives up."""

        self.answers: dict[tuple[str, ...], tuple[int, bytes]] = {}
        """What commands in containers come to: exit code and output."""

    def missing(self) -> tuple[str, ...]:
        return self.lacking

    async def create(self, bundle: Bundle) -> None:
        await asyncio.sleep(0)
        if bundle.id in self.refusals:
            raise errors.CommandFailed(["runc"], exit_code=1, stderr=self.refusals[bundle.id])
        if bundle.id in self.containers:
            raise errors.CommandFailed(["runc"], exit_code=1, stderr=f"container with id exists: {bundle.id}")
        self.journal.append(f"create {_short(bundle.id)}")
        self.containers[bundle.id] = FakeContainer(heeds=self.heeds)

    async def start(self, bundle: Bundle) -> None:
        if self.stuck:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        self.journal.append(f"start {_short(bundle.id)}")
        self.containers[bundle.id].started = True

    def look(self, bundle: Bundle) -> Seen:
        found = self.containers.get(bundle.id)
        if found is None:
            return Seen()
        return Seen(
            exists=True,
            started=found.started,
            running=found.started and found.exit_code is None,
            exit_code=found.exit_code,
            ended_at=found.ended_at,
            out_of_memory=found.out_of_memory,
        )

    async def settled(self, bundle: Bundle) -> Seen:
        await asyncio.sleep(0)
        self._refuse_at_work(bundle)
        if bundle.id in self.being_started:
            self.journal.append(f"start {_short(bundle.id)}")
            self.containers[bundle.id].started = True
        return self.look(bundle)

    def watch(self, bundle: Bundle, ended: Callable[[], None]) -> Callable[[], None]:
        found = self.containers.get(bundle.id)
        if found is None or found.exit_code is not None:
            return asyncio.get_running_loop().call_soon(ended).cancel
        found.watchers.append(ended)
        return lambda: found.watchers.remove(ended) if ended in found.watchers else None

    async def signal(self, bundle: Bundle, number: int) -> None:
        await asyncio.sleep(0)
        found = self.containers.get(bundle.id)
        if found is None or found.exit_code is not None:
            return
        self.journal.append(f"{signal.Signals(number).name} {_short(bundle.id)}")
        found.signals.append(number)
        if number == signal.SIGKILL or found.heeds:
            self.end(bundle.id, 128 + number)

    async def delete(self, bundle: Bundle) -> None:
        await asyncio.sleep(0)
        self._refuse_at_work(bundle)
        if bundle.id in self.containers:
            self.end(bundle.id, 137)
            del self.containers[bundle.id]
            self.journal.append(f"delete {_short(bundle.id)}")

    async def ids(self) -> frozenset[str]:
        return frozenset(self.containers)

    async def reopen_log(self, bundle: Bundle) -> None:
        self.journal.append(f"reopen {_short(bundle.id)}")
        bundle.log.touch()

    async def exec(self, bundle: Bundle, command: Sequence[str], *, stdin: bool, tty: bool) -> Process:
        await asyncio.sleep(0)
        found = self.containers.get(bundle.id)
        if found is None or not found.started or found.exit_code is not None:
            raise errors.CommandFailed(["runc"], exit_code=1, stderr="cannot exec in a stopped container")
        self.journal.append(f"exec {_short(bundle.id)} {' '.join(command)}")
        return FakeProcess(*self.answers.get(tuple(command), (0, b"")))

    def _refuse_at_work(self, bundle: Bundle) -> None:
        if bundle.id in self.at_work:
            self.journal.append(f"wait for {_short(bundle.id)}")
            raise errors.HostTimeout(f"runc is still at work on container {bundle.id}")

    # What a test does.

    def end(self, id_: str, code: int, *, out_of_memory: bool = False) -> None:
        """Let a container end by itself."""
        found = self.containers[id_]
        if found.exit_code is not None:
            return
        found.exit_code, found.ended_at, found.out_of_memory = code, datetime.now(UTC), out_of_memory
        for told in [*found.watchers]:
            told()
        found.watchers.clear()


class FakeSandboxes:
    """Namespaces that are only noted down."""

    def __init__(self, journal: list[str]) -> None:
        self.journal = journal
        self.made: dict[Path, tuple[str, ...]] = {}

    async def make(self, folder: Path, *, namespaces: Collection[str], host_name: str) -> None:
        await asyncio.sleep(0)
        self.journal.append("sandbox")
        self.made[folder] = tuple(namespaces)

    async def whole(self, folder: Path, *, namespaces: Collection[str]) -> bool:
        return folder in self.made

    async def remove(self, folder: Path) -> None:
        await asyncio.sleep(0)
        if self.made.pop(folder, None) is not None:
            self.journal.append("no sandbox")

    async def inside(self, folder: Path, function: Callable[[], T], *, seconds: float) -> T:
        return function()


class FakeLayers:
    """Root folders without anything in them."""

    def __init__(self, journal: list[str]) -> None:
        self.journal = journal

    async def stack(self, image: Path, folder: Path) -> Path:
        (folder / "root").mkdir(parents=True, exist_ok=True)
        return folder / "root"

    async def hide(self, folder: Path) -> None: ...

    async def remove(self, folder: Path) -> None:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)


def _short(id_: str) -> str:
    """CONTAINER.ATTEMPT, without the pod."""
    return ".".join(id_.split(".")[-2:])
