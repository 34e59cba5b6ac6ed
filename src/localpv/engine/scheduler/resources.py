"""What pods ask for and nodes have, as whole numbers: cpu in thousandths, everything else in units."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from localpv.api.kinds.cluster import Node
from localpv.api.kinds.containers import Container
from localpv.api.kinds.pods import Pod
from localpv.api.quantity import Quantity

Amounts = Mapping[str, int]

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"
EPHEMERAL_STORAGE = "ephemeral-storage"
SIDECAR = "Always"
"""The restart policy of an init container that goes on running beside the others."""


@lru_cache(maxsize=4096)
def whole(resource: str, text: str) -> int:
    quantity = Quantity.parse(text)
    return quantity.milli_value if resource == CPU else quantity.value


def read(resources: Mapping[str, str]) -> dict[str, int]:
    return {name: whole(name, text) for name, text in resources.items()}


def requests(pod: Pod) -> dict[str, int]:
    """What the pod needs at its neediest moment: all containers at once, or one init container and the sidecars
    started before it, whichever is more."""
    spec = pod.spec
    total: dict[str, int] = {}
    for container in spec.containers:
        _add(total, _of(container))
    if spec.init_containers:
        total = _with_init(total, spec.init_containers)
    if spec.resources is not None:
        total |= {name: amount for name, amount in read(spec.resources.requests).items() if _of_a_whole_pod(name)}
    if spec.overhead:
        _add(total, read(spec.overhead))
    return {name: amount for name, amount in total.items() if amount}


def allocatable(node: Node) -> dict[str, int]:
    """What pods may have of a node. A node that says nothing but its capacity gives all of it."""
    return read(node.status.allocatable or node.status.capacity)


def _with_init(total: dict[str, int], init_containers: tuple[Container, ...]) -> dict[str, int]:
    sidecars: dict[str, int] = {}
    most: dict[str, int] = {}
    for container in init_containers:
        needed = dict(sidecars)
        _add(needed, _of(container))
        if container.restart_policy == SIDECAR:
            _add(total, _of(container))
            sidecars = needed
        for name, amount in needed.items():
            most[name] = max(most.get(name, 0), amount)
    return {name: max(total.get(name, 0), most.get(name, 0)) for name in {**total, **most}}


def _of(container: Container) -> dict[str, int]:
    return read(container.resources.requests)


def _of_a_whole_pod(resource: str) -> bool:
    return resource in (CPU, MEMORY) or resource.startswith("hugepages-")


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
