"""Identities on the wire and in the model.

Discovery writes them and cleaning compares them before anything is destroyed: both read a record through here, so that
no field can count for the one and not for the other.
"""

from __future__ import annotations

from dataclasses import fields

from localpv.api.kinds.localdisk import DiskIdentity
from localpv.host.model.identity import Identity

_FIELDS = tuple(field.name for field in fields(Identity) if field.name != "twins")
"""What else goes by the same names is true for a moment only."""


def written(identity: Identity) -> DiskIdentity:
    """As a LocalDisk has it."""
    return DiskIdentity(**{name: getattr(identity, name) for name in _FIELDS})


def read(identity: DiskIdentity) -> Identity:
    """As the model has it."""
    return Identity(**{name: getattr(identity, name) for name in _FIELDS})
