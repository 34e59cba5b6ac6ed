"""Something to look at for people who try localpv: three folders that stand for disks, a class and a claim."""

from __future__ import annotations

from pathlib import Path

from localpv.api.objects import Object
from localpv.errors import ConfigurationError
from localpv.programs.manifests import Manifest

CLASS = "local-demo"
DISKS = ("alpha", "beta", "gamma")


def prepare(data: Path, config: Path | None) -> tuple[list[Manifest], Path]:
    """Make the folders and a configuration that finds them; (objects to apply, folder with the configuration)."""
    if config is not None and (config / "storageClassMap").exists():
        raise ConfigurationError(
            "--demo and a storageClassMap in --config do not go together", hint="leave out --demo to use your own disks"
        )
    disks, folder = data / "demo" / "disks", data / "demo" / "config"
    for name in DISKS:
        (disks / name).mkdir(parents=True, exist_ok=True)
    folder.mkdir(exist_ok=True)
    (folder / "storageClassMap").write_text(f"{CLASS}:\n  hostDir: {disks}\n")
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
    return [Manifest(obj, "the demo") for obj in (storage_class, claim)], folder
