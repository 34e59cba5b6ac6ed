"""The network of one cluster: a bridge on this machine, and addresses that no other network should use.

All from 198.18.0.0/15, which is set aside for tests. The bridge carries the address of the service `kubernetes`, and
kube-apiserver listens there on port 443, so pods reach it without a kube-proxy. Nothing is forwarded to the outside.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from tests.kubernetes.ledger import Ledger

MOST_CLUSTERS = 16
MOST_NODES = 4


class NoNetwork(Exception):
    """The bridge of a cluster could not be made."""


@dataclass(frozen=True, slots=True)
class Network:
    """The addresses of one cluster, told apart by its number."""

    number: int

    @property
    def bridge(self) -> str:
        return f"localpv{self.number}"

    @property
    def service_range(self) -> str:
        return f"198.18.{self.number}.0/24"

    @property
    def api_address(self) -> str:
        """The first address of the service range, which Kubernetes gives to the service `kubernetes`."""
        return f"198.18.{self.number}.1"

    @property
    def gateway(self) -> str:
        return f"198.18.{16 + self.number}.1"

    def node_address(self, index: int) -> str:
        return f"198.18.{16 + self.number}.{10 + index}"

    def pod_range(self, index: int) -> str:
        return f"198.19.{MOST_NODES * self.number + index}.0/24"

    def outer_link(self, index: int) -> str:
        """The end of a node's cable that is on the bridge."""
        return f"{self.bridge}n{index}"

    def inner_link(self, index: int) -> str:
        """The end that goes into the node and is renamed there."""
        return f"{self.bridge}i{index}"


def make(ledger: Ledger) -> Network:
    """The first network that no other cluster of this machine has."""
    for number in range(MOST_CLUSTERS):
        network = Network(number)
        if _ip("link", "add", network.bridge, "type", "bridge", check=False):
            ledger.add_link(network.bridge)
            _ip("address", "add", f"{network.gateway}/24", "dev", network.bridge)
            _ip("address", "add", f"{network.api_address}/32", "dev", network.bridge)
            _ip("link", "set", network.bridge, "up")
            return network
    raise NoNetwork("no bridge could be made: see `ip link`")


def connect(network: Network, index: int, pid: int, ledger: Ledger) -> None:
    """Lay a cable from the bridge into the network namespace of a process."""
    outer, inner = network.outer_link(index), network.inner_link(index)
    ledger.add_link(outer)
    _ip("link", "add", outer, "type", "veth", "peer", "name", inner)
    _ip("link", "set", outer, "master", network.bridge, "up")
    _ip("link", "set", inner, "netns", str(pid))
    _ip("route", "replace", network.pod_range(index), "via", network.node_address(index), "dev", network.bridge)


def inner_commands(network: Network, index: int, nodes: int) -> list[list[str]]:
    """What a node runs inside its namespace once its end of the cable is there."""
    others = [other for other in range(nodes) if other != index]
    return [
        ["ip", "link", "set", "lo", "up"],
        ["ip", "link", "set", network.inner_link(index), "name", "eth0", "up"],
        ["ip", "address", "add", f"{network.node_address(index)}/24", "dev", "eth0"],
        ["ip", "route", "add", "default", "via", network.gateway],
        *(["ip", "route", "add", network.pod_range(at), "via", network.node_address(at)] for at in others),
    ]


def _ip(*words: str, check: bool = True) -> bool:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise NoNetwork(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.returncode == 0
