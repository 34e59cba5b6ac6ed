"""What is written at the known places of a device: file systems, partition tables, members of LVM and RAID.

libblkid reads the device itself, past every cache of earlier answers. It is called in this process because a scan of
two hundred disks would otherwise start two hundred programs; where the library is missing, `blkid -p` is asked."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

from localpv import errors
from localpv.host.model.devices import Signature

_SUPERBLOCKS = (1 << 1) | (1 << 3) | (1 << 5) | (1 << 7)  # label, UUID, type, usage
_ENTRY_DETAILS = 1 << 2
_MOST = 64
_TOOL_SECONDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All that was found on one device."""

    signatures: tuple[Signature, ...] = ()
    part_uuid: str = ""
    part_label: str = ""


def probe(fd: int) -> Found:
    """Look at an open device or file. Blocks as long as the disk does: call it in a worker."""
    # Once more open: libblkid reads a few bytes here and there, which a descriptor for direct reading refuses.
    plain = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        library = _library()
        return _with_tool(plain) if library is None else _with_library(library, plain)
    finally:
        os.close(plain)


@functools.cache
def _library() -> Any:
    try:
        library = ctypes.CDLL("libblkid.so.1", use_errno=True)
    except OSError:
        return None
    library.blkid_new_probe.restype = ctypes.c_void_p
    for name in (
        "blkid_free_probe",
        "blkid_probe_set_device",
        "blkid_probe_enable_superblocks",
        "blkid_probe_set_superblocks_flags",
        "blkid_probe_enable_partitions",
        "blkid_probe_set_partitions_flags",
        "blkid_do_probe",
        "blkid_probe_lookup_value",
    ):
        getattr(library, name).argtypes = None
    library.blkid_probe_set_device.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    return library


def _with_library(library: Any, fd: int) -> Found:
    handle = library.blkid_new_probe()
    if not handle:
        raise errors.HostError("libblkid has no memory")
    probing = ctypes.c_void_p(handle)
    try:
        if library.blkid_probe_set_device(probing, fd, 0, 0) != 0:
            raise errors.HostError(f"the device cannot be looked at: {os.strerror(ctypes.get_errno())}")
        library.blkid_probe_enable_superblocks(probing, 1)
        library.blkid_probe_set_superblocks_flags(probing, _SUPERBLOCKS)
        library.blkid_probe_enable_partitions(probing, 1)
        library.blkid_probe_set_partitions_flags(probing, _ENTRY_DETAILS)
        rounds: list[dict[str, str]] = []
        for _ in range(_MOST):
            answer = library.blkid_do_probe(probing)
            if answer == 1:
                return _found(rounds)
            if answer != 0:
                raise errors.HostError(f"the device cannot be read: {os.strerror(ctypes.get_errno())}")
            rounds.append(_values(library, probing))
        return _found(rounds)
    finally:
        library.blkid_free_probe(probing)


_KEYS = ("TYPE", "USAGE", "UUID", "LABEL", "PTTYPE", "PTUUID", "PART_ENTRY_UUID", "PART_ENTRY_NAME")


def _values(library: Any, probing: ctypes.c_void_p) -> dict[str, str]:
    values = {}
    data, length = ctypes.c_char_p(), ctypes.c_size_t()
    for key in _KEYS:
        if library.blkid_probe_lookup_value(probing, key.encode(), ctypes.byref(data), ctypes.byref(length)) == 0:
            values[key] = (data.value or b"").decode(errors="replace")
    return values


def _with_tool(fd: int) -> Found:
    tool = shutil.which("blkid", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if tool is None:
        raise errors.NotSupported("neither libblkid nor blkid is installed", hint="install util-linux")
    try:
        answer = subprocess.run(
            [tool, "-p", "-o", "export", f"/proc/self/fd/{fd}"],
            env={"LC_ALL": "C"},
            pass_fds=[fd],
            capture_output=True,
            timeout=_TOOL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise errors.HostTimeout("blkid did not end in time and was killed") from None
    if answer.returncode == 8:  # several contradict each other: what they are does not matter, that they are does
        return Found(signatures=(Signature(type="ambivalent", usage="other"),))
    if answer.returncode not in (0, 2):
        raise errors.CommandFailed(
            ["blkid", "-p"], exit_code=answer.returncode, stderr=answer.stderr.decode(errors="replace")
        )
    return _found([parse_export(answer.stdout.decode(errors="replace"))])


def parse_export(text: str) -> dict[str, str]:
    """The values in what `blkid -o export` prints."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key: value.replace("\\ ", " ") for key, _, value in pairs}


def _found(rounds: list[dict[str, str]]) -> Found:
    signatures: dict[Signature, None] = {}
    for values in rounds:
        if kind := values.get("TYPE"):
            usage, uuid, label = values.get("USAGE", "other"), values.get("UUID", ""), values.get("LABEL", "")
            signatures[Signature(type=kind, usage=usage, uuid=uuid, label=label)] = None
        if table := values.get("PTTYPE"):
            signatures[Signature(type=table, usage="partition-table", uuid=values.get("PTUUID", ""))] = None
    entry = next((values for values in rounds if "PART_ENTRY_UUID" in values), {})
    return Found(
        signatures=tuple(signatures),
        part_uuid=entry.get("PART_ENTRY_UUID", ""),
        part_label=entry.get("PART_ENTRY_NAME", ""),
    )
