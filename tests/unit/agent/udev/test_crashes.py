"""Killed before and after each act of a discoverer: no link lost under a volume, no rules left without an owner."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from tests.unit.agent.udev.node_world import YOUNG, NodeWorld, devices, told

from localpv.agent.udev.discoverer import Discoverer
from localpv.client.transport import Answer, Request
from localpv.config.local_storage import NodeConfiguration
from localpv.host.udev import UdevDevice

BOUND = "fast/block/scsi-S1"


class Killed(BaseException):
    """The process is dead; no `except Exception` goes on after it."""


class Fate:
    """Lets so many acts happen; the next one is the last, or never happens. `looks` is asked after each."""

    def __init__(self, looks: Callable[[], None], *, at: int = -1, after: bool = False) -> None:
        self._looks, self._at, self._after = looks, at, after
        self.acts = 0
        self.came = False

    async def act(self, act: Awaitable[Answer | None]) -> Answer | None:
        self.acts += 1
        if self.acts == self._at and not self._after:
            act.close()  # type: ignore[attr-defined]
            self._die()
        done = await act
        self._looks()
        if self.acts == self._at:
            self._die()
        return done

    def _die(self) -> None:
        self.came = True
        self._at = -1
        raise Killed


class MortalUdev:
    """The udev of the world, each act of which may be the last of the one who asks for it."""

    def __init__(self, world: NodeWorld, fate: Fate) -> None:
        self._inner, self._fate = world.udev, fate

    async def files(self, prefix: str) -> dict[str, str]:
        return await self._inner.files(prefix)

    async def write(self, name: str, text: str) -> None:
        await self._fate.act(self._inner.write(name, text))

    async def remove(self, name: str) -> None:
        await self._fate.act(self._inner.remove(name))

    async def running(self) -> bool:
        return await self._inner.running()

    async def reload(self) -> None:
        await self._fate.act(self._inner.reload())

    async def trigger(self, names: Collection[str], *, argument: str = "") -> None:
        for name in names:  # each device by itself: one may die among them
            await self._fate.act(self._inner.trigger([name], argument=argument))

    async def settle(self, *, seconds: float) -> bool:
        return await self._inner.settle(seconds=seconds)

    async def devices(self) -> tuple[UdevDevice, ...]:
        return await self._inner.devices()


class MortalTransport:
    """The API server of the world; writes are acts."""

    def __init__(self, world: NodeWorld, fate: Fate) -> None:
        self._inner, self._fate = world.server, fate

    async def request(self, request: Request) -> Answer:
        if request.method == "GET":
            return await self._inner.request(request)
        answer = await self._fate.act(self._inner.request(request))
        assert answer is not None
        return answer

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._inner.stream(request)


class Story:
    """A LocalStorage from its first day to its last, beside another one that stays."""

    def __init__(self, folder: Path, *, at: int = -1, after: bool = False) -> None:
        self.world = NodeWorld(folder)
        self.world.disk("sda", "ROOT")
        self.world.disk("sdb", "S1")
        self.world.disk("sdc", "S2")
        self.world.disk("nvme0n1", ID_SERIAL="N1")
        self.bound = False
        self.fate = Fate(self._check, at=at, after=after)

    def _check(self) -> None:
        """After each act: the link of the volume is there, and leads to its disk."""
        if self.bound:
            assert self.world.links().get(BOUND) == "sdb", "a link was lost under a volume"

    def _start(self, *configurations: NodeConfiguration) -> Discoverer:
        return self.world.discoverer(
            *configurations, udev=MortalUdev(self.world, self.fate), transport=MortalTransport(self.world, self.fate)
        )

    async def _settled(self, *configurations: NodeConfiguration) -> Discoverer:
        """A pod whose container is started again whenever it dies, until all is as it should be."""
        while True:
            discoverer = self._start(*configurations)
            try:
                await discoverer.look()
            except Killed:
                continue
            return discoverer

    async def tell(self) -> None:
        world = self.world
        other = told(world.storage("other", devices("slow", "sdb", "nvme*"), created=YOUNG))
        await self._settled(other)
        assert world.links() == {"slow/block/nvme-N1": "nvme0n1", "slow/block/scsi-S1": "sdb"}

        first = told(world.storage("a", devices("fast", "sdb")))
        await self._settled(first)
        assert world.links() == {"fast/block/scsi-S1": "sdb", "slow/block/nvme-N1": "nvme0n1"}
        world.publish(BOUND)
        self.bound = True

        storage = world.storage("a", devices("fast", "sd[bc]"))
        discoverer = await self._settled(told(storage))
        assert world.links() == {
            "fast/block/scsi-S1": "sdb",
            "fast/block/scsi-S2": "sdc",
            "slow/block/nvme-N1": "nvme0n1",
        }
        with contextlib.suppress(Killed):
            await discoverer.leave()  # an update
        await self._settled(told(storage))
        assert len(world.links()) == 3

        await self._settled(told(world.storage("a", devices("moved", "sd[bc]"))))
        assert world.links() == {
            "fast/block/scsi-S1": "sdb",
            "moved/block/scsi-S2": "sdc",
            "slow/block/nvme-N1": "nvme0n1",
        }
        storage = world.storage("a", devices("fast", "sd[bc]"))
        await self._settled(told(storage))
        assert len(world.links()) == 3

        discoverer = await self._settled(told(storage, retired=True))
        assert world.links() == {"fast/block/scsi-S1": "sdb", "slow/block/nvme-N1": "nvme0n1"}

        self.bound = False
        world.release(BOUND)
        discoverer = await self._settled(told(storage, retired=True))
        world.delete_storage("a")
        with contextlib.suppress(Killed):  # its pod is gone then, and no other comes
            await discoverer.leave()
        await self._settled(other)

        assert [*world.udev.rules] == ["99-kubernetes-local-storage-other.rules"]
        assert world.links() == {"slow/block/nvme-N1": "nvme0n1", "slow/block/scsi-S1": "sdb"}
        found = world.report("other")
        assert found is not None and (found.status.matched, found.status.error) == (2, "")
        world.udev.restart()
        assert world.links() == {"slow/block/nvme-N1": "nvme0n1", "slow/block/scsi-S1": "sdb"}


@pytest.mark.long
@pytest.mark.seed("OPR-8", "OPR-17")
async def test_killed_at_each_act_from_the_first_rule_to_the_last(tmp_path: Path) -> None:
    undisturbed = Story(tmp_path / "undisturbed")
    await undisturbed.tell()
    assert undisturbed.fate.acts > 20
    for at, after in itertools.product(range(1, undisturbed.fate.acts + 1), (False, True)):
        story = Story(tmp_path / f"{at}-{after}", at=at, after=after)
        await story.tell()
        assert story.fate.came, f"nobody died at act {at}"
