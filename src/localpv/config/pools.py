"""Pools in the settings of a class: room that volumes of any size are carved out of.

    pool: {kind: file, directory: /var/pool, size: 500Gi}

A class has either a directory in which disks are found, or a pool. Two classes may name the same pool, and then must
say the same of it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from localpv.api.kinds.localpool import PoolKind
from localpv.api.quantity import Quantity
from localpv.config.values import Problem, Value
from localpv.volume import pool_names

KEYS: Mapping[str, tuple[str, ...]] = {
    PoolKind.FILE: ("kind", "name", "directory", "size"),
}
"""What can be said of a pool of each kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """A pool of every node that serves the class."""

    name: str
    """Name of the pool on its node; volumes keep it in their handles. Left out, it is made of the directory's."""

    kind: str
    directory: str = ""
    """Of a pool of files: where they lie."""

    size_bytes: int = 0
    """Of a pool of files: how much all its volumes may have together; 0 for as much as the file system has."""

    @property
    def place(self) -> str:
        """What the pool is made of: two pools cannot be made of the same."""
        return self.directory


ReadFolder = Callable[[Value], str | None]


def read(value: Value, *, folder: ReadFolder) -> PoolSettings | None:
    """The pool that a class names; what is wrong is noted, and then there is none. `folder` reads a directory."""
    entries = value.entries()
    if entries is None:
        return None
    if "kind" not in entries or entries["kind"].absent:
        value.wrong(f"has no kind; there are {', '.join(KEYS)}")
        return None
    kind = entries["kind"].choice([*KEYS])
    if kind is None:
        return None
    found = value.struct(KEYS[kind]) or {}
    before = len(value.notes.problems)
    if "directory" not in found:
        value.wrong("has no directory: a pool of files needs one")
    directory = folder(found["directory"]) if "directory" in found else None
    size_bytes = _bytes(found["size"]) if "size" in found else 0
    name = _name(found["name"]) if "name" in found else _named_after(value, posixpath.basename(directory or "pool"))
    if len(value.notes.problems) > before or not name:
        return None
    return PoolSettings(name=name, kind=kind, directory=directory or "", size_bytes=size_bytes)


def _name(value: Value) -> str:
    name = value.text() or ""
    if not pool_names.is_pool(name):
        value.wrong(f'"{name}" is no name of a pool: small letters, digits and hyphens, at most 63')
        return ""
    return name


def _named_after(value: Value, word: str) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", word.lower()).strip("-")[:63].strip("-")
    if not name:
        value.wrong(f'has no name, and none can be made of "{word}": give it one with name')
    return name


def _bytes(value: Value) -> int:
    text = value.text()
    try:
        size = Quantity.parse(text or "").value
    except ValueError:
        size = 0
    if size <= 0:
        value.wrong(f'must be a size such as 500Gi, but is "{text}"')
    return size


def clashes(pools: Iterable[tuple[str, PoolSettings]]) -> Iterator[Problem]:
    """Classes, by name, whose pools cannot both be there."""
    by_name: dict[str, tuple[str, PoolSettings]] = {}
    by_place: dict[str, tuple[str, PoolSettings]] = {}
    for name, pool in pools:
        place = f"storageClassMap.{name}.pool"
        other, same = by_name.setdefault(pool.name, (name, pool))
        if same.place != pool.place:
            yield Problem(place, f"class {other} has another pool named {pool.name}: give one of them a name")
            continue
        if same != pool:
            yield Problem(
                place, f"class {other} says other things of the same pool {pool.name}: both must say the same"
            )
            continue
        other, same = by_place.setdefault(pool.place, (name, pool))
        if same.name != pool.name:
            yield Problem(place, f"class {other} has {pool.place} as pool {same.name}: it cannot be two pools")
