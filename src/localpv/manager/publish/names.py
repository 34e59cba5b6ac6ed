"""Names that volumes have, and the marks by which a node knows its own.

They are those of the classic provisioner, so its volumes are found and taken over as they are.
"""

from __future__ import annotations

import hashlib
import re

from localpv.disk import labels
from localpv.disk.labels import node_label
from localpv.disk.records.names import disk_name

PREFIX = "local-pv-"
LONG_DIGITS = 16

_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193
_is_uid = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}").fullmatch

__all__ = ["disk_name", "fnv1a_32", "long_volume_name", "made_on_node", "node_label", "provisioned_by", "volume_name"]


def volume_name(entry: str, node: str, storage_class: str) -> str:
    """The name that the classic provisioner gives: its parts are hashed without separators, and not padded."""
    return f"{PREFIX}{fnv1a_32(_bytes(entry + node + storage_class)):x}"


def long_volume_name(entry: str, node: str, storage_class: str) -> str:
    """The name for a disk whose first choice is taken by a volume of another disk.

    64 bits of SHA-256 over the parts with separators: with a million volumes, one in thirty million chances that any
    two collide. It has more digits than a short name can have, so the two kinds never meet.
    """
    digest = hashlib.sha256(_bytes("\0".join((node, storage_class, entry)))).hexdigest()
    return f"{PREFIX}{digest[:LONG_DIGITS]}"


def fnv1a_32(data: bytes) -> int:
    """The 32-bit hash of Fowler, Noll and Vo, in the order xor, multiply."""
    value = _FNV_OFFSET
    for byte in data:
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return value


def provisioned_by(node: str, node_uid: str, *, node_name_only: bool = False) -> str:
    """The value of the annotation pv.kubernetes.io/provisioned-by."""
    return labels.PROVISIONER + node if node_name_only or not node_uid else f"{labels.PROVISIONER}{node}-{node_uid}"


def made_on_node(annotation: str, node: str) -> bool:
    """Whether the annotation names a provisioner on this node, or on one of the same name before it.

    What follows the name must be a UID: node `a` does not own what `a-b` made.
    """
    own = labels.PROVISIONER + node
    return annotation == own or (annotation.startswith(f"{own}-") and bool(_is_uid(annotation[len(own) + 1 :])))


def _bytes(text: str) -> bytes:
    # File names on Linux are bytes; those that are no UTF-8 come as surrogates and go as they came.
    return text.encode("utf-8", "surrogateescape")
