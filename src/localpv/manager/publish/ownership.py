"""Which volumes are ours, and of which disk."""

from __future__ import annotations

from localpv.api import well_known
from localpv.api.kinds.localdisk import LocalDisk
from localpv.api.kinds.volumes import PersistentVolume
from localpv.disk import labels
from localpv.manager.publish import names

UID_LENGTH = len("-00000000-0000-0000-0000-000000000000")


def owns(disk: LocalDisk, offered: PersistentVolume) -> bool:
    """Whether a volume was made, by us or by the classic provisioner, to offer this very disk.

    What a node's agent writes into a LocalDisk is not trusted: only a volume that was made on that node, for that
    class and that path is ever touched on its behalf.
    """
    annotations = offered.metadata.annotations
    return (
        offered.spec.local is not None
        and offered.spec.local.path == disk.spec.path
        and offered.spec.storage_class_name == disk.spec.storage_class_name
        and names.made_on_node(annotations.get(well_known.PROVISIONED_BY, ""), disk.spec.node_name)
        and annotations.get(labels.DISK, disk.metadata.name) == disk.metadata.name
    )


def on_node(offered: PersistentVolume, node: str) -> bool:
    """Whether a volume offers something of a node, in whatever class."""
    made_by = offered.metadata.annotations.get(well_known.PROVISIONED_BY, "")
    labelled = offered.metadata.labels.get(labels.NODE)
    return labelled == names.node_label(node) or names.made_on_node(made_by, node)


def maker(provisioned_by: str) -> str:
    """The name of the node whose provisioner the annotation names; empty when it is another provisioner."""
    if not provisioned_by.startswith(labels.PROVISIONER):
        return ""
    name = provisioned_by[len(labels.PROVISIONER) :]
    without_uid = name[:-UID_LENGTH]
    return without_uid if without_uid and names.made_on_node(provisioned_by, without_uid) else name
