"""A CSI driver as small as the specification lets one be, strict about what a kubelet may ask of it and when.

It keeps a folder or device for each handle and shows it by bind mounts, through hands that are those of a machine in
memory or of the kernel. It is called in the process (`InProcess`) or through a socket (`handlers` for a server).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from localpv.csi.status import Code, RpcError
from localpv.engine.kubelet.volumes.csi_driver import Driver
from localpv.engine.kubelet.volumes.volume_spec import DriverMissing
from localpv.testing.fake_host import FakeMachine

NAME = "tiny.example.com"
Handler = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class Hands(Protocol):
    def show(self, source: Path, at: Path) -> None:
        """Bind a folder or device to a place that is there."""

    def is_shown(self, at: Path) -> bool: ...

    def hide(self, at: Path) -> None: ...


class FakeHands:
    def __init__(self, machine: FakeMachine) -> None:
        self._machine = machine

    def show(self, source: Path, at: Path) -> None:
        self._machine.mount(None, at)
        if source in self._machine.disks:
            self._machine.links[at] = source

    def is_shown(self, at: Path) -> bool:
        return any(mount.mount_point == at for mount in self._machine.mounted)

    def hide(self, at: Path) -> None:
        self._machine.unmount(at)
        self._machine.links.pop(at, None)
        self._machine.folders.discard(at)


class KernelHands:
    def show(self, source: Path, at: Path) -> None:
        subprocess.run(["mount", "--bind", source, at], check=True)

    def is_shown(self, at: Path) -> bool:
        return any(line.split()[4] == str(at) for line in Path("/proc/self/mountinfo").read_text().splitlines())

    def hide(self, at: Path) -> None:
        subprocess.run(["umount", at], check=True)


class TinyDriver:
    """Volumes are what `sources` has: by handle, the folder or device behind it."""

    def __init__(self, hands: Hands, sources: Mapping[str, Path], *, abilities: tuple[str, ...] = ()) -> None:
        self.hands, self.sources, self.abilities = hands, dict(sources), [*abilities]
        self.log: list[tuple[str, dict[str, Any]]] = []
        self.staged: dict[str, str] = {}
        self.published: dict[str, str] = {}
        """Handles, by target path."""

        self.refusals: list[RpcError] = []
        """Raised by the next calls about volumes, one each, before they do anything."""

        self.notified: list[dict[str, Any]] = []
        self.endpoint = ""
        self.topology = {"topology.tiny.example.com/node": "n1"}

    @property
    def handlers(self) -> dict[str, Handler]:
        volumes = {
            f"/csi.v1.Node/{name}": self._logged(name, handler)
            for name, handler in {
                "NodeStageVolume": self.stage,
                "NodeUnstageVolume": self.unstage,
                "NodePublishVolume": self.publish,
                "NodeUnpublishVolume": self.unpublish,
                "NodeExpandVolume": self.expand,
            }.items()
        }
        return volumes | {
            "/csi.v1.Node/NodeGetCapabilities": self.capabilities,
            "/csi.v1.Node/NodeGetInfo": self.info,
            "/pluginregistration.Registration/GetInfo": self.registration,
            "/pluginregistration.Registration/NotifyRegistrationStatus": self.notify,
        }

    def _logged(self, name: str, handler: Handler) -> Handler:
        async def call(request: dict[str, Any]) -> dict[str, Any]:
            self.log.append((name, request))
            if self.refusals:
                raise self.refusals.pop(0)
            return await handler(request)

        return call

    def calls(self, name: str) -> list[dict[str, Any]]:
        return [request for each, request in self.log if each == name]

    async def capabilities(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"capabilities": [{"rpc": {"type": ability}} for ability in self.abilities]}

    async def info(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"node_id": "tiny-n1", "max_volumes_per_node": 7, "accessible_topology": {"segments": self.topology}}

    async def registration(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"type": "CSIPlugin", "name": NAME, "endpoint": self.endpoint, "supported_versions": ["1.0.0"]}

    async def notify(self, request: dict[str, Any]) -> dict[str, Any]:
        self.notified.append(request)
        return {}

    async def stage(self, request: dict[str, Any]) -> dict[str, Any]:
        handle, at = request["volume_id"], Path(request["staging_target_path"])
        if handle not in self.sources:
            raise RpcError(Code.NOT_FOUND, f"there is no volume {handle}")
        if not at.is_dir():
            raise RpcError(Code.INTERNAL, f"the kubelet has not made {at}")
        if "block" not in request["volume_capability"] and not self.hands.is_shown(at):
            self.hands.show(self.sources[handle], at)
        self.staged[handle] = str(at)
        return {}

    async def unstage(self, request: dict[str, Any]) -> dict[str, Any]:
        handle, at = request["volume_id"], Path(request["staging_target_path"])
        if handle in self.published.values():
            raise RpcError(Code.FAILED_PRECONDITION, f"{handle} is still published")
        if self.hands.is_shown(at):
            self.hands.hide(at)
        self.staged.pop(handle, None)
        return {}

    async def publish(self, request: dict[str, Any]) -> dict[str, Any]:
        handle, at, capability = request["volume_id"], Path(request["target_path"]), request["volume_capability"]
        if handle not in self.sources and not handle.startswith("csi-"):
            raise RpcError(Code.NOT_FOUND, f"there is no volume {handle}")
        staged = request.get("staging_target_path", "")
        if not handle.startswith("csi-") and "STAGE_UNSTAGE_VOLUME" in self.abilities:
            if self.staged.get(handle) != staged:
                raise RpcError(Code.FAILED_PRECONDITION, f"{handle} is not staged at {staged!r}")
        elif staged:
            raise RpcError(Code.INVALID_ARGUMENT, "nothing was staged")
        if not at.parent.is_dir():
            raise RpcError(Code.INTERNAL, f"the kubelet has not made {at.parent}")
        source = self.sources.get(handle, self.sources.get("inline"))
        assert source is not None
        if not self.hands.is_shown(at):
            if "block" in capability:
                at.touch()
            else:
                at.mkdir(exist_ok=True)
            self.hands.show(source, at)
        self.published[str(at)] = handle
        return {}

    async def unpublish(self, request: dict[str, Any]) -> dict[str, Any]:
        at = Path(request["target_path"])
        if self.hands.is_shown(at):
            self.hands.hide(at)
        if at.is_dir():
            at.rmdir()
        elif at.exists():
            at.unlink()
        self.published.pop(str(at), None)
        return {}

    async def expand(self, request: dict[str, Any]) -> dict[str, Any]:
        if not self.hands.is_shown(Path(request["volume_path"])):
            raise RpcError(Code.NOT_FOUND, "the volume is not there")
        return {"capacity_bytes": request["capacity_range"]["required_bytes"]}

    @property
    def holds(self) -> list[str]:
        """What it has done and was not told to take back."""
        return [*self.staged, *self.published]


class InProcess:
    """Calls the handlers of a driver without a socket."""

    def __init__(self, driver: TinyDriver) -> None:
        self._driver = driver

    async def call(self, method: str, request: Mapping[str, Any], *, timeout: float = 0.0) -> dict[str, Any]:  # noqa: ASYNC109
        return await self._driver.handlers[method](dict(request))

    async def close(self) -> None: ...


class Registered:
    """The drivers of a node: this one, or none while it is away."""

    def __init__(self, driver: TinyDriver, calls: Any = None) -> None:
        self.driver, self.away = driver, False
        self._calls = calls or InProcess(driver)

    def get(self, name: str) -> Driver:
        if self.away or name != NAME:
            raise DriverMissing(name)
        return Driver(NAME, self._calls, abilities=frozenset(self.driver.abilities))


def device_of(path: Path) -> tuple[int, int]:
    number = path.stat().st_rdev
    return os.major(number), os.minor(number)
