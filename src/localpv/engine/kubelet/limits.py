"""Requests and limits of a container, as the kernel's control groups take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from localpv.api import kinds
from localpv.api.quantity import Quantity

PERIOD = 100_000
"""Microseconds over which CPU time is measured out."""

LEAST_SHARES, MOST_SHARES = 2, 262_144
LEAST_QUOTA = 1000
GROUPS = Path("/sys/fs/cgroup")
PARENT = "localpv"
"""All groups of our containers are in one of this name."""

BEST_EFFORT, BURSTABLE, GUARANTEED = 1000, 500, -997
"""How readily the kernel kills a container when memory runs out."""


def resources(container: kinds.Container) -> dict[str, Any]:
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


def score(pod: kinds.Pod) -> int:
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
