"""The ConfigMap that the programs read, and the StorageClasses that claims name."""

from __future__ import annotations

from localpv.api import well_known
from localpv.api.objects import Object
from localpv.deploy.plan import CONFIG_MAP, ClassObject, Plan
from localpv.volume import pool_names

RISKS = (
    "Volumes of this class are disks of single nodes: a pod that uses one runs on that node only, and waits while the"
    " node is away. The data is as safe as that one disk: nobody copies it."
)
"""What everybody should know who chooses the class; `kubectl describe storageclass` shows it."""


def config_map(plan: Plan) -> Object:
    metadata = {"name": CONFIG_MAP, "namespace": plan.namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(plan.texts)}


def storage_class(wanted: ClassObject) -> Object:
    metadata: Object = {"name": wanted.name, "annotations": {well_known.DESCRIPTION: RISKS}}
    if wanted.default:
        metadata["annotations"][well_known.IS_DEFAULT_CLASS] = "true"
    made: Object = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": metadata,
        "provisioner": pool_names.DRIVER if wanted.pool else well_known.NO_PROVISIONER,
        "reclaimPolicy": wanted.reclaim_policy,
        # A claim must wait for its pod: which volume is right depends on the node that can run the pod.
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    if wanted.pool:
        made["allowVolumeExpansion"] = True
    if wanted.mount_options:
        made["mountOptions"] = list(wanted.mount_options)
    if wanted.allowed_topologies:
        made["allowedTopologies"] = list(wanted.allowed_topologies)
    return made


def csi_driver() -> Object:
    """How kubelets and schedulers treat volumes of pools."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": pool_names.DRIVER},
        "spec": {
            # A volume is where its pool is: nothing is attached to a node.
            "attachRequired": False,
            "podInfoOnMount": False,
            # Schedulers look at what is free before they choose a node.
            "storageCapacity": True,
            # One pod at a time writes as root of the file system, so the kubelet may give it to the pod's group.
            "fsGroupPolicy": "File",
            "volumeLifecycleModes": ["Persistent"],
        },
    }
