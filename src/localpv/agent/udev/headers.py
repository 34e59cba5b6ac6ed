"""The classes of LocalStorages on this node, as the headers of our files of rules say them.

A file that cannot be read, or whose header is damaged, says what it said before: classes go only with their file.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from localpv import errors
from localpv.agent.udev import rules_file
from localpv.config import local_storage
from localpv.config.local_storage import NodeConfiguration
from localpv.config.settings import ClassSettings
from localpv.config.values import Problem
from localpv.host.udev import ENDING, MOST_FILES, RULES_BYTES


class Headers:
    """What the files said last."""

    def __init__(self, folder: Path, *, engine: str = "") -> None:
        """`engine` says whose files are meant."""
        self._folder, self._engine = folder, engine
        self._known: dict[str, NodeConfiguration] = {}
        self._classes: Mapping[str, ClassSettings] = {}
        self.there = False
        """Whether the folder was there at the last reading: without it nobody can tell which classes there are."""

    async def classes(self) -> tuple[Mapping[str, ClassSettings], tuple[Problem, ...]]:
        """The classes of all files together, and what is wrong with files."""
        there, known, problems = await asyncio.to_thread(self._read)
        self.there = there
        if known != self._known:
            ours = [each for each in known.values() if each.engine == self._engine]
            self._known, self._classes = known, local_storage.classes(ours, rules_file.digests(ours))
        return self._classes, problems

    def _read(self) -> tuple[bool, dict[str, NodeConfiguration], tuple[Problem, ...]]:
        try:
            names = sorted(name for name in os.listdir(self._folder) if _is_called_like_ours(name))
        except FileNotFoundError:
            return False, {}, ()  # a machine without udev has no such folder
        except OSError as error:
            return self.there, self._known, (Problem(str(self._folder), f"cannot be read: {error.strerror}"),)
        found: dict[str, NodeConfiguration] = {}
        problems: list[Problem] = []
        for name in names[:MOST_FILES]:
            path = self._folder / name
            try:
                text = _text(path)
                if rules_file.is_ours(text) or name in self._known:
                    found[name] = rules_file.configuration(text)
                continue
            except FileNotFoundError:
                continue
            except OSError as error:
                problems.append(Problem(str(path), f"cannot be read: {error.strerror}"))
            except (errors.ConfigurationError, UnicodeDecodeError) as error:
                problems.append(Problem(str(path), str(error)))
            if name in self._known:
                found[name] = self._known[name]
        return True, found, tuple(problems)


def _is_called_like_ours(name: str) -> bool:
    return name.startswith(rules_file.PREFIX) and name.endswith(ENDING)


def _text(path: Path) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        text = file.read(RULES_BYTES + 1)
    if len(text) > RULES_BYTES:
        raise errors.ConfigurationError(f"has more than {RULES_BYTES} bytes")
    return text.decode()
