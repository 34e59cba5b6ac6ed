"""The PersistentVolume that offers a disk."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

import msgspec

from localpv.api import volume_affinity, well_known
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.localdisk import DiskKind, LocalDisk, VolumeMode
from localpv.api.kinds.volumes import StorageClass
from localpv.api.objects import Object
from localpv.config.settings import ClassSettings, Configuration, Reclaim
from localpv.disk import labels
from localpv.manager.publish import capacity, names


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a disk cannot be offered as things are: one word for programs and a sentence for people."""

    reason: str
    message: str


def build(
    disk: LocalDisk,
    settings: ClassSettings,
    *,
    storage_class: StorageClass,
    node: Node,
    configuration: Configuration,
    name: str = "",
) -> Object | Refused:
    """The PersistentVolume for a disk, ready to be created; under its usual name unless another is given.

    What the node's agent says of itself is not trusted: the path must be that of the class, on the disk's own node.
    """
    spec = disk.spec
    hostname = node.metadata.labels.get(well_known.HOSTNAME, "")
    policy = settings.reclaim or storage_class.reclaim_policy or Reclaim.DELETE
    if refused := _refusal(disk, settings, node=node, hostname=hostname, policy=policy):
        return refused
    terms = [_on_host(hostname), *settings.selector]
    annotations = {
        well_known.PROVISIONED_BY: names.provisioned_by(
            node.metadata.name, node.metadata.uid, node_name_only=configuration.use_node_name_only
        ),
        labels.DISK: disk.metadata.name,
    }
    if disk.status.identity is not None:
        annotations[labels.IDENTITY] = msgspec.json.encode(disk.status.identity).decode()
    if policy == Reclaim.RECYCLE:
        annotations[labels.RECLAIM] = Reclaim.RECYCLE.value
    local: Object = {"path": spec.path}
    if settings.fs_type and spec.volume_mode == VolumeMode.FILESYSTEM:
        local["fsType"] = settings.fs_type
    volume: Object = {
        "capacity": {"storage": capacity.quantity(disk.status.capacity_bytes)},
        "accessModes": [settings.access_mode],
        "persistentVolumeReclaimPolicy": "Delete" if policy == Reclaim.RECYCLE else str(policy),
        "storageClassName": settings.name,
        "volumeMode": spec.volume_mode,
        "local": local,
    }
    if storage_class.mount_options:
        volume["mountOptions"] = list(storage_class.mount_options)
    if configuration.use_alpha_api:
        annotations[volume_affinity.ANNOTATION] = volume_affinity.annotation(terms)
    else:
        volume["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    metadata: Object = {
        "name": name or names.volume_name(spec.entry, node.metadata.name, settings.name),
        "labels": _labels(node, configuration),
        "annotations": annotations,
    }
    if configuration.set_pv_owner_ref:
        owner = {"apiVersion": "v1", "kind": "Node", "name": node.metadata.name, "uid": node.metadata.uid}
        metadata["ownerReferences"] = [owner]
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": volume}


def _refusal(disk: LocalDisk, settings: ClassSettings, *, node: Node, hostname: str, policy: str) -> Refused | None:
    spec = disk.spec
    if spec.node_name != node.metadata.name or spec.storage_class_name != settings.name:
        return Refused(
            "WrongNodeOrClass",
            f"The disk is of node {spec.node_name} and class {spec.storage_class_name},"
            f" not of node {node.metadata.name} and class {settings.name}.",
        )
    of_class = {posixpath.join(folder.host_dir, spec.entry) for folder in settings.folders}
    if "/" in spec.entry or spec.entry in (".", "..") or spec.path not in of_class:
        folders = " or ".join(folder.host_dir for folder in settings.folders)
        return Refused("PathOutsideClass", f"{spec.path} is no entry of {folders}, the directory of the class.")
    if not hostname:
        return Refused("NodeWithoutHostname", f"Node {node.metadata.name} has no label {well_known.HOSTNAME}; set it.")
    if policy not in (*Reclaim,):
        return Refused("UnknownReclaimPolicy", f"The class has the reclaim policy {policy}; use Delete or Retain.")
    if disk.status.capacity_bytes <= 0:
        return Refused("NoCapacity", f"The size of {spec.path} is not known or zero.")
    if spec.volume_mode == VolumeMode.BLOCK and disk.status.kind != DiskKind.BLOCK_DEVICE:
        return Refused(
            "NotABlockDevice",
            f"{spec.path} is no block device, but its class offers volumes of mode Block; use another class for it.",
        )
    last = disk.status.cleaning
    if spec.volume_mode == VolumeMode.BLOCK and last is not None and settings.shows_old_data(last.method):
        return Refused(
            labels.NOT_ERASED,
            f"{spec.path} was cleaned for use with a file system, which leaves old blocks; as a raw device it would"
            " show them to its next user. Run `localpv wipe` first.",
        )
    return None


def _on_host(hostname: str) -> Object:
    return {"matchExpressions": [{"key": well_known.HOSTNAME, "operator": "In", "values": [hostname]}]}


def _labels(node: Node, configuration: Configuration) -> dict[str, str]:
    """Labels copied from the node, then those configured, then ours, which nobody may change."""
    copied = {key: node.metadata.labels[key] for key in configuration.node_labels_for_pv if key in node.metadata.labels}
    return copied | dict(configuration.labels_for_pv) | {labels.NODE: names.node_label(node.metadata.name)}
