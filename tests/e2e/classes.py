"""The classes that localpv is configured with: one for each case, so that no claim is given the disk of another."""

from __future__ import annotations

from typing import Any

METHODS = ("dd-zero", "fs-reset", "shred", "blkdiscard")
"""Cleaners that a loop device knows; drives with an erasure of their own are cleaned in the virtual machine."""

KILLED = "e2e-killed"
STRESS_VOLUMES = 200


def gate(folder: str) -> str:
    """The cleaner of one class waits for this file on its node, so that a journey can look at it half done."""
    return f"{folder}/{KILLED}/go-on"


def of(folder: str) -> dict[str, dict[str, Any]]:
    """Name -> settings, with the disks of each below the folder."""
    waits = f'until test -e {gate(folder)}; do sleep 0.1; done; exec dd if=/dev/zero of="$LOCAL_PV_BLKDEVICE" bs=1M'
    classes: dict[str, dict[str, Any]] = {
        "e2e-folder": {},
        "e2e-mount": {},
        "e2e-freed-folder": {},
        "e2e-freed-mount": {},
        "e2e-mixed": {"fsType": "ext4"},
        "e2e-set": {},
        "e2e-stress": {},
        KILLED: {
            "volumeMode": "Block",
            "namePattern": "disk*",
            "blockCleanerCommand": ["/bin/sh", "-c", f"{waits} count=16 conv=fsync"],
        },
    }
    for method in METHODS:
        classes[f"e2e-{method}"] = {"volumeMode": "Block", "blockCleanerCommand": [method]}
    return {name: {"hostDir": f"{folder}/{name}", **settings} for name, settings in classes.items()}
