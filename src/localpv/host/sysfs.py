"""Attributes of a block device below /sys and in udev's database, brought to one spelling.

A disk must look the same whether udev runs or not, so what both know is taken from the kernel first.
"""

from __future__ import annotations

import os
from pathlib import Path

from localpv.host.model.devices import DeviceKind, DeviceNumber, RuleMatch


class Attributes:
    """Files below one folder of /sys; what is not there reads as empty."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def name(self) -> str:
        """Kernel name of the device."""
        return self.folder.name

    def text(self, name: str) -> str:
        try:
            return " ".join((self.folder / name).read_bytes().decode(errors="replace").replace("\0", " ").split())
        except OSError:
            return ""

    def number(self, name: str) -> int:
        text = self.text(name)
        return int(text) if text.isdecimal() else 0

    def flag(self, name: str) -> bool:
        return self.text(name) == "1"

    def names(self, name: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(os.listdir(self.folder / name)))
        except OSError:
            return ()


def udev_record(number: DeviceNumber, *, run: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """Properties and links that udev keeps for a device; both empty where udev does not run."""
    try:
        text = (run / "udev" / "data" / f"b{number}").read_text(errors="replace")
    except OSError:
        return {}, ()
    properties, links = {}, []
    for line in text.splitlines():
        if line.startswith("E:"):
            key, _, value = line[2:].partition("=")
            properties[key] = value
        elif line.startswith("S:"):
            links.append(line[2:])
    return properties, tuple(links)


CLASS_PROPERTY, RULE_PROPERTY = "KUBERNETES_STORAGE_CLASS_", "KUBERNETES_LOCAL_STORAGE_RULE_"
MARK_PROPERTY = "KUBERNETES_LOCAL_STORAGE_MARK_"
"""How the properties of udev begin that rules of LocalStorages set; each LocalStorage has an ending of its own."""

HASH_DIGITS = 8
"""Digits at the end that tell LocalStorages apart; before them stands the engine."""

LONGEST_RULE = 512


def rule_matches(properties: dict[str, str]) -> tuple[RuleMatch, ...]:
    """Which rules of LocalStorages matched a device."""
    endings = (
        (name.removeprefix(RULE_PROPERTY), value)
        for name, value in sorted(properties.items())
        if name.startswith(RULE_PROPERTY) and value
    )
    found = (
        RuleMatch(
            properties.get(CLASS_PROPERTY + ending, ""),
            value[:LONGEST_RULE],
            ending[:-HASH_DIGITS],
            properties.get(MARK_PROPERTY + ending, ""),
        )
        for ending, value in endings
    )
    return tuple(match for match in found if match.storage_class)


def serial(disk: Attributes, properties: dict[str, str]) -> str:
    """Serial number of a whole disk; what only looks like one (all zeroes) is none."""
    for name in ("serial", "device/serial"):  # virtio; NVMe and new SCSI
        if text := _number_of_its_own(disk.text(name)):
            return text
    try:
        page = (disk.folder / "device" / "vpd_pg80").read_bytes()
    except OSError:
        page = b""
    length = int.from_bytes(page[2:4], "big")
    if text := _number_of_its_own(page[4 : 4 + length].decode(errors="replace").strip(" \0")):
        return text
    # Not ID_SERIAL: without a serial number that is the model alone, which all disks of a kind share.
    return _number_of_its_own(properties.get("ID_SERIAL_SHORT", ""))


def _number_of_its_own(text: str) -> str:
    return text if text.strip("0 .-_") else ""


def names_of_a_model(properties: dict[str, str]) -> tuple[str, ...]:
    """Beginnings of names below by-id that all disks of a kind share, for udev knows no serial number of this one."""
    if _number_of_its_own(properties.get("ID_SERIAL_SHORT", "")):
        return ()
    if not properties.get("ID_BUS") or not properties.get("ID_SERIAL"):
        return ()
    return (f"{properties['ID_BUS']}-{properties['ID_SERIAL']}",)


def boot_id(*, proc: Path) -> str:
    """What the kernel made up when it started."""
    return Attributes(proc / "sys" / "kernel" / "random").text("boot_id")


def wwn(disk: Attributes, properties: dict[str, str]) -> str:
    """World Wide Name of a whole disk, as udev writes it."""
    text = disk.text("wwid") or disk.text("device/wwid")
    if text.startswith("naa."):
        return "0x" + text[4:].lower()
    if text.startswith(("eui.", "uuid.", "nvme.")):
        return text
    return properties.get("ID_WWN_WITH_EXTENSION", "") or properties.get("ID_WWN", "")


def kind(name: str, attributes: Attributes) -> DeviceKind:
    if (attributes.folder / "partition").exists():
        return DeviceKind.PARTITION
    for prefix, kind in (
        ("loop", DeviceKind.LOOP),
        ("dm-", DeviceKind.MAPPED),
        ("md", DeviceKind.RAID),
        ("sr", DeviceKind.ROM),
        ("zram", DeviceKind.MEMORY),
        ("ram", DeviceKind.MEMORY),
    ):
        if name.startswith(prefix):
            return kind
    return DeviceKind.DISK


def swaps(text: str) -> tuple[str, ...]:
    """Paths in /proc/swaps."""
    return tuple(line.split()[0].replace("\\040", " ") for line in text.splitlines()[1:] if line.split())
