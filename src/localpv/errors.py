"""Every error that localpv raises on purpose.

LocalpvError                  has a message for people and, where there is one, a hint what to do
├── ConfigurationError        a setting, an option or a kubeconfig is wrong: mend it and start again
├── StartError                this process cannot start or serve here (port in use, folder not writable)
├── StoreError                the database behind the embedded engine
│   ├── StoreLocked           another process has the data folder open
│   ├── StoreDamaged          the database cannot be read; nothing is overwritten
│   └── StoreFull             there is no room on the disk; the write was refused and nothing is lost
├── HostError                 the kernel, a disk or a system tool of this machine refused
│   ├── HostTimeout           a disk, a mount or a tool gave no answer in time: it is left behind, others go on
│   ├── CommandFailed         a tool ran and exited with a non-zero code
│   ├── NotSupported          this device or machine cannot do that; the message says what it lacks
│   ├── DeviceBusy            somebody has it open or mounted: look again later
│   ├── DeviceChanged         it is not the disk that was recorded: nothing was done
│   ├── OutsideFolder         a path leads out of the folder that we may touch: nothing was done
│   ├── NotClean              something is left of the old data: do not offer it
│   ├── NoRoom                a pool has not as many bytes left: nothing was made
│   ├── AlreadyThere          the name is taken by a volume of another size or source, or by what is not ours
│   ├── NotThere              there is no such volume or snapshot in the pool
│   └── StillNeeded           a snapshot or a clone is made of it: remove that first
├── ApiError                  an API server answered, or will answer, with a Status (see api/status.py)
│   ├── BadRequest            400  the request makes no sense as it is
│   ├── Unauthorized          401  the server does not know who asks
│   ├── Forbidden             403  the server knows who asks and says no
│   ├── NotFound              404
│   ├── MethodNotAllowed      405  this resource does not support that verb
│   ├── NotAcceptable         406
│   ├── AlreadyExists         409
│   ├── Conflict              409  somebody else wrote first: read again, then retry
│   ├── Gone                  410  the resource version is too old: list again
│   ├── TooLarge              413
│   ├── UnsupportedMediaType  415
│   ├── Invalid               422  causes name the fields
│   ├── TooManyRequests       429  retry later
│   ├── InternalError         500
│   ├── Unavailable           503  retry later
│   └── GatewayTimeout        504  the server has not got that far yet: retry
└── ConnectionLost            no answer from the API server: retry
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar


class LocalpvError(Exception):
    """Something went wrong that a person can understand; `hint` says what to do about it."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ConfigurationError(LocalpvError):
    """A setting, an option or a kubeconfig is wrong."""


class StartError(LocalpvError):
    """This process cannot start or serve here."""


class StoreError(LocalpvError):
    """The database behind the embedded engine refused."""


class StoreLocked(StoreError):
    """Another process has the data folder open."""


class StoreDamaged(StoreError):
    """The database cannot be read."""


class StoreFull(StoreError):
    """There is no room on the disk for one more write."""


class HostError(LocalpvError):
    """The kernel, a disk or a system tool of this machine refused."""


class HostTimeout(HostError):
    """A disk, a mount or a tool gave no answer in time."""


class CommandFailed(HostError):
    """A tool such as mkfs or wipefs ran and exited with a non-zero code, or was killed by a signal (below zero)."""

    def __init__(self, argv: Sequence[str], *, exit_code: int, stderr: str, hint: str = "") -> None:
        super().__init__(f"{argv[0]} exited with {exit_code}: {stderr.strip()[-500:]}", hint=hint)
        self.argv, self.exit_code, self.stderr = tuple(argv), exit_code, stderr


class NotSupported(HostError):
    """This device or this machine cannot do what was asked."""


class DeviceBusy(HostError):
    """Somebody has the device or the directory open or mounted."""


class DeviceChanged(HostError):
    """What is found at a path is not the disk that was recorded there."""


class OutsideFolder(HostError):
    """A path leads out of the folder that we may touch."""


class NotClean(HostError):
    """Something is left of the old data."""


class NoRoom(HostError):
    """A pool has less room than was asked for."""


class AlreadyThere(HostError):
    """The name of a volume is taken by another one."""


class NotThere(HostError):
    """A pool has no volume of that name."""


class StillNeeded(HostError):
    """Something else is made of the volume and would be lost with it."""


class ConnectionLost(LocalpvError):
    """The API server gave no answer."""


class ApiError(LocalpvError):
    """An answer of an API server that is a Status with status Failure."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init__(self, message: str, *, details: dict[str, Any] | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.details = details or {}
        self.list_metadata: dict[str, Any] = {}
        """metadata of the Status; an expired list carries a token to go on with in it."""

    @property
    def retry_after_seconds(self) -> int:
        """How long the server asks to wait before the next try; 0 when it does not say."""
        return int(self.details.get("retryAfterSeconds", 0))


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    code, reason = 403, "Forbidden"


class NotFound(ApiError):
    code, reason = 404, "NotFound"


class MethodNotAllowed(ApiError):
    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(ApiError):
    code, reason = 406, "NotAcceptable"


class AlreadyExists(ApiError):
    code, reason = 409, "AlreadyExists"


class Conflict(ApiError):
    code, reason = 409, "Conflict"


class Gone(ApiError):
    code, reason = 410, "Expired"


class TooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    code, reason = 422, "Invalid"


class TooManyRequests(ApiError):
    code, reason = 429, "TooManyRequests"


class InternalError(ApiError):
    code, reason = 500, "InternalError"


class Unavailable(ApiError):
    code, reason = 503, "ServiceUnavailable"


class GatewayTimeout(ApiError):
    code, reason = 504, "Timeout"
