"""The classes that localpv is configured with: one for each case, so that no claim is given the disk of another."""

from __future__ import annotations

from typing import Any

METHODS = ("dd-zero", "fs-reset", "shred", "blkdiscard")
"""Cleaners that a loop device knows; drives with an erasure of their own are cleaned in the virtual machine."""

KILLED = "e2e-killed"
SLOW = "e2e-slow"
BROKEN = "e2e-broken"
STRESS_VOLUMES = 200
_ZEROES = 'dd if=/dev/zero of="$LOCAL_PV_BLKDEVICE" bs=1M count=16 conv=fsync'


def gate(folder: str, name: str = KILLED) -> str:
    """The cleaner of the class waits for this file on its node, so that a journey can look at it half done."""
    return f"{folder}/{name}/go-on"


def starts(folder: str, name: str) -> str:
    """A line for each time that the cleaner of the class was started, and one more if another still ran."""
    return f"{folder}/{name}/starts"


def _waits(folder: str, name: str) -> dict[str, Any]:
    log = starts(folder, name)
    # Whoever is killed loses the lock with his life.
    alone = f"exec 9>{folder}/{name}/lock; flock -n 9 || echo twice >>{log}; echo started >>{log}"
    return _own(f"{alone}; until test -e {gate(folder, name)}; do sleep 0.1; done; exec {_ZEROES}")


def _fails(folder: str, name: str) -> dict[str, Any]:
    return _own(f"test -e {gate(folder, name)} || {{ echo the controller is gone >&2; exit 3; }}; exec {_ZEROES}")


def _own(script: str) -> dict[str, Any]:
    """A class with a cleaner of the administrator's, whose files lie beside the disks."""
    return {"volumeMode": "Block", "namePattern": "disk*", "blockCleanerCommand": ["/bin/sh", "-c", script]}


def of(folder: str) -> dict[str, dict[str, Any]]:
    """Name -> settings, with the disks of each below the folder."""
    classes: dict[str, dict[str, Any]] = {
        "e2e-folder": {},
        "e2e-mount": {},
        "e2e-freed-folder": {},
        "e2e-freed-mount": {},
        "e2e-mixed": {"volumeMode": "Auto", "blockCleanerCommand": ["dd-zero"]},
        "e2e-formatted": {"volumeMode": "Filesystem", "fsType": "ext4"},
        "e2e-set": {},
        "e2e-stress": {},
        "e2e-list": {},
        "e2e-kept": {"reclaim": "Retain"},
        "e2e-auto": {"volumeMode": "Auto"},
        "e2e-seen": {"mountDir": f"{folder}-seen/e2e-seen"},
        "e2e-swapped": {"volumeMode": "Block", "blockCleanerCommand": ["dd-zero"]},
        "e2e-hdparm": {"volumeMode": "Block", "blockCleanerCommand": ["hdparm"]},
        KILLED: _waits(folder, KILLED),
        SLOW: _waits(folder, SLOW),
        BROKEN: _fails(folder, BROKEN),
    }
    classes["e2e-in-job"] = {"volumeMode": "Block", "blockCleanerCommand": ["dd-zero"], "useJobForCleaning": True}
    for method in METHODS:
        classes[f"e2e-{method}"] = {"volumeMode": "Block", "blockCleanerCommand": [method]}
    return {name: {"hostDir": f"{folder}/{name}", **settings} for name, settings in classes.items()}
