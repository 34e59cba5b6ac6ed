"""A CSI driver on this node, as its kubelet sees it: what its node service can do, and the calls about volumes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from localpv.api.kinds.volumes import CSIVolumeSource
from localpv.csi.status import RpcError
from localpv.engine.kubelet.volumes.volume_spec import (
    BLOCK,
    READ_ONLY_MANY,
    READ_WRITE_ONCE,
    READ_WRITE_ONCE_POD,
    DriverError,
    DriverMissing,
    Spec,
)

CALL_SECONDS = 120.0
"""For one call about a volume: as long as a kubelet gives a driver."""

NODE = "/csi.v1.Node/"
STAGES, EXPANDS, MOUNT_GROUP = "STAGE_UNSTAGE_VOLUME", "EXPAND_VOLUME", "VOLUME_MOUNT_GROUP"
SEVERAL_WRITERS = "SINGLE_NODE_MULTI_WRITER"


class Calls(Protocol):
    """A connection to a driver."""

    async def call(self, method: str, request: Mapping[str, Any], *, timeout: float = CALL_SECONDS) -> dict[str, Any]:  # noqa: ASYNC109
        """The answer of a method by its full name; RpcError when there is none."""

    async def close(self) -> None: ...


Connect = Callable[[Path], Calls]
"""Connects to the socket at a path, at once or with the first call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a driver is told with a volume, beside where it goes."""

    handle: str
    capability: Mapping[str, Any]
    context: Mapping[str, str]
    """For staging and publishing: the attributes of the volume."""

    pod_context: Mapping[str, str]
    """For publishing alone."""

    stage_secrets: Mapping[str, str]
    publish_secrets: Mapping[str, str]
    read_only: bool
    stages: bool
    """Whether the volume is staged before it is published."""

    gives_group: bool
    """Whether files are given to the group of the pod here, and not by the driver."""


class Driver:
    """One that is registered."""

    def __init__(self, name: str, calls: Calls, *, abilities: frozenset[str]) -> None:
        self.name, self._calls, self._abilities = name, calls, abilities

    def can(self, ability: str) -> bool:
        """Whether the node service has a capability, by its name in the specification."""
        return ability in self._abilities

    async def node(self, method: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Call a method of the node service; DriverError when the driver refuses or does not answer."""
        try:
            return await self._calls.call(NODE + method, request, timeout=CALL_SECONDS)
        except RpcError as error:
            message = f"{method} of the CSI driver {self.name} failed: {error.code.name}: {error.message}"
            raise DriverError(message, code=error.code.name) from error

    async def stage(self, request: Request, at: Path) -> None:
        """Make a volume ready for pods of this node."""
        staged = {
            "volume_id": request.handle,
            "staging_target_path": str(at),
            "volume_capability": request.capability,
            "volume_context": dict(request.context),
            "secrets": dict(request.stage_secrets),
        }
        await self.node("NodeStageVolume", staged)

    async def publish(self, request: Request, at: Path, *, staged: Path) -> None:
        """Show a volume to one pod."""
        published = {
            "volume_id": request.handle,
            "target_path": str(at),
            "volume_capability": request.capability,
            "readonly": request.read_only,
            "volume_context": {**request.context, **request.pod_context},
            "secrets": dict(request.publish_secrets),
        }
        if request.stages:
            published["staging_target_path"] = str(staged)
        await self.node("NodePublishVolume", published)

    async def unpublish(self, handle: str, at: Path) -> None:
        await self.node("NodeUnpublishVolume", {"volume_id": handle, "target_path": str(at)})

    async def unstage(self, handle: str, at: Path) -> None:
        await self.node("NodeUnstageVolume", {"volume_id": handle, "staging_target_path": str(at)})

    def capability(self, spec: Spec, *, group: int | None = None) -> dict[str, Any]:
        """How a volume is used. Of several access modes the first counts, as with a kubelet."""
        mode = spec.access_modes[0] if spec.access_modes else READ_WRITE_ONCE
        found: dict[str, Any] = {"access_mode": {"mode": self._access_mode(mode)}}
        if spec.mode == BLOCK:
            return found | {"block": {}}
        mount: dict[str, Any] = {"fs_type": spec.fs_type, "mount_flags": list(spec.mount_options)}
        if group is not None and self.can(MOUNT_GROUP):
            mount["volume_mount_group"] = str(group)
        return found | {"mount": mount}

    def _access_mode(self, mode: str) -> str:
        if mode == READ_ONLY_MANY:
            return "MULTI_NODE_READER_ONLY"
        if mode not in (READ_WRITE_ONCE, READ_WRITE_ONCE_POD):
            return "MULTI_NODE_MULTI_WRITER"
        if not self.can(SEVERAL_WRITERS):
            return "SINGLE_NODE_WRITER"
        return SEVERAL_WRITERS if mode == READ_WRITE_ONCE else "SINGLE_NODE_SINGLE_WRITER"

    async def close(self) -> None:
        await self._calls.close()


class Drivers(Protocol):
    """Those that are registered now."""

    def get(self, name: str) -> Driver:
        """DriverMissing when there is none of that name."""


class NoDrivers:
    """Where no driver can be reached: what is mounted is unmounted without them, and they hear of it later."""

    def get(self, name: str) -> Driver:
        raise DriverMissing(name)


def source_of(spec: Spec) -> CSIVolumeSource:
    assert spec.csi is not None
    return spec.csi
