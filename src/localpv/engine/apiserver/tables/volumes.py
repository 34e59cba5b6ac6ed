"""Volumes, claims, classes, and what CSI drivers keep."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from localpv.api import well_known
from localpv.api.objects import Object
from localpv.engine.apiserver.tables import layout
from localpv.engine.apiserver.tables.layout import AGE, NAME, NONE, PLAIN, UNSET, Layout, column, wide

_IS_DEFAULT = (well_known.IS_DEFAULT_CLASS, well_known.BETA_IS_DEFAULT_CLASS)
_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _volume(volume: Object, now: float) -> list[Any]:
    metadata, spec, status = volume["metadata"], volume["spec"], volume.get("status") or {}
    claim = spec.get("claimRef")
    return [
        metadata["name"],
        (spec.get("capacity") or {}).get("storage", "0"),
        _access_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(metadata, status),
        "" if claim is None else f"{claim.get('namespace', '')}/{claim.get('name', '')}",
        _class(metadata, spec),
        spec.get("volumeAttributesClassName", UNSET),
        status.get("reason", ""),
        layout.age(volume, now),
        spec.get("volumeMode", UNSET),
    ]


def _claim(claim: Object, now: float) -> list[Any]:
    metadata, spec, status = claim["metadata"], claim["spec"], claim.get("status") or {}
    volume = spec.get("volumeName", "")
    return [
        metadata["name"],
        _phase(metadata, status),
        volume,
        (status.get("capacity") or {}).get("storage", "0") if volume else "",
        _access_modes(status.get("accessModes")) if volume else "",
        _class(metadata, spec),
        spec.get("volumeAttributesClassName", UNSET),
        layout.age(claim, now),
        spec.get("volumeMode", UNSET),
    ]


def _phase(metadata: Object, status: Object) -> str:
    return "Terminating" if metadata.get("deletionTimestamp") else status.get("phase", "")


def _access_modes(modes: Iterable[str] | None) -> str:
    """Short names, each once, in a fixed order."""
    given = modes or ()
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def _class(metadata: Object, spec: Object) -> str:
    """The annotation is older than the field and still comes first."""
    found: str | None = (metadata.get("annotations") or {}).get(well_known.BETA_STORAGE_CLASS)
    return spec.get("storageClassName", "") if found is None else found


def _storage_class(storage_class: Object, now: float) -> list[Any]:
    metadata = storage_class["metadata"]
    annotations = metadata.get("annotations") or {}
    default = any(annotations.get(key) == "true" for key in _IS_DEFAULT)
    return [
        f"{metadata['name']} (default)" if default else metadata["name"],
        storage_class.get("provisioner", ""),
        storage_class.get("reclaimPolicy", "Delete"),
        storage_class.get("volumeBindingMode", "Immediate"),
        storage_class.get("allowVolumeExpansion", False),
        layout.age(storage_class, now),
    ]


def _driver(driver: Object, now: float) -> list[Any]:
    spec = driver["spec"]
    requests = spec.get("tokenRequests")
    return [
        driver["metadata"]["name"],
        spec.get("attachRequired", True),
        spec.get("podInfoOnMount", False),
        spec.get("storageCapacity", False),
        UNSET if requests is None else ",".join(each.get("audience", "") for each in requests),
        spec.get("requiresRepublish", False),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
        layout.age(driver, now),
    ]


def _csi_node(node: Object, now: float) -> list[Any]:
    return [node["metadata"]["name"], len(node["spec"].get("drivers") or ()), layout.age(node, now)]


def _attachment(attachment: Object, now: float) -> list[Any]:
    spec = attachment["spec"]
    return [
        attachment["metadata"]["name"],
        spec.get("attacher", ""),
        (spec.get("source") or {}).get("persistentVolumeName", ""),
        spec.get("nodeName", ""),
        (attachment.get("status") or {}).get("attached", False),
        layout.age(attachment, now),
    ]


LAYOUTS = {
    ("", "PersistentVolume"): Layout(
        [
            NAME,
            column("Capacity", "Size of the volume"),
            column("Access Modes", "Ways in which the volume can be mounted"),
            column("Reclaim Policy", "What happens to the volume once its claim is gone"),
            column("Status", "Whether the volume is free, bound, released or failed"),
            column("Claim", "The claim that has the volume, or that it is kept for"),
            column("StorageClass", "Class of the volume"),
            column("VolumeAttributesClass", "Class of the volume's changeable attributes"),
            column("Reason", "Why the volume failed, as a machine word"),
            AGE,
            wide("VolumeMode", "Whether the volume is a filesystem or a raw block device"),
        ],
        _volume,
    ),
    ("", "PersistentVolumeClaim"): Layout(
        [
            NAME,
            column("Status", "Whether the claim waits, is bound or has lost its volume"),
            column("Volume", "The volume of the claim"),
            column("Capacity", "Size of the volume behind the claim"),
            column("Access Modes", "Ways in which the volume behind the claim can be mounted"),
            column("StorageClass", "Class that the claim asks for"),
            column("VolumeAttributesClass", "Class of attributes that the claim asks for"),
            AGE,
            wide("VolumeMode", "Whether the claim asks for a filesystem or a raw block device"),
        ],
        _claim,
    ),
    (well_known.STORAGE_GROUP, "StorageClass"): Layout(
        [
            NAME,
            column("Provisioner", "Who makes volumes of this class"),
            column("ReclaimPolicy", "What happens to volumes of this class once their claim is gone"),
            column("VolumeBindingMode", "Whether claims are bound at once or when a pod needs them"),
            column("AllowVolumeExpansion", "Whether volumes of this class can grow"),
            AGE,
        ],
        _storage_class,
    ),
    (well_known.STORAGE_GROUP, "CSIDriver"): Layout(
        [
            NAME,
            column("AttachRequired", "Whether volumes are attached to a node before they are mounted", type="boolean"),
            column("PodInfoOnMount", "Whether the driver is told for which pod it mounts", type="boolean"),
            column("StorageCapacity", "Whether the scheduler looks at the capacity the driver reports", type="boolean"),
            column("TokenRequests", "Audiences of the tokens that the driver is given"),
            column("RequiresRepublish", "Whether volumes are published again from time to time", type="boolean"),
            column("Modes", "Kinds of volumes that the driver serves"),
            AGE,
        ],
        _driver,
    ),
    (well_known.STORAGE_GROUP, "CSINode"): Layout(
        [NAME, column("Drivers", "How many CSI drivers the node has", type="integer"), AGE],
        _csi_node,
    ),
    (well_known.STORAGE_GROUP, "CSIStorageCapacity"): PLAIN,
    (well_known.STORAGE_GROUP, "VolumeAttachment"): Layout(
        [
            NAME,
            column("Attacher", "Driver that attaches the volume", format="name"),
            column("PV", "The volume"),
            column("Node", "Node that the volume is attached to"),
            column("Attached", "Whether the volume is attached by now", type="boolean"),
            AGE,
        ],
        _attachment,
    ),
}
