"""What this machine is: the facts that its Node object tells."""

from __future__ import annotations

import os
import platform
import re
import socket
from dataclasses import dataclass
from pathlib import Path

from localpv import __version__

PODS = 110
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
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


def read(data: Path, *, runtime: str = "") -> Machine:
    """Look at the machine; `data` is on the disk that pods share."""
    room = os.statvfs(data)
    return Machine(
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
