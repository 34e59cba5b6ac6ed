"""Why a pod's volumes cannot be served now, and what they are when they can."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from localpv import errors
from localpv.host.model.devices import DeviceNumber

FAILED_MOUNT = "FailedMount"
FAILED_MAP = "FailedMapVolume"


class NotReady(errors.LocalpvError):
    """A volume cannot be served as things are. The pod waits, says why, and tries again later."""

    def __init__(self, reason: str, message: str, *, hint: str = "", event: str = FAILED_MOUNT) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        """One word for programs, such as PathMissing."""

        self.event = event
        """The reason of the event that people see, as a kubelet calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A volume that containers can be given now."""

    path: Path
    """The directory or file to bind into containers, or the link to a device."""

    name: str = ""
    """The name that the volume has in the pod."""

    device: bool = False
    read_only: bool = False
    access: str = ""
    """Of a device: what the device cgroup lets containers do, `rwm` or `r`."""

    number: DeviceNumber | None = None
    """Of a device: the numbers that are held for as long as the pod has it."""


_REASONS: dict[type[BaseException], str] = {
    errors.HostTimeout: "NoAnswer",
    errors.DeviceBusy: "DeviceBusy",
    errors.DeviceChanged: "DeviceChanged",
    errors.NotClean: "NotBlank",
    errors.NotSupported: "NotSupported",
    errors.OutsideFolder: "PathOutside",
    errors.CommandFailed: "ToolFailed",
}


@contextmanager
def translated(what: str, *, event: str = FAILED_MOUNT) -> Iterator[None]:
    """What the machine has against it, as a reason for the pod to wait."""
    try:
        yield
    except NotReady:
        raise
    except errors.LocalpvError as error:
        reason = _REASONS.get(type(error), "HostRefused")
        if isinstance(error, errors.ApiError | errors.ConnectionLost):
            reason = "ApiRefused"
        raise NotReady(reason, f"{what}: {error.message}", hint=error.hint, event=event) from error
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise NotReady("HostRefused", f"{what}: {error.strerror}{where}", event=event) from error
