"""A volume as the node sees it: what it is when it can be served, and why it cannot be served now.

Sources that are not of this machine are refused by name, each with what can be done instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from localpv import errors
from localpv.api.kinds.volumes import CSIVolumeSource, PersistentVolume
from localpv.host.model.devices import DeviceNumber

FAILED_MOUNT = "FailedMount"
FAILED_MAP = "FailedMapVolume"


class DriverError(errors.HostError):
    """A CSI driver refused a call, or did not answer."""

    def __init__(self, message: str, *, hint: str = "", code: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code
        """What the driver said, as the name of a gRPC code."""


class DriverMissing(DriverError):
    """A volume needs a CSI driver that is not registered on this node now."""

    def __init__(self, driver: str) -> None:
        super().__init__(
            f"the CSI driver {driver} is not registered on this node",
            hint="start the driver, or see why it does not register; the pod goes on by itself",
        )


_REASONS: dict[type[BaseException], str] = {
    DriverError: "DriverRefused",
    DriverMissing: "DriverMissing",
    errors.HostTimeout: "NoAnswer",
    errors.DeviceBusy: "DeviceBusy",
    errors.DeviceChanged: "DeviceChanged",
    errors.NotClean: "NotBlank",
    errors.NotSupported: "NotSupported",
    errors.OutsideFolder: "PathOutside",
    errors.CommandFailed: "ToolFailed",
}

_LINK = "link its device into the directory of a class: localpv offers it as a local volume"
_DEVICE = f"attach the disk to this machine and {_LINK}"
_FILES = "mount it on this machine below the directory of a class: localpv offers it as a local volume"

_INSTEAD = {
    "iscsi": f"log in to the target with iscsiadm on this machine and {_LINK}",
    "hostPath": "name the path in spec.local in place of spec.hostPath, with spec.nodeAffinity",
    **dict.fromkeys(("fc", "rbd", "scaleIO", "storageos", "portworxVolume"), _DEVICE),
    **dict.fromkeys(
        ("gcePersistentDisk", "awsElasticBlockStore", "azureDisk", "cinder", "vsphereVolume", "photonPersistentDisk"),
        _DEVICE,
    ),
    **dict.fromkeys(("glusterfs", "nfs", "cephfs", "azureFile", "quobyte", "flocker"), _FILES),
}

NOT_SOURCES = frozenset(
    {
        "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
        "storageClassName", "volumeAttributesClassName", "volumeMode",
    }
)  # fmt: skip
"""Fields in the spec of a PersistentVolume; whatever else is there is where its data is."""

READ_ONLY_MANY, READ_WRITE_ONCE, READ_WRITE_ONCE_POD = "ReadOnlyMany", "ReadWriteOnce", "ReadWriteOncePod"
BLOCK, FILE_SYSTEM = "Block", "Filesystem"


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


def instead(source: str) -> str:
    """What to do for a volume with this source."""
    return _INSTEAD.get(source, "use a claim of a class that localpv offers, or a cluster with a driver for it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A volume as the plugin for it sees it."""

    name: str
    """The name of the PersistentVolume."""

    path: str = ""
    """Of a local volume."""

    csi: CSIVolumeSource | None = None
    """Of a volume that a driver serves."""

    mode: str = FILE_SYSTEM
    fs_type: str = ""
    """Empty: whatever is there, or the default where nothing is."""

    mount_options: tuple[str, ...] = ()
    access_modes: tuple[str, ...] = ()
    read_only: bool = False
    uid: str = ""

    @property
    def event(self) -> str:
        return FAILED_MAP if self.mode == BLOCK else FAILED_MOUNT

    @property
    def access(self) -> str:
        """What containers may do with the raw device."""
        return "r" if self.read_only or set(self.access_modes) == {READ_ONLY_MANY} else "rwm"

    @property
    def unsupported_access_modes(self) -> tuple[str, ...]:
        """Those that promise the volume to several nodes: the disk is in one. ReadWriteOncePod is for one pod of it."""
        if self.csi is not None:
            return ()  # what a driver can do is for the driver to say
        return tuple(mode for mode in self.access_modes if mode not in (READ_WRITE_ONCE, READ_WRITE_ONCE_POD))

    def refuse_second_pod(self, others: Collection[str]) -> None:
        """NotReady for a volume of one pod only that others (their uids) have, or are about to have or to give back.

        Schedulers see to that too, but whoever names the node of a pod himself goes past them.
        """
        if READ_WRITE_ONCE_POD in self.access_modes and others:
            raise NotReady(
                "InUseByAnotherPod",
                f"volume {self.name} is {READ_WRITE_ONCE_POD} and in use by another pod, {min(others)}",
                hint="the pod goes on by itself when the other one is gone",
                event=self.event,
            )


def spec_of(source: PersistentVolume, *, read_only: bool = False) -> Spec:
    """The spec of a PersistentVolume; NotReady for one that no plugin serves."""
    local, csi = source.spec.local, source.spec.csi
    name = source.metadata.name
    mode = source.spec.volume_mode or FILE_SYSTEM
    if local is not None:
        refuse_backsteps(local.path, name, event=event_of(source))
    elif csi is None:
        raise NotReady(
            "NotSupported", f"volume {name} is neither local nor served by a CSI driver", event=event_of(source)
        )
    fs_type = local.fs_type if local is not None else csi.fs_type if csi is not None else ""
    return Spec(
        name=name,
        path=local.path if local is not None else "",
        csi=csi if local is None else None,
        mode=mode,
        fs_type=(fs_type or "") if mode == FILE_SYSTEM else "",
        mount_options=source.spec.mount_options,
        access_modes=source.spec.access_modes,
        read_only=read_only,
        uid=source.metadata.uid,
    )


def event_of(volume: PersistentVolume) -> str:
    """The reason of the event when it cannot be set up."""
    return FAILED_MAP if volume.spec.volume_mode == BLOCK else FAILED_MOUNT


def refuse_backsteps(path: str, name: str, *, event: str = FAILED_MOUNT) -> None:
    """A path that is absolute and goes only downwards, or NotReady."""
    if not path.startswith("/") or ".." in PurePosixPath(path).parts or "\0" in path:
        raise NotReady(
            "InvalidPath",
            f"the path {path} of volume {name} is not absolute or contains ..",
            hint="name the directory or device itself in spec.local.path",
            event=event,
        )
