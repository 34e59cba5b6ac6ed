"""Drives that erase themselves: ATA security erase and NVMe format. Support is checked first, for both can harm.

A drive that is locked or frozen refuses later and half-way; an NVMe controller may format all its namespaces when asked
for one.
"""

from __future__ import annotations

import json
from pathlib import Path

from localpv import errors
from localpv.host import commands
from localpv.host.model.devices import BlockDevice, DeviceKind

ASK_SECONDS = 30.0
ERASE_SECONDS = 24 * 3600.0
"""The largest drives name half a day themselves."""

_PASSWORD = "localpv"
"""ATA wants one for the time of the erasure; the erasure removes it."""

_HAS_PASSWORD = "somebody has set a password on it"


async def check_ata(device: BlockDevice) -> None:
    """NotSupported, with what is lacking, unless the drive can erase itself now."""
    _whole(device, "ATA security erase")
    reason = await _ask_ata(device.path)
    if reason == _HAS_PASSWORD:
        # It may be ours, if we died in the middle of an erasure; nobody else's opens with it.
        await _take_password_off(device.path)
        reason = await _ask_ata(device.path)
    if reason:
        raise errors.NotSupported(f"{device.path} cannot erase itself: {reason}", hint="wipe it with zero or shred")


async def _ask_ata(device: Path) -> str:
    answer = await commands.run(["hdparm", "-I", str(device)], timeout=ASK_SECONDS, ok=range(256))
    return ata_refusal(answer.stdout)


def ata_refusal(text: str) -> str:
    """Why a drive with this `hdparm -I` cannot be erased; empty when it can."""
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith("Security:")), None)
    if start is None:
        return "it knows no security commands"
    flags = set()
    for line in lines[start + 1 :]:
        if line and not line[0].isspace():
            break
        flags.add(" ".join(line.split()))
    if "supported" not in flags:
        return "it does not support security commands"
    if "not frozen" not in flags:
        return "its security commands are frozen (a suspend and resume of the machine thaws them)"
    if "not locked" not in flags:
        return "it is locked by a password"
    if "not enabled" not in flags:
        return _HAS_PASSWORD
    return ""


async def erase_ata(device: Path) -> None:
    """Run the erasure. Whether anything was erased must be read back: some drives only say so."""
    await commands.run(
        ["hdparm", "--user-master", "u", "--security-set-pass", _PASSWORD, str(device)], timeout=ASK_SECONDS
    )
    try:
        await commands.run(
            ["hdparm", "--user-master", "u", "--security-erase", _PASSWORD, str(device)], timeout=ERASE_SECONDS
        )
    finally:
        # A drive that did not erase keeps the password and would be locked after the next power cycle.
        await _take_password_off(device)


async def _take_password_off(device: Path) -> None:
    await commands.run(
        ["hdparm", "--user-master", "u", "--security-disable", _PASSWORD, str(device)],
        timeout=ASK_SECONDS,
        ok=range(256),
    )


async def check_nvme(device: BlockDevice) -> None:
    """NotSupported unless the controller can format this namespace and no other with it."""
    _whole(device, "NVMe format")
    if not device.kernel_name.startswith("nvme"):
        raise errors.NotSupported(f"{device.path} is no NVMe drive", hint="wipe it with discard or zero")
    about = await commands.run(["nvme", "id-ctrl", "-o", "json", str(device.path)], timeout=ASK_SECONDS)
    # Both are asked of the namespace, which knows its controller: by their names, with several paths to one drive, the
    # numbers of the two need not be the same.
    spaces = await commands.run(["nvme", "list-ns", "-a", "-o", "json", str(device.path)], timeout=ASK_SECONDS)
    if reason := nvme_refusal(about.stdout, spaces.stdout):
        raise errors.NotSupported(f"{device.path} cannot be formatted: {reason}", hint="wipe it with discard or zero")


def nvme_refusal(controller: str, namespaces: str) -> str:
    """Why a namespace of this controller must not be formatted; empty when it may. Both texts are nvme-cli's JSON."""
    about = json.loads(controller)
    if not int(about.get("oacs", 0)) & 0x2:
        return "its controller does not support the format command"
    whole_controller = int(about.get("fna", 0)) & 0x3
    if whole_controller and len(json.loads(namespaces).get("nsid_list", ())) != 1:
        return "its controller would format all its namespaces, not this one alone"
    return ""


async def format_nvme(device: Path) -> None:
    await commands.run(["nvme", "format", str(device), "--ses=1", "--force"], timeout=ERASE_SECONDS)


def _whole(device: BlockDevice, what: str) -> None:
    if device.kind is not DeviceKind.DISK:
        raise errors.NotSupported(f"{what} is for whole drives; {device.path} is not one", hint="wipe it with zero")
