"""The Node object of this machine: what it is, what it has, whether it can run pods, and that it is alive."""

from __future__ import annotations

import logging
import os
import platform
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localpv import __version__, errors
from localpv.api import well_known
from localpv.api.kinds.cluster import Lease, LeaseSpec, Node
from localpv.api.kinds.meta import ObjectMeta, write_time
from localpv.client.client import Client
from localpv.client.objects import Patch
from localpv.runtime.clock import Clock

PODS = 110
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}

LEASES = "kube-node-lease"
RENEW_SECONDS, LEASE_SECONDS = 10.0, 40
"""How often the machine says that it is alive, and how long that holds."""

STATUS_SECONDS = 300.0
"""How often the status is written though nothing has changed."""

ROOT = "the rights of root"
"""Stands among what is missing where localpv was started by another user."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineInfo:
    """Facts, read once."""

    boot_id: str
    machine_id: str
    architecture: str
    kernel: str
    os_image: str
    processors: int
    memory: int
    disk: int
    address: str
    runtime: str = ""
    """Version of the container runtime."""

    def capacity(self) -> dict[str, str]:
        return {
            "cpu": str(self.processors),
            "memory": f"{self.memory // 1024}Ki",
            "ephemeral-storage": f"{self.disk // 1024}Ki",
            "pods": str(PODS),
        }

    def info(self) -> dict[str, str]:
        """status.nodeInfo"""
        return {
            "machineID": self.machine_id,
            "systemUUID": self.machine_id,
            "bootID": self.boot_id,
            "kernelVersion": self.kernel,
            "osImage": self.os_image,
            "containerRuntimeVersion": f"runc://{self.runtime}",
            "kubeletVersion": f"v{__version__}+localpv",
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": self.architecture,
        }


def read_machine(data: Path, *, runtime: str = "") -> MachineInfo:
    """Look at the machine; `data` is on the disk that pods share."""
    room = os.statvfs(data)
    return MachineInfo(
        boot_id=_text("/proc/sys/kernel/random/boot_id"),
        machine_id=_text("/etc/machine-id"),
        architecture=_ARCHITECTURES.get(platform.machine(), platform.machine()),
        kernel=platform.release(),
        os_image=_os_image(),
        processors=len(os.sched_getaffinity(0)),
        memory=_memory(),
        disk=room.f_blocks * room.f_frsize,
        address=_address(),
        runtime=runtime,
    )


def _memory() -> int:
    found = re.search(r"^MemTotal:\s*(\d+) kB", _text("/proc/meminfo"), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _os_image() -> str:
    found = re.search(r'^PRETTY_NAME="?([^"\n]*)"?$', _text("/etc/os-release"), re.MULTILINE)
    return found[1] if found else "Linux"


def _address() -> str:
    """The address from which this machine would reach others; nothing is sent. Loopback when there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""


def lacking(missing: Sequence[str]) -> str:
    """What keeps pods from running on this machine, and what to do about just that."""
    programs = " and ".join(one for one in missing if one != ROOT)
    steps = [*(["start localpv as root"] if ROOT in missing else []), *([f"install {programs}"] if programs else [])]
    return f"{' and '.join(missing)} missing: {' and '.join(steps)}"


class NodeKeeper:
    """Somebody must own the task of `run`."""

    def __init__(
        self, client: Client, *, name: str, machine: MachineInfo, clock: Clock, missing: Callable[[], Sequence[str]]
    ) -> None:
        self._nodes, self._leases = client.objects(Node), client.objects(Lease)
        self._name, self._machine, self._clock, self._missing = name, machine, clock, missing
        self._told: tuple[str, ...] | None = None
        self._told_at = 0.0

    async def tell(self) -> None:
        """Make the Node say how this machine is."""
        missing = tuple(self._missing())
        now = self._clock.monotonic()
        if missing == self._told and now - self._told_at < STATUS_SECONDS:
            return
        labels = {
            well_known.HOSTNAME: self._name,
            well_known.OS: "linux",
            well_known.ARCHITECTURE: self._machine.architecture,
        }
        node = await self._nodes.find(self._name)
        if node is None:
            node = await self._nodes.create(Node(metadata=ObjectMeta(name=self._name, labels=labels)))
        elif lacking := {key: value for key, value in labels.items() if node.metadata.labels.get(key) != value}:
            await self._nodes.patch(self._name, {"metadata": {"labels": lacking}})
        await self._nodes.patch(self._name, self._status(node, missing), how=Patch.STRATEGIC, subresource="status")
        self._told, self._told_at = missing, now

    async def run(self) -> None:
        """Keep it fresh until cancelled."""
        while True:
            try:
                await self.tell()
                await self._renew()
            except errors.LocalpvError as error:
                log.warning("node cannot be told node=%s reason=%s", self._name, error)
            await self._clock.sleep(RENEW_SECONDS)

    async def _renew(self) -> None:
        spec = LeaseSpec(
            holder_identity=self._name,
            lease_duration_seconds=LEASE_SECONDS,
            renew_time=write_time(self._clock.now()),
        )
        try:
            await self._leases.patch(
                self._name, {"spec": {"renewTime": spec.renew_time, "holderIdentity": self._name}}, LEASES
            )
        except errors.NotFound:
            await self._leases.create(Lease(metadata=ObjectMeta(name=self._name, namespace=LEASES), spec=spec))

    def _status(self, node: Node, missing: Sequence[str]) -> dict[str, Any]:
        now = write_time(self._clock.now())[:19] + "Z"
        before = {one.type: one for one in node.status.conditions}
        ready = ("True", "RuntimeReady", "pods can run here")
        if missing:
            ready = ("False", "RuntimeMissing", lacking(missing))
        told = {
            "MemoryPressure": ("False", "SufficientMemory", "not measured"),
            "DiskPressure": ("False", "NoDiskPressure", "not measured"),
            "PIDPressure": ("False", "SufficientPID", "not measured"),
            "Ready": ready,
        }
        conditions = []
        for kind, (status, reason, message) in told.items():
            old = before.get(kind)
            since = old.last_transition_time if old is not None and old.status == status else now
            conditions.append(
                {
                    "type": kind,
                    "status": status,
                    "reason": reason,
                    "message": message,
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": since,
                }
            )
        capacity = self._machine.capacity()
        addresses = [
            {"type": "InternalIP", "address": self._machine.address},
            {"type": "Hostname", "address": self._name},
        ]
        return {
            "status": {
                "capacity": capacity,
                "allocatable": capacity,
                "conditions": conditions,
                "addresses": addresses,
                "nodeInfo": self._machine.info(),
            }
        }
