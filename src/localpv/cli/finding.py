"""Which disk a person means: any of its names, as long as it is one disk."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterable, Sequence

from localpv import errors
from localpv.api.kinds.localdisk import LocalDisk
from localpv.cli import describe

BY_ID = "/dev/disk/by-id/"
MOST_NAMED = 8


def disk(word: str, disks: Sequence[LocalDisk], *, device: tuple[str, str] | None = None) -> LocalDisk:
    """The one disk that a word names, in full or by a beginning that no other has.

    `device` is node and major:minor of the device that the word is the path of, on the machine we run on.
    """
    by_name = [each for each in disks if each.metadata.name == word]
    if by_name:
        return by_name[0]
    exact = [each for each in disks if word in _names(each)]
    if not exact and device is not None:
        node, number = device
        exact = [each for each in disks if each.spec.node_name == node and number in _numbers(each)]
    found = exact or [each for each in disks if any(name.startswith(word) for name in _names(each)) and word]
    if len(found) == 1:
        return found[0]
    if found:
        raise errors.ConfigurationError(
            f"{word} is not the name of one disk but of {len(found)}", hint=f"name one of: {_listed(found)}"
        )
    if not disks:
        raise errors.ConfigurationError(
            f"there is no disk {word}: there are no disks at all", hint="see that an agent runs on each node"
        )
    raise errors.ConfigurationError(f"there is no disk {word}", hint="see which there are: localpv disks")


def local_device(word: str) -> tuple[str, str] | None:
    """Node and number of a device of this machine, if the word is the path of one."""
    if not word.startswith("/"):
        return None
    try:
        found = os.stat(word)
    except OSError:
        return None
    if not stat.S_ISBLK(found.st_mode):
        return None
    return socket.gethostname().lower(), f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"


def _names(each: LocalDisk) -> Iterable[str]:
    """What a disk is called, most telling first."""
    spec, identity = each.spec, each.status.identity
    yield from (each.metadata.name, spec.entry, f"{spec.node_name}/{spec.entry}", spec.path)
    if spec.volume:
        yield spec.volume.name
    if identity is None:
        return
    for name in identity.by_id:
        yield name
        yield name.removeprefix(BY_ID) if name.startswith(BY_ID) else BY_ID + name
    yield from filter(None, (identity.wwn, identity.serial, identity.part_uuid, identity.fs_uuid))


def _numbers(each: LocalDisk) -> Iterable[str]:
    return (each.status.identity.major_minor,) if each.status.identity else ()


def _listed(found: Sequence[LocalDisk]) -> str:
    """Disks by node and entry; by their full names where that does not tell them apart."""
    short = [describe.short_name(each) for each in found]
    names = short if len(set(short)) == len(short) else [each.metadata.name for each in found]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(sorted(names)[:MOST_NAMED]) + more
