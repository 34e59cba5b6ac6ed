"""How released disks are cleaned: a built-in method by its name, or a command of the administrator's.

The scripts that the classic provisioner ships are known by their paths and become the built-in method that does the
same, so a ConfigMap that names them works where there are no such scripts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_NOT_ZEROES = "leaves bytes that cannot be told from old data when they are read back"

MOST_PASSES = 100
"""More passes over a disk are a slip of the keyboard: they would take months."""


class WrongCleaner(ValueError):
    """The command cannot be one; the message says why."""


@dataclass(frozen=True, slots=True)
class Method:
    """A built-in way to clean, and the one argument it may have."""

    name: str
    for_devices: bool
    argument: str = ""
    """What the argument is: empty when there is none."""

    default: str = ""
    choices: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    """Arguments that the tool behind it knows and we do not offer, each with the reason."""

    leaves_data: bool = False
    """Whether old blocks can still be read from the device afterwards."""


METHODS = {
    method.name: method
    for method in (
        Method("dd-zero", for_devices=True, argument="passes", default="1"),
        Method("zeroout", for_devices=True),
        Method("blkdiscard", for_devices=True),
        Method("fs-reset", for_devices=True, leaves_data=True),
        Method("shred", for_devices=True, argument="passes", default="3"),
        Method("hdparm", for_devices=True, argument="erase", default="normal", choices=("normal",),
               refused={"enhanced": _NOT_ZEROES}),
        Method("nvme-format", for_devices=True, argument="secure erase", default="user-data", choices=("user-data",),
               refused={"none": "promises nothing about the old data", "cryptographic": _NOT_ZEROES}),
        Method("fs-clean", for_devices=False),
    )
}  # fmt: skip
"""Methods for devices, and the one for file systems."""

REFUSED = {
    # Between the unmounting and the mounting again a crash would leave nobody who mounts it.
    "fs-remake": "would unmount the file system to make it anew, and nothing could be trusted to mount it again;"
    " use fs-clean, or offer the device itself with fsType",
}
"""Methods that people may look for here, each with the reason why there is none and what to use."""

SCRIPTS = {
    "/scripts/quick_reset.sh": "fs-reset",
    "/scripts/dd_zero.sh": "dd-zero",
    "/scripts/blkdiscard.sh": "blkdiscard",
    "/scripts/shred.sh": "shred",
    "/scripts/fsclean.sh": "fs-clean",
}
"""What each script of the classic provisioner does."""


@dataclass(frozen=True, slots=True)
class Cleaner:
    """What to do with a released disk."""

    method: tuple[str, ...]
    """A built-in method with its argument, or a command with its arguments."""

    given: tuple[str, ...]
    """As the configuration has it; a cleaning Job runs this."""


def leaves_data(method: Sequence[str]) -> bool:
    """Whether a built-in method leaves old blocks on a device that can be read; of commands nobody knows."""
    known = METHODS.get(SCRIPTS.get(method[0], method[0])) if method else None
    return known is not None and known.leaves_data


def may_leave_data(method: Sequence[str]) -> bool:
    """The same, and of commands whatever nobody knows: whether data on a device can be what the method left."""
    return leaves_data(method) or (bool(method) and method[0].startswith("/") and method[0] not in SCRIPTS)


RAW_DEFAULT = Cleaner(("zeroout",), ("zeroout",))
"""For devices that are offered as such: the next tenant can read every block."""

FORMATTED_DEFAULT = Cleaner(("fs-reset",), ("/scripts/quick_reset.sh",))
"""For devices under a file system, which hides the blocks that it has not written."""

FILE_SYSTEM_DEFAULT = Cleaner(("fs-clean",), ("/scripts/fsclean.sh",))


def read(command: Sequence[str], *, for_devices: bool) -> Cleaner:
    """The cleaner that a command means; WrongCleaner when it means none."""
    if not command:
        raise WrongCleaner("is empty; leave the key out for the default")
    first, *arguments = command
    name = SCRIPTS.get(first, first)
    if name in REFUSED:
        raise WrongCleaner(f"{name} {REFUSED[name]}")
    method = METHODS.get(name)
    if method is None:
        if not first.startswith("/"):
            raise WrongCleaner(_neither(first, for_devices))
        return Cleaner(tuple(command), tuple(command))
    if method.for_devices is not for_devices:
        kind = "devices" if method.for_devices else "file systems"
        raise WrongCleaner(f"{name} is for {kind}; here can be {', '.join(_names(for_devices))}")
    return Cleaner((name, *_argument(method, arguments)), tuple(command))


def _argument(method: Method, arguments: Sequence[str]) -> tuple[str, ...]:
    if not method.argument:
        if arguments:
            raise WrongCleaner(f"{method.name} takes no argument, but got {' '.join(arguments)}")
        return ()
    if len(arguments) > 1:
        raise WrongCleaner(f"{method.name} takes one argument ({method.argument}), but got {' '.join(arguments)}")
    value = arguments[0] if arguments else method.default
    if value in method.refused:
        use = " or ".join(method.choices)
        raise WrongCleaner(f"{method.name} {value} {method.refused[value]}; use {use}")
    if method.choices:
        if value not in method.choices:
            raise WrongCleaner(f"{method.name} knows {', '.join(method.choices)}, but not {value}")
    elif not (value.isascii() and value.isdigit() and 1 <= int(value) <= MOST_PASSES):
        raise WrongCleaner(f"{method.name} takes a number of passes from 1 to {MOST_PASSES}, but got {value}")
    return (value,)


def _names(for_devices: bool) -> list[str]:
    return [method.name for method in METHODS.values() if method.for_devices is for_devices]


def _neither(word: str, for_devices: bool) -> str:
    names = _names(for_devices)
    import difflib  # only who makes a mistake pays for it

    close = difflib.get_close_matches(word, names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"
    return f'"{word}" is neither a built-in method nor the full path of a command; {hint}'
