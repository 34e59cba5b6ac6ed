"""Claims, volumes, classes and nodes as small as they may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from localpv.api.kinds.cluster import Node
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass


def volume(
    name: str = "pv",
    *,
    size: str = "10Gi",
    phase: str = "Available",
    node: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    deleting: bool = False,
    version: str = "1",
    **spec: Any,
) -> PersistentVolume:
    whole: dict[str, Any] = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "volumeMode": "Filesystem",
        "persistentVolumeReclaimPolicy": "Retain",
    }
    if node:
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        whole["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    metadata: dict[str, Any] = {
        "name": name,
        "uid": f"uid-of-{name}",
        "resourceVersion": version,
        "labels": labels or {},
        "annotations": annotations or {},
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return msgspec.convert({"metadata": metadata, "spec": whole | spec, "status": {"phase": phase}}, PersistentVolume)


def claim(
    name: str = "claim",
    *,
    size: str = "1Gi",
    uid: str = "",
    annotations: Mapping[str, str] | None = None,
    phase: str = "Pending",
    version: str = "1",
    **spec: Any,
) -> PersistentVolumeClaim:
    whole = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "resources": {"requests": {"storage": size}},
        "volumeMode": "Filesystem",
    } | spec
    metadata = {
        "name": name,
        "namespace": "tests",
        "uid": uid or f"uid-of-{name}",
        "resourceVersion": version,
        "annotations": annotations or {},
    }
    made = {"metadata": metadata, "spec": whole, "status": {"phase": phase}}
    return msgspec.convert(made, PersistentVolumeClaim)


def reference(name: str = "claim", uid: str = "") -> dict[str, str]:
    return {"namespace": "tests", "name": name, "uid": uid}


def storage_class(name: str = "local", *, waits: bool = False, **fields: Any) -> StorageClass:
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    made = {"metadata": {"name": name}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": mode}
    return msgspec.convert(made | fields, StorageClass)


def node(name: str, **labels: str) -> Node:
    named = {"kubernetes.io/hostname": name} | labels
    return msgspec.convert({"metadata": {"name": name, "labels": named}}, Node)
