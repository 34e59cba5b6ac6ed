"""Something to look at for people who try localpv: three folders that stand for disks, a class and a claim."""

from __future__ import annotations

from pathlib import Path

from localpv.api.objects import Object
from localpv.programs.manifests import Manifest

CLASS = "local-demo"
DISKS = {"alpha": "1Gi", "beta": "2Gi", "gamma": "4Gi"}


def prepare(data: Path, node: str) -> list[Manifest]:
    """Make the folders, and the objects that offer them."""
    for name in DISKS:
        (data / "demo" / name).mkdir(parents=True, exist_ok=True)
    storage_class: Object = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    claim: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "demo-data", "namespace": "default"},
        "spec": {
            "storageClassName": CLASS,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    volumes = [_volume(name, size, data / "demo" / name, node) for name, size in DISKS.items()]
    return [Manifest(obj, "the demo") for obj in (storage_class, *volumes, claim)]


def _volume(name: str, size: str, path: Path, node: str) -> Object:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"demo-{name}", "labels": {"localpv.dev/node": node}},
        "spec": {
            "storageClassName": CLASS,
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": str(path)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }
