"""What makes discovery look: a change leads to a look at what it is about, one that was lost to a look at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from localpv import errors
from localpv.agent.discover.triggers import Triggers
from localpv.host.feeds import Feed
from localpv.host.uevents import LOST, Uevent
from localpv.testing.waiting import eventually


class Kernel:
    """Folders, mounts and uevents of a machine."""

    def __init__(self) -> None:
        self.folders: list[tuple[list[str], Feed[Path]]] = []
        self.mounts = Feed(overflow="mounts")
        self.uevents = Feed(overflow=LOST)
        self.can_watch = True
        self.surveyed: list[str] = []
        self.devices: list[Uevent] = []

    def parts(self) -> Triggers:
        kernel = self

        class Folders:
            def changes(self, folders: Iterable[Path]) -> Feed[Path]:
                if not kernel.can_watch:
                    raise errors.NotSupported("no inotify")
                kernel.folders.append(([str(one) for one in folders], Feed(overflow=Path("/"))))
                return kernel.folders[-1][1]

        class Mounts:
            def changes(self) -> Feed[str]:
                return kernel.mounts

        class Uevents:
            def changes(self) -> Feed[Uevent]:
                if not kernel.can_watch:
                    raise errors.NotSupported("no netlink")
                return kernel.uevents

        return Triggers(
            folders=Folders(),  # type: ignore[arg-type]
            mounts=Mounts(),  # type: ignore[arg-type]
            uevents=Uevents(),  # type: ignore[arg-type]
            survey=self.surveyed.append,
            device=self.devices.append,
        )


@asynccontextmanager
async def running(kernel: Kernel) -> AsyncIterator[Triggers]:
    triggers = kernel.parts()
    triggers.watch({"/mnt/fast"})
    task = asyncio.create_task(triggers.run())
    try:
        yield triggers
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def surveyed(kernel: Kernel, *expected: str) -> None:
    await eventually(lambda: len(kernel.surveyed) >= len(expected))
    assert kernel.surveyed == list(expected)
    kernel.surveyed.clear()


async def test_change_in_a_folder_leads_to_a_look_at_it_and_a_lost_one_to_a_look_at_all() -> None:
    kernel = Kernel()
    async with running(kernel):
        await surveyed(kernel, "")
        kernel.folders[0][1].put(Path("/mnt/fast"))
        await surveyed(kernel, "/mnt/fast")
        kernel.folders[0][1].put(Path("/"))
        await surveyed(kernel, "")
        kernel.mounts.put("mounts")
        await surveyed(kernel, "")


async def test_other_folders_are_watched_from_then_on_and_looked_at() -> None:
    kernel = Kernel()
    async with running(kernel) as triggers:
        await surveyed(kernel, "")
        triggers.watch({"/mnt/fast"})
        triggers.watch({"/mnt/slow", "/mnt/fast"})
        await surveyed(kernel, "")
        assert [folders for folders, _ in kernel.folders] == [["/mnt/fast"], ["/mnt/fast", "/mnt/slow"]]


async def test_only_messages_about_disks_are_passed_on_and_that_some_were_lost() -> None:
    kernel = Kernel()
    disk = Uevent(action="add", subsystem="block", device_name="sdb")
    async with running(kernel):
        for event in (Uevent(action="add", subsystem="net", device_name="eth0"), disk, LOST):
            kernel.uevents.put(event)
        await eventually(lambda: len(kernel.devices) == 2)
    assert kernel.devices == [disk, LOST]


async def test_where_nothing_can_be_watched_the_mounts_still_are() -> None:
    kernel = Kernel()
    kernel.can_watch = False
    async with running(kernel) as triggers:
        kernel.mounts.put("mounts")
        await surveyed(kernel, "")
        kernel.can_watch = True
        triggers.watch({"/mnt/slow"})
        await surveyed(kernel, "")
        assert kernel.folders[0][0] == ["/mnt/slow"]
