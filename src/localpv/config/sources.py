"""Where a configuration comes from, and which one is in force."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from localpv.api.kinds.cluster import ConfigMap
from localpv.config import reading
from localpv.config.reading import Loaded
from localpv.config.settings import Configuration
from localpv.config.values import Problem

FOLDER = Path("/etc/provisioner/config")
"""Where the classic provisioner has its ConfigMap mounted."""

LARGEST_FILE = 1024 * 1024
"""What a whole ConfigMap may hold; a larger file is not one of its keys."""

_SNAPSHOT = "..data"
_TRIES = 3


def from_config_map(config_map: ConfigMap) -> Loaded:
    """The configuration in a ConfigMap that was read from the API."""
    loaded = reading.read(config_map.data)
    binary = tuple(Problem(key, "must be text, but is in binaryData") for key in config_map.binary_data)
    return Loaded(None, (*loaded.problems, *binary)) if binary else loaded


def from_folder(folder: Path, *, others: Collection[str] = ()) -> Loaded:
    """The configuration in a folder with one file per key, such as a mounted ConfigMap.

    Files whose names end in one of `others` belong to somebody else and are passed over.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            texts, problems = _files(folder, others)
            break
        except FileNotFoundError:
            # The kubelet has put a new version in place while we read, and removed the one we were in.
            if not tries_left:
                return Loaded(None, (Problem(str(folder), "there is no such folder"),))
        except OSError as error:
            return Loaded(None, (Problem(str(folder), f"cannot be read: {error.strerror}"),))
    loaded = reading.read(texts)
    return Loaded(None, (*problems, *loaded.problems)) if problems else loaded


def _files(folder: Path, others: Collection[str]) -> tuple[dict[str, str], list[Problem]]:
    # All keys of a mounted ConfigMap change at once, by this link: following it first makes them one version.
    snapshot = folder / _SNAPSHOT
    folder = Path(os.path.realpath(snapshot)) if snapshot.is_symlink() else folder
    texts: dict[str, str] = {}
    problems: list[Problem] = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.suffix in others or not path.is_file():
            continue
        try:
            with path.open("rb") as file:
                content = file.read(LARGEST_FILE + 1)
            if len(content) > LARGEST_FILE:
                problems.append(Problem(path.name, f"has more than {LARGEST_FILE} bytes"))
            else:
                texts[path.name] = content.decode()
        except UnicodeDecodeError:
            problems.append(Problem(path.name, "is not UTF-8"))
        except PermissionError:
            problems.append(Problem(path.name, "may not be read by this process"))
    return texts, problems


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """What holds after a new version of the configuration was seen."""

    config: Configuration | None
    """None until there was a good one."""

    problems: tuple[Problem, ...] = ()
    """Why the newest version, or a part of it, is not the one in force; empty when it is."""

    changed: bool = False
    """Whether something must be done about it."""

    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    altered: frozenset[str] = frozenset()
    """Classes that came, went, or have other settings."""


def succeed(before: Configuration | None, loaded: Loaded) -> InForce:
    """Let a new version take the place of the present one, if it is right; a wrong one changes nothing."""
    after = loaded.config
    if after is None:
        return InForce(config=before, problems=loaded.problems)
    old, new = before.classes if before else {}, after.classes
    return InForce(
        config=after,
        problems=loaded.problems,
        changed=after != before,
        added=frozenset(new.keys() - old.keys()),
        removed=frozenset(old.keys() - new.keys()),
        altered=frozenset(name for name in old.keys() & new.keys() if old[name] != new[name]),
    )
