"""Labels, annotations, finalizers, condition types and reasons of LocalDisks, pools, and the volumes made of them."""

from __future__ import annotations

import hashlib
from typing import Final

from localpv.api import names

NODE: Final = "localpv.dev/node"
"""Label of a volume of a disk, a LocalPool, a PoolVolume and a PoolSnapshot: the node, as `node_label` writes it.

A PersistentVolume of a pool has none: by this label the volumes of disks are found.
"""

NODE_NAME: Final = "localpv.dev/node-name"
"""Annotation of a cleaning Job: the node of its disk. Names of nodes and disks can be longer than a label may be."""

DISK: Final = "localpv.dev/disk"
"""Annotation of a volume and of a cleaning Job: the name of the LocalDisk."""

FINALIZER: Final = "localpv.dev/disk"
"""Keeps a volume, whoever deletes it, until what is on its disk is known: clean, never used, or remembered."""

POOL_VOLUME: Final = "localpv.dev/pool-volume"
"""Finalizer of a PoolVolume and a PoolSnapshot: the agent takes it off when its bytes are wiped and gone."""

PROTECTED: Final = "localpv.dev/protected"
"""Finalizer of the same: the manager takes it off when nobody needs the bytes any more. As long as it is there, an
agent wipes nothing, whoever has deleted the object."""

RETAINED: Final = "localpv.dev/retained"
"""Annotation of a PoolVolume whose bytes stay when its PersistentVolume is deleted: the policy was Retain."""

IDENTITY: Final = "localpv.dev/identity"
"""Annotation of a volume: what the disk was when it was published, as JSON."""

RECLAIM: Final = "localpv.dev/reclaim"
"""Annotation with the value Recycle: the volume is not deleted after cleaning, but offered again.

The policy in its spec is Delete all the same: a controller manager takes every local volume with policy Recycle for
broken, and leaves one with policy Delete to whoever made it.
"""

RECYCLE: Final = "Recycle"
LOST_SINCE: Final = "localpv.dev/node-lost-since"
"""Annotation: when the volume's node was first seen to be gone, so that a new manager goes on with the grace."""

CLEANING: Final = "localpv.dev/cleaning"
"""Label of cleaning Jobs and their pods."""

SPREAD: Final = "localpv.dev/spread"
"""Annotation of a claim: those of one value want volumes of different nodes."""

LOCAL_STORAGE: Final = "localpv.dev/local-storage"
"""Finalizer of a LocalStorage; label of what the operator makes in its namespace, with its UID; annotation of a class
that was made for one, with its namespace and name."""

NODE_GROUP: Final = "localpv.dev/node-group"
"""Label of what the operator makes for one group of nodes: which."""

NODES: Final = "localpv.dev/nodes"
"""Annotation of the same: which nodes the group is, as the LocalStorage says it, or has said until it was changed."""

PROVISIONER: Final = "local-volume-provisioner-"
"""What the classic provisioner's name for itself begins with; we use it, so its volumes are found and taken over."""

OFFERED: Final = "Offered"
"""The condition that the manager writes; it is there only while something is wrong."""

DATA_READABLE: Final = "DataReadable"
"""The condition, and the reason of the event, of a disk whose next tenant can read what the last one wrote."""

RULES_LEFT: Final = (
    "The next discoverer that starts there, of any LocalStorage, removes them. By hand: delete"
    " /etc/udev/rules.d/99-kubernetes-local-storage-NAME.rules on the node, then run `udevadm control --reload` and"
    " `udevadm trigger --subsystem-match=block`."
)
"""What becomes of rules whose LocalStorage is gone."""

DUPLICATE: Final = "DuplicateDevice"
"""Reason: another entry has the same disk, and the better right to it."""

OTHER_ENGINE: Final = "MatchedByOtherEngine"
"""Reason: a LocalStorage of another engine of the machine matches the device too."""

GONE: Final = "Gone"
"""Reason: what the record tells of has no entry any more; it is kept for what it remembers."""

NOT_ERASED: Final = "NotErased"
"""Reason: what the last tenant wrote could be read."""


def node_label(node: str) -> str:
    """The value of the label localpv.dev/node: the name, or as much of it as fits and a hash of all."""
    if len(node) <= names.MAX_LABEL:
        return node
    digest = hashlib.sha256(node.encode()).hexdigest()[:8]
    return f"{node[: names.MAX_LABEL - 9].rstrip('-.')}-{digest}"
