"""Sources of volumes that are not of this machine: each is refused by its name, with what can be done instead."""

from __future__ import annotations

_LINK = "link its device into the directory of a class: localpv offers it as a local volume"
_DEVICE = f"attach the disk to this machine and {_LINK}"
_FILES = "mount it on this machine below the directory of a class: localpv offers it as a local volume"

_INSTEAD = {
    "iscsi": f"log in to the target with iscsiadm on this machine and {_LINK}",
    "hostPath": "name the path in spec.local in place of spec.hostPath, with spec.nodeAffinity",
    **dict.fromkeys(("fc", "rbd", "scaleIO", "storageos", "portworxVolume"), _DEVICE),
    **dict.fromkeys(
        ("gcePersistentDisk", "awsElasticBlockStore", "azureDisk", "cinder", "vsphereVolume", "photonPersistentDisk"),
        _DEVICE,
    ),
    **dict.fromkeys(("glusterfs", "nfs", "cephfs", "azureFile", "quobyte", "flocker"), _FILES),
}

NOT_SOURCES = frozenset(
    {
        "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
        "storageClassName", "volumeAttributesClassName", "volumeMode",
    }
)  # fmt: skip
"""Fields in the spec of a PersistentVolume; whatever else is there is where its data is."""


def instead(source: str) -> str:
    """What to do for a volume with this source."""
    return _INSTEAD.get(source, "use a claim of a class that localpv offers, or a cluster with a driver for it")
