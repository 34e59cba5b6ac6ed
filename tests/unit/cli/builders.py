"""Disks and volumes for the tests of the commands."""

from __future__ import annotations

from typing import Any

import msgspec

from localpv.api.kinds.localdisk import Cleaning, LocalDisk
from localpv.api.kinds.volumes import PersistentVolume

GIB = 1 << 30
UID = "11111111-2222-3333-4444-555555555555"


def disk(entry: str = "nvme1", node: str = "node-a", *, phase: str = "Published", **given: Any) -> LocalDisk:
    """A block device that is offered as local-pv-1; `spec` and `status` replace fields."""
    spec = {
        "nodeName": node,
        "storageClassName": "fast",
        "entry": entry,
        "path": f"/mnt/fast/{entry}",
        "volumeMode": "Block",
        "volume": {"name": "local-pv-1", "uid": UID},
        "identity": {"serial": f"SN-{node}-{entry}"},
    }
    status = {
        "phase": phase,
        "eligible": True,
        "kind": "BlockDevice",
        "medium": "NVMe",
        "capacityBytes": 10 * GIB,
        "size": "10Gi",
        "identity": {
            "serial": f"SN-{node}-{entry}",
            "byID": [f"nvme-{node}-{entry}"],
            "majorMinor": "259:1",
            "model": "Fast One",
        },
    }
    whole = {
        "metadata": {"name": f"{node}-{entry}-00000001", "uid": f"uid-{node}-{entry}"},
        "spec": {key: value for key, value in (spec | given.get("spec", {})).items() if value is not None},
        "status": status | given.get("status", {}),
    }
    return msgspec.convert(whole, LocalDisk)


def cleaning(state: str = "Running", **fields: Any) -> Cleaning:
    return msgspec.convert({"volumeUID": UID, "state": state, **fields}, Cleaning)


def cleaned(entry: str = "nvme1", node: str = "node-a", *, state: str = "Running", **fields: Any) -> LocalDisk:
    """A disk with an order to clean, and how far that is."""
    order = {"volumeName": "local-pv-1", "volumeUID": UID, "claimUID": "uid-of-claim", "method": ["shred", "3"]}
    phase = {"Running": "Cleaning", "Failed": "CleanFailed", "Waiting": "Releasing", "Verified": "Cleaning"}[state]
    done = {"volumeUID": UID, "state": state, "method": ["shred", "3"], **fields}
    return disk(entry, node, phase=phase, spec={"clean": order}, status={"cleaning": done})


def volume(
    phase: str = "Released", *, name: str = "local-pv-1", uid: str = UID, path: str = "/mnt/fast/nvme1", **spec: Any
) -> PersistentVolume:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-a"]}
    claim = {"namespace": "default", "name": "data", "uid": "uid-of-claim"}
    fields = {
        "claimRef": claim if phase in ("Bound", "Released") else None,
        "persistentVolumeReclaimPolicy": "Delete",
        "local": {"path": path},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
    }
    whole = {
        "metadata": {"name": name, "uid": uid, "labels": {"localpv.dev/node": "node-a"}},
        "spec": {key: value for key, value in (fields | spec).items() if value is not None},
        "status": {"phase": phase},
    }
    return msgspec.convert(whole, PersistentVolume)
