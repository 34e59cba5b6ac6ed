"""Which gRPC code an error of a pool is: the same for callers of CSI and for the status of a PoolVolume."""

from __future__ import annotations

from localpv import errors
from localpv.csi.status import Code

_CODES: tuple[tuple[type[errors.LocalpvError], Code], ...] = (
    (errors.NoRoom, Code.RESOURCE_EXHAUSTED),
    (errors.AlreadyThere, Code.ALREADY_EXISTS),
    (errors.NotThere, Code.NOT_FOUND),
    (errors.StillNeeded, Code.FAILED_PRECONDITION),
    (errors.DeviceBusy, Code.FAILED_PRECONDITION),
    (errors.NotSupported, Code.INVALID_ARGUMENT),
    (errors.HostTimeout, Code.UNAVAILABLE),
)

FINAL = frozenset({Code.RESOURCE_EXHAUSTED, Code.ALREADY_EXISTS, Code.NOT_FOUND, Code.INVALID_ARGUMENT})
"""Codes after which another try would end the same: whoever asked must ask for something else."""


def code_of(error: errors.LocalpvError) -> Code:
    return next((code for kind, code in _CODES if isinstance(error, kind)), Code.INTERNAL)
