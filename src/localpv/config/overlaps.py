"""Classes that would offer the same disk: one class's cleaning would wipe the other's data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import PurePosixPath

from localpv.config.settings import ClassSettings, Folder
from localpv.config.values import Problem


def problems(classes: Iterable[ClassSettings]) -> Iterator[Problem]:
    """Pairs of classes with the same directory or one inside the other, unless their patterns keep them apart."""
    all_of_them = [(each, place, folder) for each in classes for place, folder in _places(each)]
    for (one, _, first), (two, place, second) in combinations(all_of_them, 2):
        if why := _same_disks(one, two, first.host_dir, second.host_dir):
            yield Problem(f"{place}.hostDir", why)
        elif first.host_dir != second.host_dir and (why := _same_disks(one, two, first.mount_dir, second.mount_dir)):
            yield Problem(f"{place}.mountDir", why)


def _places(settings: ClassSettings) -> Iterator[tuple[str, Folder]]:
    for number, folder in enumerate(settings.folders):
        further = f".directories[{number - 1}]" if number else ""
        yield f"storageClassMap.{settings.name}{further}", folder


def _same_disks(one: ClassSettings, two: ClassSettings, first: str, second: str) -> str:
    if first == second:
        if one is two:
            return f"{second} is named twice"
        if one.name_pattern.overlaps(two.name_pattern):
            return f"{second} is the directory of class {one.name} too, and an entry can match both name patterns"
        return ""
    for outer, inner, around, inside in ((one, two, first, second), (two, one, second, first)):
        path = PurePosixPath(inside)
        if path.is_relative_to(around):
            entry = path.relative_to(around).parts[0]
            if outer.name_pattern.matches(entry):
                return (
                    f"{inside} of class {inner.name} lies inside {around} of class {outer.name},"
                    f" which would offer {entry} and all that is in it"
                )
    return ""
