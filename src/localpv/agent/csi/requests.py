"""What callers send, checked: names, paths, capabilities, sizes. INVALID_ARGUMENT says what is wrong, and nothing else
is looked at before."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from localpv.csi.codec import Message
from localpv.csi.status import Code, RpcError
from localpv.host import filesystems

SINGLE_WRITER: Final = "SINGLE_NODE_SINGLE_WRITER"
"""Access mode ReadWriteOncePod: one place on the node, and no other."""

MODES: Final = ("SINGLE_NODE_WRITER", "SINGLE_NODE_READER_ONLY", SINGLE_WRITER, "SINGLE_NODE_MULTI_WRITER")
"""A volume is on one node and stays there."""

MAX_PATH_BYTES: Final = 4095
MAX_OPTIONS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """How a volume is to be used."""

    block: bool
    mode: str
    fs_type: str = ""
    mount_options: tuple[str, ...] = ()

    @property
    def read_only(self) -> bool:
        return "ro" in self.mount_options


def invalid(message: str) -> RpcError:
    return RpcError(Code.INVALID_ARGUMENT, message)


def required(request: Message, field: str) -> str:
    value = request.get(field, "")
    if not value:
        raise invalid(f"{field} is missing")
    return str(value)


def path(request: Message, field: str) -> Path:
    """An absolute path whose last component is no link; links above it are those of the kubelet's own folder."""
    text = required(request, field)
    if not text.startswith("/") or ".." in text.split("/") or "\0" in text or len(os.fsencode(text)) > MAX_PATH_BYTES:
        raise invalid(f"{field} must be an absolute path without ..")
    plain = Path(os.path.normpath(text))
    if plain == Path("/"):
        raise invalid(f"{field} is the root of everything")
    place = Path(os.path.realpath(plain.parent)) / plain.name
    try:
        os.readlink(place)  # unlike a look at what is mounted there, it asks no disk
    except OSError:
        return place
    raise invalid(f"{field} is a link, and nothing is mounted through one")


def capability(request: Message) -> Capability:
    found = request.get("volume_capability")
    if found is None:
        raise invalid("volume_capability is missing")
    return read_capability(found)


def capabilities(request: Message) -> list[Capability]:
    found = request.get("volume_capabilities", [])
    if not found:
        raise invalid("volume_capabilities are missing")
    return [read_capability(one) for one in found]


def read_capability(message: Message) -> Capability:
    mode = message.get("access_mode", {}).get("mode", "UNKNOWN")
    if "block" not in message and "mount" not in message:
        raise invalid("a capability must say mount or block")
    if mode not in MODES:
        raise invalid(f"access mode {mode} is not served: a local volume is on one node")
    if "block" in message:
        return Capability(block=True, mode=mode)
    mount = message["mount"]
    fs_type = mount.get("fs_type", "")
    refuse_unknown_fs_type(fs_type)
    if mount.get("volume_mount_group"):
        raise invalid("volume_mount_group is not served: the kubelet sets the group itself")
    options = tuple(mount.get("mount_flags", ()))
    if len(options) > MAX_OPTIONS or any(not option or "\0" in option for option in options):
        raise invalid("mount_flags make no sense")
    return Capability(block=False, mode=mode, fs_type=fs_type, mount_options=options)


def refuse_unknown_fs_type(fs_type: str) -> None:
    if fs_type and fs_type not in filesystems.KNOWN:
        raise invalid(f"file system {fs_type} is not served: use one of {', '.join(filesystems.KNOWN)}")


def mkfs_options(text: str) -> tuple[str, ...]:
    """Options for making a file system, as a class states them. None names a file: a tool would read or write it."""
    options = tuple(text.split())
    if len(options) > MAX_OPTIONS or any("/" in option or "\0" in option for option in options):
        raise invalid("mkfsOptions must be options of mkfs, and name no file")
    if options and not options[0].startswith("-"):
        raise invalid("mkfsOptions must begin with an option")
    return options


@dataclass(frozen=True, slots=True)
class Range:
    """Which sizes will do."""

    required_bytes: int
    limit_bytes: int
    """0 for none."""

    def rounded(self, default: int, extent: int) -> int:
        """The size to make: what is required or, where nothing is, a default; in multiples of the extent."""
        wanted = self.required_bytes or (min(default, self.limit_bytes) if self.limit_bytes else default)
        size = -(-wanted // extent) * extent
        if self.limit_bytes and size > self.limit_bytes:
            raise RpcError(
                Code.OUT_OF_RANGE, f"sizes are multiples of {extent} bytes, and none is within what was asked for"
            )
        return size

    def suits(self, size: int) -> bool:
        return self.required_bytes <= size and (not self.limit_bytes or size <= self.limit_bytes)


def capacity_range(request: Message) -> Range:
    found = request.get("capacity_range", {})
    wanted, limit = found.get("required_bytes", 0), found.get("limit_bytes", 0)
    if wanted < 0 or limit < 0:
        raise invalid("a size below zero")
    if limit and wanted > limit:
        raise RpcError(Code.OUT_OF_RANGE, f"{wanted} bytes are required and at most {limit} allowed")
    return Range(wanted, limit)


def refuse_unknown_parameters(found: Mapping[str, str], known: Iterable[str]) -> None:
    for name in found:
        if name not in known:
            raise invalid(f"unknown parameter {name[:100]}; there are {', '.join(sorted(known))}")


def page(request: Message, names: Sequence[str], *, prefix: str = "after:") -> tuple[Sequence[str], str]:
    """The part of sorted names that a request asks for, and the token for the next.

    A token names the last one of a page, so what comes and goes between two pages moves nothing.
    """
    most, token = request.get("max_entries", 0), request.get("starting_token", "")
    if most < 0:
        raise invalid("max_entries is below zero")
    if token:
        if not token.startswith(prefix):
            raise RpcError(Code.ABORTED, "starting_token is none of ours: begin anew")
        last = token.removeprefix(prefix)
        names = [name for name in names if name > last]
    if most and len(names) > most:
        return names[:most], prefix + names[most - 1]
    return names, ""
