"""One look at the discovery directories of a class: what lies in them, and what gets no record.

A class has one record for each name of an entry. Where two directories of a class have an entry of one name, the record
stays with the directory that it names while it must: as long as a volume has the disk, or an unfinished cleaning is to
be made good there. Else neither is offered until one of the two is gone: nobody could tell which was meant.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from localpv.agent.discover.entry import Index, Place, Sighting, see
from localpv.config.globs import NamePattern
from localpv.config.settings import ClassSettings, Folder
from localpv.host import marks
from localpv.host.folders import LOOK_SECONDS, Folders
from localpv.host.mounts import Mounts
from localpv.host.workers import Workers

IGNORED = {
    "LostAndFound": "fsck keeps what it finds in lost+found: it is never offered. Delete the claim of its volume.",
    "Mark": "Files of this name tell which devices were in use; they are never offered. Give the entry another name.",
    "NameNotMatched": "The name pattern of the class does not match the entry any more; change one of them.",
    "NameNotText": "The name of the entry is not UTF-8; give it another name.",
}
"""Why an entry gets no record: a word for programs, and a sentence for the record that it has from before."""


Belongs = Callable[[Place, ClassSettings, Folder], bool]
"""Whether an entry of a directory can be the one that the record of its place is about, if it has one."""


def anywhere(place: Place, settings: ClassSettings, folder: Folder) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found."""

    found: dict[Place, Sighting] = field(default_factory=dict)
    ignored: dict[Place, str] = field(default_factory=dict)
    """Entries that get no record, with the word that says why."""


class Surveyor:
    """Lists directories, first level only, and asks no disk."""

    def __init__(self, *, folders: Folders, mounts: Mounts, workers: Workers, belongs: Belongs = anywhere) -> None:
        self._folders, self._mounts, self._workers, self._belongs = folders, mounts, workers, belongs

    async def survey(self, settings: ClassSettings) -> Survey:
        """HostError or OSError when a directory cannot be read, which says nothing about what is in it."""
        made = Survey()
        for folder in settings.folders:
            found = await self._folder(settings, folder)
            made.ignored.update(found.ignored)
            for place, sighting in found.found.items():
                if not self._belongs(place, settings, folder):
                    continue
                first = made.found.setdefault(place, sighting)
                if first is not sighting:
                    made.found[place] = replace(first, twice=folder.host_dir)
        return made

    async def _folder(self, settings: ClassSettings, where: Folder) -> Survey:
        folder = Path(where.mount_dir)
        made = Survey()
        try:
            entries = await self._folders.entries(folder)
        except (FileNotFoundError, NotADirectoryError):
            return made
        real_folder = await self._workers.call(
            lambda: os.path.realpath(folder), key=f"{folder} itself", timeout=LOOK_SECONDS
        )
        # The table is read after the entries: a directory that was listed before it was mounted on is seen with its
        # mount. The other way round the event of the unmount follows.
        mounts = Index(await self._mounts.table())
        for entry in entries:
            place = Place(settings.name, entry.name)
            if word := _unfit(settings.name_pattern, entry.name):
                made.ignored[place] = word
            else:
                made.found[place] = see(entry, folder=folder, real_folder=real_folder, mounts=mounts)
        return made

    def hangs(self, settings: ClassSettings, entry: str) -> bool:
        """Whether an entry is left out of surveys because a call about it never came back."""
        stuck = self._workers.stuck()
        return any(os.path.join(folder.mount_dir, entry) in stuck for folder in settings.folders)


@lru_cache(maxsize=4096)
def _unfit(pattern: NamePattern, name: str) -> str:
    if name == "lost+found":
        return "LostAndFound"  # of the file system whose top the discovery directory is; fsck puts files there
    if name.startswith(marks.FILE):
        return "Mark"
    if not pattern.matches(name):
        return "NameNotMatched"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "NameNotText"
    return ""
