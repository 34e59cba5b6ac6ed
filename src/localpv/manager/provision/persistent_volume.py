"""The PersistentVolume of a volume in a pool, field by field as external-provisioner would write it."""

from __future__ import annotations

from localpv.api import well_known
from localpv.api.kinds.localpool import PoolVolume
from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from localpv.api.objects import Object
from localpv.api.quantity import NANO, Format, Quantity
from localpv.disk import labels
from localpv.manager.provision.request import Request
from localpv.volume import pool_names

DELETE = "Delete"


def build(order: PoolVolume, claim: PersistentVolumeClaim, storage_class: StorageClass, request: Request) -> Object:
    """The volume, bound to its claim from the start: nobody else can have it."""
    spec, meta = order.spec, claim.metadata
    csi: Object = {
        "driver": pool_names.DRIVER,
        "volumeHandle": pool_names.handle(spec.pool_name, order.metadata.name),
    }
    if spec.fs_type:
        csi["fsType"] = spec.fs_type
    if request.attributes:
        csi["volumeAttributes"] = dict(request.attributes)
    made: Object = {
        "metadata": {
            "name": order.metadata.name,
            "annotations": {
                well_known.PROVISIONED_BY: pool_names.DRIVER,
                # External-provisioner writes them empty where no secret is needed, and tools look for them.
                well_known.DELETION_SECRET_NAME: "",
                well_known.DELETION_SECRET_NAMESPACE: "",
                labels.POOL_VOLUME: order.metadata.uid,
            },
            # From the very first moment: a volume must not go before what is behind it, whatever the policy.
            "finalizers": [well_known.PROVISIONER_FINALIZER],
        },
        "spec": {
            "capacity": {"storage": size_text(order.status.size_bytes or spec.size_bytes)},
            "accessModes": list(claim.spec.access_modes),
            "volumeMode": spec.volume_mode,
            "storageClassName": storage_class.key,
            "persistentVolumeReclaimPolicy": storage_class.reclaim_policy or DELETE,
            "claimRef": {
                "apiVersion": "v1",
                "kind": PersistentVolumeClaim.resource.kind,
                "namespace": meta.namespace,
                "name": meta.name,
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
            },
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": pool_names.TOPOLOGY, "operator": "In", "values": [spec.node_name]}
                            ]
                        }
                    ]
                }
            },
            "csi": csi,
        },
    }
    if storage_class.mount_options:
        made["spec"]["mountOptions"] = list(storage_class.mount_options)
    return made


def size_text(size_bytes: int) -> str:
    """Bytes as a quantity, exactly."""
    return str(Quantity(size_bytes * NANO, Format.BINARY))


def order_uid(volume: PersistentVolume) -> str:
    """UID of the PoolVolume that a PersistentVolume was made for; empty when it is not ours to look after.

    Volumes that somebody else made of our pools, such as a stock external-provisioner, are theirs.
    """
    csi = volume.spec.csi
    if csi is None or csi.driver != pool_names.DRIVER:
        return ""
    handle = pool_names.read_handle(csi.volume_handle)
    if handle is None or handle[1] != volume.metadata.name:
        return ""
    return volume.metadata.annotations.get(labels.POOL_VOLUME, "")
