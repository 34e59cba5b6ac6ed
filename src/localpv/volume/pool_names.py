"""Names of pools, of what is carved out of them, and of where they are, as manager, agent, scheduler and kubelet agree.

The name of a volume becomes a path and a logical volume on the node, so it is checked wherever it comes from outside.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

DRIVER: Final = "localpv.dev"
"""Name of the CSI driver, and the provisioner that classes of pools name."""

TOPOLOGY: Final = "topology.localpv.dev/node"
"""Label of a node with pools, and the key in the node affinity of their volumes: the name of the node.

Not the label kubernetes.io/hostname: a kubelet may be told another name for that, and one label of a driver means one
thing everywhere.
"""

LONGEST: Final = 240
DIGITS: Final = 8
VOLUME_PREFIX: Final = "pvc-"
SNAPSHOT_PREFIX: Final = "snapshot-"

_is_pool = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?").fullmatch
_is_volume = re.compile(r"[a-z0-9][-a-z0-9]{0,79}").fullmatch


def local_pool_name(node: str, pool: str) -> str:
    """Name of the LocalPool of a pool: `NODE-POOL`, or as much of the node's name as fits and a hash of both.

    Node `a` with pool `b-c` and node `a-b` with pool `c` are told apart by the hash, which is there when the pool's
    name has a hyphen or the whole is too long.
    """
    plain = f"{node}-{pool}"
    if "-" not in pool and len(plain) <= LONGEST:
        return plain
    digest = hashlib.sha256(f"{node}\0{pool}".encode()).hexdigest()[:DIGITS]
    tail = f"-{pool}-{digest}"
    return node[: LONGEST - len(tail)].rstrip("-.") + tail


def volume_name(claim_uid: str) -> str:
    """Name of the PoolVolume and of the PersistentVolume of a claim: the one that external-provisioner gives."""
    return VOLUME_PREFIX + claim_uid


def is_pool(name: str) -> bool:
    """Whether this can be the name of a pool: a DNS label."""
    return _is_pool(name) is not None


def is_volume(name: str) -> bool:
    """Whether this can be the name of a volume or snapshot in a pool."""
    return _is_volume(name) is not None


def handle(pool: str, name: str) -> str:
    """The volume or snapshot id of CSI: `POOL/NAME`."""
    return f"{pool}/{name}"


def read_handle(text: str) -> tuple[str, str] | None:
    """Pool and name of a volume or snapshot id; None when it is none of ours."""
    pool, _, name = text.partition("/")
    return (pool, name) if is_pool(pool) and is_volume(name) else None
