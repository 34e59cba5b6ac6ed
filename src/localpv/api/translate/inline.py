"""`localVolume` in a pod: a disk or a logical volume of the node, for as long as the pod lives.

Kubernetes never had it. What it has for the same purpose are generic ephemeral volumes: a claim that is made for a pod
and goes with it. The embedded engine takes `localVolume` as it is written and turns it into one; `localpv translate`
does the same to a file. What was written stays in an annotation of the claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from localpv.api import fields, names, quantity, well_known
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object

FIELD = "localVolume"

WRITTEN = "localpv.dev/local-volume"
"""On the claim: the `localVolume` that it was made from, as JSON."""

FS_TYPE = "localpv.dev/fs-type"
"""On the claim: the file system that was asked for; a claim has no field for it."""

CLASSES: Mapping[str, str] = {"disk": "local-ssd", "lvm": "local-volume"}
"""The class of each type: whole disks that exist already, and logical volumes that are made when they are asked for."""

ANY_SIZE = "1Mi"
"""What is asked for where no size is named: a whole disk is taken as it is, and none is smaller."""


_KNOWN = ("nodename", "path", "volumesize", "type", "fsType")


def errors(source: Mapping[str, Any], path: str) -> FieldErrors:
    """Why a `localVolume` cannot be translated; nothing when it can."""
    found: FieldErrors = []
    kind = source.get("type", "")
    if not kind:
        found.append(fields.required(f"{path}.type", f"one of {', '.join(CLASSES)}"))
    elif kind not in CLASSES:
        found.append(fields.not_supported(f"{path}.type", kind, tuple(CLASSES)))
    found += [
        fields.forbidden(f"{path}.{name}", f"not a field of {FIELD}; it has {', '.join(_KNOWN)}")
        for name in source
        if name not in _KNOWN
    ]
    if source.get("path"):
        why = "a claim cannot ask for a path: make a PersistentVolume for it, and name its claim in the pod"
        found.append(fields.forbidden(f"{path}.path", why))
    found += _wrong_size(source, path)
    if source.get("nodename"):
        wrong = names.label_value(source["nodename"])
        found += [fields.invalid(f"{path}.nodename", source["nodename"], sentence) for sentence in wrong]
    return found


def _wrong_size(source: Mapping[str, Any], path: str) -> FieldErrors:
    size = source.get("volumesize")
    if size is None:
        if source.get("type") == "lvm":
            return [fields.required(f"{path}.volumesize", "a logical volume is made in the size that is asked for")]
        return []
    try:
        amount = quantity.Quantity.parse(str(size))
    except ValueError as error:
        return [fields.invalid(f"{path}.volumesize", size, str(error))]
    return [] if amount.nanos > 0 else [fields.invalid(f"{path}.volumesize", size, "must be more than 0")]


def ephemeral(source: Mapping[str, Any]) -> Object:
    """The ephemeral volume source that does what a `localVolume` without errors asks for."""
    annotations = {WRITTEN: msgspec.json.encode(dict(source), order="deterministic").decode()}
    if source.get("fsType"):
        annotations[FS_TYPE] = source["fsType"]
    size = source.get("volumesize")
    return {
        "volumeClaimTemplate": {
            "metadata": {"annotations": annotations},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": CLASSES[source["type"]],
                "volumeMode": "Filesystem",
                "resources": {"requests": {"storage": ANY_SIZE if size is None else str(size)}},
            },
        }
    }


def is_translation(source: Any) -> bool:
    """Whether an ephemeral source was made from a `localVolume`: a client that sends both sends the newer one."""
    if not isinstance(source, dict):
        return False
    metadata = (source.get("volumeClaimTemplate") or {}).get("metadata") or {}
    return WRITTEN in (metadata.get("annotations") or {})


def translate_spec(spec: Object) -> list[str]:
    """Translate the volumes of a pod's spec in place, as far as they have no errors; names of those that changed."""
    changed = []
    volumes = spec.get("volumes")
    for volume in volumes if isinstance(volumes, list) else ():
        if not isinstance(volume, dict):
            continue
        source = volume.get(FIELD)
        if not isinstance(source, dict) or errors(source, FIELD):
            continue
        node = source.get("nodename")
        if node and spec.get("nodeSelector", {}).get(well_known.HOSTNAME, node) != node:
            continue  # the pod is to run elsewhere; who checks it says so
        if "ephemeral" in volume and not is_translation(volume["ephemeral"]):
            continue
        del volume[FIELD]
        volume["ephemeral"] = ephemeral(source)
        if node:
            spec["nodeSelector"] = {**spec.get("nodeSelector", {}), well_known.HOSTNAME: node}
        changed.append(str(volume.get("name", "")))
    return changed
