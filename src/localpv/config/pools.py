"""Pools in the settings of a class: room that volumes of any size are carved out of.

    pool: {kind: file, directory: /var/pool, size: 500Gi}
    pool: {kind: lvm, volumeGroup: vg1, devices: [/dev/disk/by-id/one, /dev/disk/by-id/two]}
    pool: {kind: lvm-thin, volumeGroup: vg1, overprovision: 2.0}

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
    PoolKind.LVM: ("kind", "name", "volumeGroup", "devices", "stripes"),
    PoolKind.LVM_THIN: ("kind", "name", "volumeGroup", "thinPool", "devices", "size", "overprovision"),
}
"""What can be said of a pool of each kind."""

THIN_POOL = "localpv-thin"
"""What a thin pool is called when nobody says."""

MOST_DEVICES = 256
MOST_STRIPES = 64
MOST_OVERPROVISION = 100.0

_is_lvm_name = re.compile(r"[A-Za-z0-9+_.][A-Za-z0-9+_.-]{0,119}", re.ASCII).fullmatch
_is_ratio = re.compile(r"[0-9]{1,3}(\.[0-9]{1,6})?", re.ASCII).fullmatch


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """A pool of every node that serves the class."""

    name: str
    """Name of the pool on its node; volumes keep it in their handles. Left out, it is made of the directory's."""

    kind: str
    directory: str = ""
    """Of a pool of files: where they lie."""

    size_bytes: int = 0
    """Of a pool of files: how much all its volumes may have together; 0 for as much as the file system has. Of a thin
    pool: how large it is made when there is none; 0 for all that is free in its group."""

    volume_group: str = ""
    """Of pools of LVM."""

    thin_pool: str = ""
    """Name of the logical volume that is the thin pool; made when there is none."""

    devices: tuple[str, ...] = ()
    """Of which the group is made when there is none, each blank; LVM then looks at no others."""

    stripes: int = 1
    """Over how many disks of the group each volume is spread."""

    overprovision: float = 1.0
    """How many times the size of a thin pool its volumes may have together."""

    @property
    def place(self) -> str:
        """What the pool is made of: two pools cannot be made of the same."""
        return self.directory or f"{self.volume_group}/{self.thin_pool}"


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
    before = len(value.notes.problems)
    found = value.struct(KEYS[kind]) or {}
    needed = "directory" if kind == PoolKind.FILE else "volumeGroup"
    if needed not in found:
        value.wrong(f"has no {needed}: a pool of kind {kind} needs one")
    directory = folder(found["directory"]) if "directory" in found else None
    group = _lvm_name(found["volumeGroup"]) if "volumeGroup" in found else ""
    thin_pool = ""
    if kind == PoolKind.LVM_THIN:
        thin_pool = _lvm_name(found["thinPool"]) if "thinPool" in found else THIN_POOL
    word = posixpath.basename(directory or "") or (group if thin_pool in ("", THIN_POOL) else f"{group}-{thin_pool}")
    made = PoolSettings(
        name=_name(found["name"]) if "name" in found else _named_after(value, word),
        kind=kind,
        directory=directory or "",
        size_bytes=_bytes(found["size"]) if "size" in found else 0,
        volume_group=group,
        thin_pool=thin_pool,
        devices=_devices(found["devices"]) if "devices" in found else (),
        stripes=_stripes(found["stripes"]) if "stripes" in found else 1,
        overprovision=_overprovision(found["overprovision"]) if "overprovision" in found else 1.0,
    )
    return made if len(value.notes.problems) == before else None


def _lvm_name(value: Value) -> str:
    name = value.text() or ""
    if not _is_lvm_name(name) or name in (".", ".."):
        value.wrong(f'"{name}" is no name that LVM takes: letters, digits and + _ . -, not first a hyphen')
    elif name.startswith(("snapshot", "pvmove")):
        value.wrong(f'"{name}" is a name that LVM keeps for itself')
    return name


def _devices(value: Value) -> tuple[str, ...]:
    found = value.texts() or ()
    for path in found:
        if not path.startswith("/dev/") or ".." in path.split("/") or "\0" in path or "," in path:
            value.wrong(f'"{path}" is no device: name it by its full path below /dev')
    if len(set(found)) != len(found):
        value.wrong("names a device twice")
    if len(found) > MOST_DEVICES:
        value.wrong(f"has {len(found)} devices; at most {MOST_DEVICES}")
    return found


def _stripes(value: Value) -> int:
    count = value.whole_number()
    if count is not None and not 1 <= count <= MOST_STRIPES:
        value.wrong(f"must be from 1 to {MOST_STRIPES}, but is {count}")
    return count or 1


def _overprovision(value: Value) -> float:
    text = value.text() or ""
    if not _is_ratio(text) or not 1.0 <= float(text) <= MOST_OVERPROVISION:
        value.wrong(f'must be a number from 1.0 to {MOST_OVERPROVISION:g}, but is "{text}"')
        return 1.0
    return float(text)


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
