"""What the words of an order mean for the kind of disk that it is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from localpv import errors
from localpv.api.kinds.localdisk import CleanOrder, DiskKind
from localpv.config import cleaners
from localpv.config.settings import ClassSettings
from localpv.host.model import methods


@dataclass(frozen=True, slots=True)
class Wipe:
    """Wipe a block device."""

    method: methods.Method


@dataclass(frozen=True, slots=True)
class Empty:
    """Remove everything in a directory."""


@dataclass(frozen=True, slots=True)
class Run:
    """Run an administrator's command that empties the directory in LOCAL_PV_FILESYSTEM."""

    argv: tuple[str, ...]


Plan = Wipe | Empty | Run

_DEVICE_METHODS = {"dd-zero": "zero", "blkdiscard": "discard", "hdparm": "ata-erase"}
"""Where configuration and model have different words for the same thing."""

_WITHOUT_CHOICE = ("hdparm", "nvme-format")
"""Methods that have one argument in the configuration, with one value."""


def read(words: Sequence[str], *, kind: DiskKind) -> Plan:
    """The plan that a method or a command means; NotSupported when it means none for this kind of disk."""
    for_devices = kind is DiskKind.BLOCK_DEVICE
    try:
        if for_devices and words and words[0] in methods.built_in() and words[0] not in cleaners.METHODS:
            return Wipe(methods.parse(words))
        name, *arguments = cleaners.read(words, for_devices=for_devices).method
        if name not in cleaners.METHODS:
            return Wipe(methods.Command((name, *arguments))) if for_devices else Run((name, *arguments))
        if not for_devices:
            return Empty()
        if name in _WITHOUT_CHOICE:
            arguments = []
        return Wipe(methods.parse([_DEVICE_METHODS.get(name, name), *arguments]))
    except ValueError as error:
        raise errors.NotSupported(f"the method of the order makes no sense: {' '.join(words)} {error}") from error


def is_command(plan: Plan) -> bool:
    return isinstance(plan, Run) or (isinstance(plan, Wipe) and isinstance(plan.method, methods.Command))


def words(order: CleanOrder, settings: ClassSettings, *, kind: DiskKind, volume_mode: str) -> tuple[str, ...]:
    """The method of an order; that of the class where the order names none."""
    return order.method or _of_class(settings, kind, volume_mode).method


def plan(order: CleanOrder, settings: ClassSettings, *, kind: DiskKind, volume_mode: str) -> Plan:
    """What to do for an order.

    A command is run only when the class, as this node has it, names the same: who may write orders is not by that
    allowed to run anything as root on every node.
    """
    found = read(words(order, settings, kind=kind, volume_mode=volume_mode), kind=kind)
    own = _of_class(settings, kind, volume_mode)
    if is_command(found) and order.method and order.method not in (own.method, own.given):
        raise errors.NotSupported(
            f"the order wants {order.method[0]} run, which is not the cleaner of class {settings.name} on this node",
            hint="wait until both have the same configuration, or order a built-in method: localpv wipe",
        )
    return found


def tells_progress(plan: Plan) -> bool:
    """Whether silence means that it hangs. Drives that erase themselves, tools and commands say nothing for hours."""
    if isinstance(plan, Wipe):
        return isinstance(plan.method, methods.Zero | methods.Shred | methods.Discard | methods.ZeroOut)
    return isinstance(plan, Empty)


def _of_class(settings: ClassSettings, kind: DiskKind, volume_mode: str) -> cleaners.Cleaner:
    return settings.cleaner(on_device=kind is DiskKind.BLOCK_DEVICE, volume_mode=volume_mode)
