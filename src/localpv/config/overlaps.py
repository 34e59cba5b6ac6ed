"""Classes that would offer the same disk: one class's cleaning would wipe the other's data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import PurePosixPath

from localpv.config import pools
from localpv.config.settings import ClassSettings, Folder
from localpv.config.values import Problem


def problems(classes: Iterable[ClassSettings]) -> Iterator[Problem]:
    """Pairs of classes with the same directory or one inside the other, unless their patterns keep them apart."""
    classes = [*classes]
    yield from pools.clashes((each.name, each.pool) for each in classes if each.pool is not None)
    all_of_them = [(each, place, folder) for each in classes for place, folder in _places(each)]
    for (one, _, first), (two, place, second) in combinations(all_of_them, 2):
        if one.pool is not None or two.pool is not None:
            if one.pool != two.pool and (why := _pool_in_folder(one, two, first, second)):
                yield Problem(place, why)
        elif why := _same_disks(one, two, first.host_dir, second.host_dir):
            yield Problem(f"{place}.hostDir", why)
        elif first.host_dir != second.host_dir and (why := _same_disks(one, two, first.mount_dir, second.mount_dir)):
            yield Problem(f"{place}.mountDir", why)


def _places(settings: ClassSettings) -> Iterator[tuple[str, Folder]]:
    if settings.pool is not None and settings.pool.directory:
        directory = settings.pool.directory
        yield f"storageClassMap.{settings.name}.pool.directory", Folder(host_dir=directory, mount_dir=directory)
    for number, folder in enumerate(settings.folders):
        further = f".directories[{number - 1}]" if number else ""
        yield f"storageClassMap.{settings.name}{further}", folder


def _pool_in_folder(one: ClassSettings, two: ClassSettings, first: Folder, second: Folder) -> str:
    """A pool must not be where disks are found: its files would be offered, and wiped."""
    if one.pool is None and two.pool is None:
        return ""
    for outer, inner in ((first, second), (second, first)):
        if PurePosixPath(inner.host_dir).is_relative_to(outer.host_dir):
            return f"{inner.host_dir} lies inside {outer.host_dir} of another class: a pool has a directory to itself"
    return ""


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
