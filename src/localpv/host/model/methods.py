"""Ways to wipe a block device, and how far a wiping has come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Readback(StrEnum):
    """How much is read again after a wiping that promises zeroes."""

    FULL = "full"
    SAMPLE = "sample"
    """Both ends and some hundred places between: seconds instead of hours on a large disk."""


@dataclass(frozen=True, slots=True)
class Zero:
    """Zeroes over the whole device."""

    passes: int = 1


@dataclass(frozen=True, slots=True)
class Discard:
    """Tell the device that nothing on it is needed; it must then read as zeroes."""


@dataclass(frozen=True, slots=True)
class ZeroOut:
    """Whatever makes the device read as zeroes soonest: it discards, zeroes by itself, or is written over."""


@dataclass(frozen=True, slots=True)
class FsReset:
    """A new file system over the old one, then its signatures removed: quick, and only metadata is destroyed."""


@dataclass(frozen=True, slots=True)
class Shred:
    """Random passes, then zeroes."""

    passes: int = 3


@dataclass(frozen=True, slots=True)
class AtaErase:
    """The drive's own security erase, through hdparm."""


@dataclass(frozen=True, slots=True)
class NvmeFormat:
    """The drive's own format with erasure of user data, through nvme-cli."""


@dataclass(frozen=True, slots=True)
class Command:
    """A program of the administrator; the device is in LOCAL_PV_BLKDEVICE."""

    argv: tuple[str, ...]


Method = Zero | Discard | ZeroOut | FsReset | Shred | AtaErase | NvmeFormat | Command

_NAMES: dict[str, type[Zero | Discard | ZeroOut | FsReset | Shred | AtaErase | NvmeFormat]] = {
    "zero": Zero,
    "discard": Discard,
    "zeroout": ZeroOut,
    "fs-reset": FsReset,
    "shred": Shred,
    "ata-erase": AtaErase,
    "nvme-format": NvmeFormat,
    # The scripts that came with the classic provisioner, by the paths its users have in their configuration.
    "/scripts/dd_zero.sh": Zero,
    "/scripts/blkdiscard.sh": Discard,
    "/scripts/quick_reset.sh": FsReset,
    "/scripts/shred.sh": Shred,
}


def parse(words: Sequence[str]) -> Method:
    """The method that a list of words names: a built-in one with its number of passes, else a command to run."""
    if not words or not words[0]:
        raise ValueError("the list is empty: name a method, such as fs-reset, or a command")
    kind = _NAMES.get(words[0])
    if kind is None:
        if "/" not in words[0]:
            raise ValueError(f"{words[0]} is no method ({', '.join(built_in())}), and a command needs its full path")
        return Command(tuple(words))
    if kind is not Zero and kind is not Shred:
        if len(words) > 1:
            raise ValueError(f"{words[0]} takes no argument")
        return kind()
    if len(words) == 1:
        return kind()
    if len(words) > 2 or not words[1].isascii() or not words[1].isdecimal() or not 1 <= int(words[1]) <= 100:
        raise ValueError(f"{words[0]} takes the number of passes, 1 to 100")
    return kind(int(words[1]))


def built_in() -> tuple[str, ...]:
    """Names of the methods that need no program of the administrator."""
    return tuple(name for name in _NAMES if "/" not in name)


def words(method: Method) -> tuple[str, ...]:
    """The list of words that `parse` reads as this method."""
    if isinstance(method, Command):
        return method.argv
    name = next(name for name, kind in _NAMES.items() if kind is type(method))
    return (name, str(method.passes)) if isinstance(method, Zero | Shred) else (name,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a long act is. Units are bytes of a device, or entries of a directory (total unknown: 0)."""

    done: int
    total: int = 0
    step: str = ""
    """What is being done, in a word or two: zeroing 1/2, verifying."""
