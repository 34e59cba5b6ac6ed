"""What the runtime is told about a container: config.json of the OCI runtime specification, with its limits."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localpv.api.kinds.containers import Container, SecurityContext
from localpv.api.kinds.pods import Pod, PodSpec
from localpv.api.quantity import Quantity
from localpv.engine.kubelet import security_context
from localpv.engine.kubelet.events import BadConfig
from localpv.engine.kubelet.security_context import User
from localpv.engine.kubelet.volumes.volume_spec import Prepared

PERIOD = 100_000
"""Microseconds over which CPU time is measured out."""

LEAST_SHARES, MOST_SHARES = 2, 262_144
LEAST_QUOTA = 1000
GROUPS = Path("/sys/fs/cgroup")
PARENT = "localpv"
"""All groups of our containers are in one of this name."""

BEST_EFFORT, BURSTABLE, GUARANTEED = 1000, 500, -997
"""How readily the kernel kills a container when memory runs out."""

MASKED = (
    *("/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats"),
    *("/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"),
    "/sys/devices/virtual/powercap",
)
READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
TERMINATION_LOG = "/dev/termination-log"
_SAFE = ("nosuid", "noexec", "nodev")


def _resources(container: Container) -> dict[str, Any]:
    """`linux.resources` of the runtime's configuration, without devices, for the controllers that there are."""
    requests, limits = container.resources.requests, container.resources.limits
    found: dict[str, Any] = {}
    if has_controller("cpu"):
        share = _milli(requests.get("cpu") or limits.get("cpu"))
        cpu: dict[str, int] = {"shares": min(max(share * 1024 // 1000, LEAST_SHARES), MOST_SHARES)}
        if limit := _milli(limits.get("cpu")):
            cpu |= {"quota": max(limit * PERIOD // 1000, LEAST_QUOTA), "period": PERIOD}
        found["cpu"] = cpu
    if (text := limits.get("memory")) and has_controller("memory"):
        found["memory"] = {"limit": Quantity.parse(text).value}
    return found


def _oom_score(pod: Pod) -> int:
    """oom_score_adj of a pod's containers; not lower than our own, which only the mighty may go below."""
    wanted = {"BestEffort": BEST_EFFORT, "Guaranteed": GUARANTEED}.get(pod.status.qos_class, BURSTABLE)
    return max(wanted, int(Path("/proc/self/oom_score_adj").read_text()))


def has_controller(name: str) -> bool:
    """Whether this machine can limit that, in either version of control groups."""
    if (GROUPS / name).is_dir():
        return True
    try:
        return name in (GROUPS / "cgroup.controllers").read_text().split()
    except OSError:
        return False


def _milli(text: str | None) -> int:
    return -(-Quantity.parse(text).nanos // 1_000_000) if text else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A file or folder of this machine that the container sees."""

    source: Path
    target: str
    read_only: bool = False
    recursive: bool = False
    """Whether what is mounted below is read-only too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that goes into the configuration of one container."""

    pod: Pod
    container: Container
    id: str
    root: Path
    args: Sequence[str]
    env: Sequence[str]
    working_dir: str
    user: User
    bindings: Sequence[Binding]
    devices: Sequence[tuple[str, Prepared]]
    """(path in the container, volume)"""

    sandbox: Path
    seccomp: Mapping[str, Any] | None = None
    sysctls: Mapping[str, str] = field(default_factory=dict)


def config(plan: Plan) -> dict[str, Any]:
    """The configuration as the runtime reads it."""
    container, spec = plan.container, plan.pod.spec
    security = container.security_context or SecurityContext()
    privileged = security.privileged
    allowed = list(security_context.capabilities(security))
    # Root gets them by being root; others only by running a program that has them.
    effective = allowed if plan.user.uid == 0 else []
    linux: dict[str, Any] = {
        "namespaces": list(_namespaces(plan)),
        "cgroupsPath": f"/{PARENT}/{plan.id}",
        "resources": {**_resources(container), "devices": _rules(plan, privileged=privileged)},
        "devices": [_node(path, volume, plan.user) for path, volume in plan.devices],
    }
    if plan.seccomp is not None:
        linux["seccomp"] = plan.seccomp
    if plan.sysctls:
        linux["sysctl"] = plan.sysctls
    if privileged:
        linux["devices"] += list(_all_devices())
    else:
        linux |= {"maskedPaths": MASKED, "readonlyPaths": READ_ONLY}
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": container.tty,
            "user": {"uid": plan.user.uid, "gid": plan.user.gid, "additionalGids": plan.user.groups},
            "args": plan.args,
            "env": plan.env,
            "cwd": plan.working_dir or "/",
            "capabilities": {
                "bounding": allowed,
                "permitted": effective,
                "effective": effective,
                "inheritable": [],
                "ambient": [],
            },
            "noNewPrivileges": security.allow_privilege_escalation is False,
            "oomScoreAdj": _oom_score(plan.pod),
        },
        "root": {"path": str(plan.root), "readonly": security.read_only_root_filesystem},
        "mounts": [*_kernel_mounts(spec, privileged=privileged, shm=plan.sandbox / "shm"), *_binds(plan.bindings)],
        "linux": linux,
        "annotations": {"localpv.dev/pod": plan.pod.metadata.key, "localpv.dev/container": container.name},
    }


def _namespaces(plan: Plan) -> Iterator[dict[str, str]]:
    spec = plan.pod.spec
    yield {"type": "mount"}
    security = plan.container.security_context
    if security is None or not security.privileged:
        yield {"type": "cgroup"}
    if not spec.host_pid:
        yield {"type": "pid"}
    names = {"net": "network", "ipc": "ipc", "uts": "uts"}
    for name in shared_namespaces(plan.pod):
        yield {"type": names[name], "path": str(plan.sandbox / name)}


def shared_namespaces(pod: Pod) -> tuple[str, ...]:
    """Those that all containers of a pod have in common, and nobody else."""
    spec = pod.spec
    names = () if spec.host_network else ("net", "uts")
    return names if spec.host_ipc else (*names, "ipc")


def _kernel_mounts(spec: PodSpec, *, privileged: bool, shm: Path) -> Iterator[dict[str, Any]]:
    yield {"destination": "/proc", "type": "proc", "source": "proc", "options": _SAFE}
    yield _tmpfs("/dev", "nosuid", "strictatime", "mode=755", "size=65536k")
    yield {
        "destination": "/dev/pts",
        "type": "devpts",
        "source": "devpts",
        "options": ("nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"),
    }
    yield {"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue", "options": _SAFE}
    writable = "rw" if privileged else "ro"
    # A new sysfs, also on the machine's own network: whoever binds the machine's /sys hands out all that is mounted
    # below it, the control groups first, and with them every device.
    yield {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": (*_SAFE, writable)}
    yield {
        "destination": "/sys/fs/cgroup",
        "type": "cgroup",
        "source": "cgroup",
        "options": (*_SAFE, "relatime", writable),
    }
    source = Path("/dev/shm") if spec.host_ipc else shm
    yield {"destination": "/dev/shm", "type": "bind", "source": str(source), "options": ("rbind", *_SAFE, "rw")}


def _tmpfs(path: str, *options: str) -> dict[str, Any]:
    return {"destination": path, "type": "tmpfs", "source": "tmpfs", "options": options}


def _binds(bindings: Sequence[Binding]) -> Iterator[dict[str, Any]]:
    # Shorter paths first, whatever their order in the pod: what is mounted below must not be covered.
    for binding in sorted(bindings, key=lambda one: one.target.rstrip("/").count("/")):
        read_only = "rro" if binding.recursive else "ro"
        options = ("rbind", "rprivate", read_only if binding.read_only else "rw")
        yield {"destination": binding.target, "type": "bind", "source": str(binding.source), "options": options}


def _rules(plan: Plan, *, privileged: bool) -> list[dict[str, Any]]:
    """Nothing is allowed but what is said after: a runtime without any rule may allow everything."""
    if privileged:
        return [{"allow": True, "access": "rwm"}]
    rules: list[dict[str, Any]] = [{"allow": False, "access": "rwm"}]
    for _, volume in plan.devices:
        kind, major, minor = _numbers(volume)
        rules.append({"allow": True, "type": kind, "major": major, "minor": minor, "access": volume.access})
    return rules


def _node(path: str, volume: Prepared, user: User) -> dict[str, Any]:
    kind, major, minor = _numbers(volume)
    # The device cgroup says what may be done to it; the mode must not forbid that to those who are not root.
    mode = 0o660 if volume.access == "rwm" else 0o440
    return {"path": path, "type": kind, "major": major, "minor": minor, "fileMode": mode, **_owner(user)}


def _owner(user: User) -> dict[str, int]:
    return {"uid": user.uid, "gid": user.gid}


def _numbers(volume: Prepared) -> tuple[str, int, int]:
    if volume.number is None:
        raise BadConfig(f"{volume.path} has no device numbers")
    return "b", volume.number.major, volume.number.minor


def _all_devices() -> Iterator[dict[str, Any]]:
    """The devices of the machine, for a privileged container."""
    own = {"null", "zero", "full", "random", "urandom", "tty", "console", "ptmx", "pts", "shm", "mqueue", "fd"}
    for folder, folders, files in os.walk("/dev"):
        if folder == "/dev":
            folders[:] = [name for name in folders if name not in own]
        for name in files:
            path = os.path.join(folder, name)
            if folder == "/dev" and name in own:
                continue
            try:
                found = os.lstat(path)
            except OSError:
                continue
            if not (stat.S_ISBLK(found.st_mode) or stat.S_ISCHR(found.st_mode)):
                continue
            yield {
                "path": path,
                "type": "b" if stat.S_ISBLK(found.st_mode) else "c",
                "major": os.major(found.st_rdev),
                "minor": os.minor(found.st_rdev),
                "fileMode": stat.S_IMODE(found.st_mode),
                "uid": found.st_uid,
                "gid": found.st_gid,
            }


def working_dir(container: Container, image_dir: str) -> str:
    return container.working_dir or image_dir or "/"


def volume_of(prepared: Mapping[str, Prepared], name: str, *, device: bool) -> Prepared:
    """The volume that a container names."""
    volume = prepared.get(name)
    if volume is None:
        raise BadConfig(f'cannot find volume "{name}" to mount into the container')
    if volume.device != device:
        wanted, other = ("volumeDevices", "volumeMounts") if volume.device else ("volumeMounts", "volumeDevices")
        kind = "a block device" if volume.device else "a file system"
        raise BadConfig(f'volume "{name}" is {kind} and must be named in {wanted}, not in {other}')
    return volume
