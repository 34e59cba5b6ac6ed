"""What is to be installed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from localpv import __version__
from localpv.api import well_known
from localpv.api.objects import Object
from localpv.config.pools import PoolSettings
from localpv.config.settings import Configuration

IMAGE = f"localhost/localpv:{__version__}"
"""No registry is guessed: this name is found only where the image was loaded on the nodes, and never pulled."""

NAMESPACE = "localpv-system"
CONFIG_MAP = "localpv-config"
MANAGERS = 2
"""Processes of the manager: one works, the other takes over within seconds when that one's node is gone."""

PULL_POLICIES = ("IfNotPresent", "Always", "Never")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """How the pods of one program run."""

    priority_class: str
    node_selector: Mapping[str, str] = field(default_factory=lambda: {well_known.OS: "linux"})
    tolerations: tuple[Object, ...] = ()
    affinity: Object = field(default_factory=dict)
    resources: Object = field(default_factory=lambda: {"requests": {"cpu": "10m", "memory": "64Mi"}})
    """Requests only. What a cleaning needs counts here too, and mkfs on a large disk must not be killed for it."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def agent_pods() -> Pods:
    """On every node, whatever its taints: a node's disks are there also when other pods are kept away."""
    return Pods(priority_class="system-node-critical", tolerations=({"operator": "Exists"},))


def manager_pods() -> Pods:
    control_plane = {"key": well_known.CONTROL_PLANE, "operator": "Exists", "effect": "NoSchedule"}
    return Pods(priority_class="system-cluster-critical", tolerations=(control_plane,))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassObject:
    """The StorageClass object of one class."""

    name: str
    reclaim_policy: str = "Delete"
    default: bool = False
    mount_options: tuple[str, ...] = ()
    allowed_topologies: tuple[Object, ...] = ()
    pool: bool = False
    """Whether volumes are carved out of a pool when a claim asks for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be installed, and how."""

    config: Configuration
    texts: Mapping[str, str]
    """The data of the ConfigMap, of which `config` is the meaning."""

    classes: tuple[ClassObject, ...] = ()
    """StorageClasses to make; others are there already."""

    image: str = IMAGE
    namespace: str = NAMESPACE
    drop_in: bool = False
    """One program per node with the classic rights, instead of agents and a manager."""

    operator: bool = False
    """Whether LocalStorages are served: udev rules on nodes, and agents for the devices that they match."""

    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    privileged: bool = True
    """Whether agents may open devices. Without it they serve directories and mount points only."""

    agent: Pods = field(default_factory=agent_pods)
    manager: Pods = field(default_factory=manager_pods)
    managers: int = MANAGERS
    pod_monitor: bool = False
    """Whether a PodMonitor tells the Prometheus operator of the pods; otherwise annotations tell plain Prometheus."""

    @property
    def pools(self) -> tuple[PoolSettings, ...]:
        """The pools of the classes, each once."""
        return tuple({each.pool.name: each.pool for each in self.config.classes.values() if each.pool}.values())

    @property
    def agents(self) -> bool:
        """Whether every node has an agent for the classes of the configuration. Where LocalStorages say all, their own
        pods are enough."""
        return not self.drop_in and bool(self.config.classes or not self.operator)
