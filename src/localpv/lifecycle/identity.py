"""Identities on the wire and in the model.

Discovery writes them and cleaning compares them before anything is destroyed: both read a record through here, so that
no field can count for the one and not for the other.
"""

from __future__ import annotations

from localpv.api.kinds.localdisk import DiskIdentity
from localpv.model.identity import Identity


def written(identity: Identity) -> DiskIdentity:
    """As a LocalDisk has it."""
    return DiskIdentity(
        by_id=identity.by_id,
        wwn=identity.wwn,
        serial=identity.serial,
        part_uuid=identity.part_uuid,
        fs_uuid=identity.fs_uuid,
        major_minor=identity.major_minor,
        size_bytes=identity.size_bytes,
        model=identity.model,
        mount_id=identity.mount_id,
    )


def read(identity: DiskIdentity) -> Identity:
    """As the model has it."""
    return Identity(
        by_id=identity.by_id,
        wwn=identity.wwn,
        serial=identity.serial,
        part_uuid=identity.part_uuid,
        fs_uuid=identity.fs_uuid,
        major_minor=identity.major_minor,
        size_bytes=identity.size_bytes,
        model=identity.model,
        mount_id=identity.mount_id,
    )
