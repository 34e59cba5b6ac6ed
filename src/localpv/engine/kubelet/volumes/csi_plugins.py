"""CSI drivers of this node: registered when their socket appears in the registry folder, forgotten when it goes.

As a kubelet does it: whoever listens on a socket there is asked who it is and where its driver listens, the driver is
asked which node this is to it, and Node and CSINode say so before the driver is told that it is registered. Each look
at a socket compares what is there with what is known, so it can be repeated; what fails is tried again, alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

from localpv import errors
from localpv.api import names
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.csi import CSINode, CSINodeDriver, CSINodeSpec, VolumeNodeResources
from localpv.api.kinds.meta import ObjectMeta, OwnerReference
from localpv.client.client import Client
from localpv.csi.status import Code, RpcError
from localpv.engine.kubelet.volumes.csi_driver import NODE, Calls, Connect, Driver
from localpv.engine.kubelet.volumes.volume_spec import DriverError, DriverMissing
from localpv.host.feeds import Feed
from localpv.runtime.backoff import KeyedBackoff
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Controller, Done, LookAgain, Outcome
from localpv.runtime.queue import WorkQueue

REGISTRATION = "/pluginregistration.Registration/"
PLUGIN_TYPE = "CSIPlugin"
NODE_ID = "csi.volume.kubernetes.io/nodeid"

CALL_SECONDS = 10.0
"""For one call while a driver is registered."""

FIRST_RETRY, LONGEST_RETRY = 0.1, 30.0
DEAD_SECONDS = 2.0
"""How often a socket is tried on which nobody listens."""

AT_ONCE = 4
"""Sockets that are looked at at the same time."""

LONGEST_NAME = 63
MOST_SEGMENTS = 64
"""Labels that a driver may put on the node."""

log = logging.getLogger(__name__)


class Watch(Protocol):
    """Tells when something in one of the folders changes."""

    def __call__(self, folders: Iterable[Path]) -> Feed[Path]: ...


@dataclass(frozen=True, slots=True)
class _Registered:
    socket: tuple[int, int, int]
    """Device, inode and when it changed: a driver that starts anew makes another socket."""

    driver: Driver


class CsiPlugins:
    """Somebody must own the task of `run`. `on_registered` hears the name of each driver that has been registered."""

    def __init__(
        self,
        client: Client,
        *,
        node: str,
        registry: Path,
        connect: Connect,
        watch: Watch,
        clock: Clock,
        on_registered: Callable[[str], None],
    ) -> None:
        self._nodes, self._csi_nodes = client.objects(Node), client.objects(CSINode)
        self._node, self._registry = node, registry
        self._connect, self._watch, self._on_registered = connect, watch, on_registered
        self._registered: dict[str, _Registered] = {}
        """By the name of the socket."""

        self._writing = asyncio.Lock()
        self._queue: WorkQueue[str] = WorkQueue(
            clock=clock, backoff=KeyedBackoff(first=FIRST_RETRY, most=LONGEST_RETRY)
        )
        self._controller = Controller("CSI drivers", self._look, queue=self._queue, clock=clock, workers=AT_ONCE)

    def get(self, name: str) -> Driver:
        """A registered driver; DriverMissing when there is none of that name."""
        for known in self._registered.values():
            if known.driver.name == name:
                return known.driver
        raise DriverMissing(name)

    async def run(self) -> None:
        """Register drivers until cancelled."""
        self._registry.mkdir(parents=True, exist_ok=True, mode=0o750)
        try:
            async with asyncio.TaskGroup() as group, self._watch([self._registry]) as changes:
                group.create_task(self._controller.run(), name="CSI drivers")
                self._look_at_all()
                async for _ in changes:
                    self._look_at_all()
        finally:
            # Nobody registers any more from here on.
            for known in self._registered.values():
                await known.driver.close()

    def _look_at_all(self) -> None:
        for name in {*os.listdir(self._registry), *self._registered}:
            if not name.startswith("."):
                self._queue.add(name)

    async def _look(self, name: str) -> Outcome:
        found, known = _socket(self._registry / name), self._registered.get(name)
        if known is not None and known.socket != found:
            # The volumes of the driver stay as they are; what is to be done about them waits until it is back.
            del self._registered[name]
            await known.driver.close()
            if found is None:
                await self._forget(known.driver.name)
                log.info("CSI driver unregistered driver=%s socket=%s", known.driver.name, name)
            known = None
        if found is None or known is not None:
            return Done()
        registration = self._connect(self._registry / name)
        try:
            await self._register(name, found, registration)
        except DriverError as error:
            if error.code != Code.UNAVAILABLE.name:
                raise
            # Left by a driver that was killed, mostly: it makes another socket when it is back, and that is told.
            return LookAgain(after=DEAD_SECONDS)
        finally:
            await registration.close()
        return Done()

    async def _register(self, name: str, socket: tuple[int, int, int], registration: Calls) -> None:
        try:
            info = await _call(registration, REGISTRATION + "GetInfo", {})
            driver = await self._driver(info, self._registry / name)
            try:
                await self._introduce(driver)
            except BaseException:
                await driver.close()
                raise
        except errors.LocalpvError as error:
            dead = isinstance(error, DriverError) and error.code == Code.UNAVAILABLE.name
            log.log(
                logging.DEBUG if dead else logging.WARNING, "CSI driver not registered socket=%s reason=%s", name, error
            )
            with contextlib.suppress(errors.LocalpvError):
                refused = {"plugin_registered": False, "error": error.message[:1000]}
                await _call(registration, REGISTRATION + "NotifyRegistrationStatus", refused)
            raise
        self._registered[name] = _Registered(socket, driver)
        log.info("CSI driver registered driver=%s socket=%s", driver.name, name)
        self._on_registered(driver.name)
        await _call(registration, REGISTRATION + "NotifyRegistrationStatus", {"plugin_registered": True})

    async def _driver(self, info: Mapping[str, Any], socket: Path) -> Driver:
        """The driver that a registration speaks of; DriverError for what cannot be one."""
        kind, name, versions = info.get("type", ""), info.get("name", ""), info.get("supported_versions") or []
        if kind != PLUGIN_TYPE:
            raise DriverError(f"a plugin of type {kind[:64]!r} is not served here")
        if not name or len(name) > LONGEST_NAME or names.dns_subdomain(name.lower()):
            raise DriverError(f"{name[:100]!r} cannot be the name of a CSI driver")
        if not any(version.removeprefix("v").partition(".")[0] == "1" for version in versions):
            raise DriverError(f"the CSI driver {name} has none of the versions 1.x: {', '.join(versions)[:100]}")
        if any(known.driver.name == name for known in self._registered.values()):
            raise DriverError(f"another CSI driver is registered as {name}")
        calls = self._connect(Path(info.get("endpoint", "").removeprefix("unix://") or socket))
        try:
            answer = await _call(calls, f"{NODE}NodeGetCapabilities", {})
        except BaseException:
            await calls.close()
            raise
        abilities = (one.get("rpc", {}).get("type", "") for one in answer.get("capabilities", ()))
        return Driver(name, calls, abilities=frozenset(map(str, abilities)))

    async def _introduce(self, driver: Driver) -> None:
        """Let the API know of a driver, and which node this is to it."""
        info = await driver.node("NodeGetInfo", {})
        node_id = info.get("node_id", "")
        segments = info.get("accessible_topology", {}).get("segments", {})
        if not node_id:
            raise DriverError(f"the CSI driver {driver.name} does not say which node this is")
        if len(segments) > MOST_SEGMENTS:
            raise DriverError(f"the CSI driver {driver.name} has more than {MOST_SEGMENTS} labels for the node")
        count = info.get("max_volumes_per_node", 0)
        entry = CSINodeDriver(
            name=driver.name,
            node_id=node_id,
            topology_keys=tuple(sorted(segments)),
            allocatable=VolumeNodeResources(count=count) if count > 0 else None,
        )
        async with self._writing:
            node = await self._nodes.get(self._node)
            await self._label(node, driver.name, node_id, segments)
            await self._write_entry(node, entry)

    async def _label(self, node: Node, driver: str, node_id: str, segments: Mapping[str, str]) -> None:
        has = node.metadata.labels
        if clash := next((key for key, value in segments.items() if has.get(key, value) != value), None):
            raise DriverError(
                f"the CSI driver {driver} has the value {segments[clash]} for the label {clash}, and the node has"
                f" {has[clash]}"
            )
        ids = _ids(node)
        patch: dict[str, Any] = {}
        if any(key not in has for key in segments):
            patch["labels"] = dict(segments)
        if ids.get(driver) != node_id:
            patch["annotations"] = {NODE_ID: msgspec.json.encode(ids | {driver: node_id}, order="sorted").decode()}
        if patch:
            await self._nodes.patch(self._node, {"metadata": patch})

    async def _write_entry(self, node: Node, entry: CSINodeDriver) -> None:
        known = await self._csi_nodes.find(self._node)
        if known is None:
            owner = OwnerReference(
                api_version=Node.resource.api_version, kind=Node.resource.kind, name=self._node, uid=node.metadata.uid
            )
            meta = ObjectMeta(name=self._node, owner_references=(owner,))
            await self._csi_nodes.create(CSINode(metadata=meta, spec=CSINodeSpec(drivers=(entry,))))
            return
        before = next((each for each in known.spec.drivers if each.name == entry.name), None)
        if before == entry:
            return
        others = [each for each in known.spec.drivers if each.name != entry.name]
        if before is not None:
            known = await self._write(known, others)  # an entry cannot change, but go and come
        await self._write(known, [*others, entry])

    async def _forget(self, driver: str) -> None:
        async with self._writing:
            known = await self._csi_nodes.find(self._node)
            if known is not None:
                others = [each for each in known.spec.drivers if each.name != driver]
                if len(others) != len(known.spec.drivers):
                    await self._write(known, others)
            node = await self._nodes.find(self._node)
            if node is not None and driver in (ids := _ids(node)):
                left = {name: value for name, value in ids.items() if name != driver}
                text = msgspec.json.encode(left, order="sorted").decode() if left else None
                await self._nodes.patch(self._node, {"metadata": {"annotations": {NODE_ID: text}}})

    async def _write(self, known: CSINode, drivers: Iterable[CSINodeDriver]) -> CSINode:
        patch = {
            "metadata": {"resourceVersion": known.metadata.resource_version},
            "spec": {"drivers": msgspec.to_builtins(list(drivers))},
        }
        return await self._csi_nodes.patch(self._node, patch)


async def _call(calls: Calls, method: str, request: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return await calls.call(method, request, timeout=CALL_SECONDS)
    except RpcError as error:
        short = method.rpartition("/")[2]
        raise DriverError(f"{short} failed: {error.code.name}: {error.message}", code=error.code.name) from error


def _socket(path: Path) -> tuple[int, int, int] | None:
    """Which socket is at a path; None when none is."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_ctime_ns) if stat.S_ISSOCK(found.st_mode) else None


def _ids(node: Node) -> dict[str, str]:
    """How drivers call this node, by the name of the driver."""
    try:
        return msgspec.json.decode(node.metadata.annotations.get(NODE_ID, "{}"), type=dict[str, str])
    except msgspec.DecodeError:
        return {}
