"""What the kernel tells: entries that come and go, mounts, devices."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from localpv import errors
from localpv.host.feeds import Feed
from localpv.host.folders import Folders
from localpv.host.mounts import Mounts
from localpv.host.uevents import Uevent, Uevents

log = logging.getLogger(__name__)


class Triggers:
    """Listens, and asks for surveys: of one folder, or of all when none is named."""

    def __init__(
        self,
        *,
        folders: Folders,
        mounts: Mounts,
        uevents: Uevents,
        survey: Callable[[str], None],
        device: Callable[[Uevent], None],
    ) -> None:
        self._folders, self._mounts, self._uevents = folders, mounts, uevents
        self._survey, self._device = survey, device
        self._watched: set[str] = set()
        self._changed = asyncio.Event()
        self._feed: Feed[Path] | None = None

    def watch(self, folders: set[str]) -> None:
        """Watch these folders from now on, and no others."""
        if folders != self._watched:
            self._watched = folders
            self._changed.set()
            if self._feed is not None:
                self._feed.close()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_folders(), name="discovery folders")
            group.create_task(self._follow_mounts(), name="discovery mounts")
            group.create_task(self._follow_devices(), name="discovery devices")

    async def _follow_folders(self) -> None:
        while True:
            self._changed.clear()
            try:
                self._feed = self._folders.changes(map(Path, sorted(self._watched)))
            except errors.NotSupported as error:
                log.warning("folders are not watched reason=%s hint=%s", error, error.hint)
                await self._changed.wait()
                continue
            async with self._feed as feed:
                # It listens from now on; what happened since the last survey it does not tell.
                self._survey("")
                async for folder in feed:
                    self._survey("" if folder == Path("/") else str(folder))

    async def _follow_mounts(self) -> None:
        async with self._mounts.changes() as feed:
            async for _ in feed:
                self._survey("")

    async def _follow_devices(self) -> None:
        try:
            opened = self._uevents.changes()
        except errors.NotSupported as error:
            log.warning("devices are not watched reason=%s hint=%s", error, error.hint)
            return
        async with opened as feed:
            async for event in feed:
                if event.lost or event.subsystem == "block":
                    self._device(event)
