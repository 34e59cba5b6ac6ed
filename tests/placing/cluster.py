"""Nodes without a kubelet and pods that never run: enough to see who is placed where, and what is said when nobody is.

Every test has nodes of its own, told from all others by a label, and its pods go only there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.contract import builders
from tests.contract.builders import Object
from tests.placing.places import Place

from localpv.testing.waiting import PATIENCE_SECONDS

NODES = "/api/v1/nodes"
OURS = "placing.test/cluster"
HOSTNAME = "kubernetes.io/hostname"
OTHERS = "node(s) didn't match Pod's node affinity/selector"


@dataclass
class Cluster:
    place: Place
    name: str = field(default_factory=lambda: builders.unique("cluster"))

    # Nodes.

    def node(self, *, labels: Object | None = None, spec: Object | None = None, **room: str) -> str:
        """A node that takes pods; `room` is what it has."""
        name = builders.unique("node")
        made = builders.node(name)
        made["metadata"]["labels"] = {HOSTNAME: name, OURS: self.name} | (labels or {})
        self.place.api.post(NODES, made)
        capacity = {"cpu": "4", "memory": "8Gi", "pods": "110"} | {key.replace("_", "-"): room[key] for key in room}
        self.place.api.merge(f"{NODES}/{name}/status", {"status": {"capacity": capacity, "allocatable": capacity}})
        # Kubernetes taints a new node until its kubelet says that it is ready.
        self.place.api.merge(f"{NODES}/{name}", {"spec": {"taints": None} | (spec or {})})
        self._until_seen(name, spec or {})
        return name

    def _until_seen(self, name: str, spec: Object) -> None:
        """Wait until whoever schedules knows the node as it is now: a pod that could go nowhere else has got there."""
        tolerations = [{"key": taint["key"], "operator": "Exists"} for taint in spec.get("taints") or ()]
        if spec.get("unschedulable"):
            tolerations.append({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"})
        probe = self.pod(node_selector={HOSTNAME: name}, tolerations=tolerations)
        self.until_node(probe)
        self.delete_pod(probe)

    def change_node(self, name: str, change: Object) -> None:
        self.place.api.merge(f"{NODES}/{name}", change)

    def fence(self) -> None:
        """Wait until whoever schedules has seen all nodes, volumes and claims as they are now.

        It hears of each kind in the order of what was written: a pod that needs later ones of each has got its node.
        """
        later = Cluster(Place(self.place.api, self.place.space))
        later.place.storage_class()
        later.place.available(node=later.node())
        claim, _ = later.place.bound()
        later.placed(claim)

    # Pods.

    def pod(
        self,
        *claims: str,
        requests: Object | None = None,
        labels: Object | None = None,
        node_selector: Object | None = None,
        **spec: Any,
    ) -> str:
        """A pod for the nodes of this test, with volumes of the claims."""
        volumes = [
            {"name": f"data-{number}", "persistentVolumeClaim": {"claimName": claim}}
            for number, claim in enumerate(claims)
        ]
        container: Object = {"name": "main", "image": "registry.invalid/app:1"}
        if requests:
            container["resources"] = {"requests": requests}
        whole: Object = {"containers": [container], "nodeSelector": {OURS: self.name} | (node_selector or {})}
        if volumes:
            whole["volumes"] = volumes
        made = builders.pod(builders.unique("pod"), labels=labels or {}, spec=whole | spec)
        return str(self.place.api.post(self.place.space.core("pods"), made)["metadata"]["name"])

    def placed(self, *claims: str, **pod: Any) -> str:
        """The node of a new pod."""
        return self.until_node(self.pod(*claims, **pod))

    def refused(self, *claims: str, why: dict[str, int] | None = None, words: str = "", **pod: Any) -> str:
        """What is said about a new pod that gets no node, once it is said as expected."""
        return self.until_refused(self.pod(*claims, **pod), words, why=why)

    def get_pod(self, name: str) -> Object:
        return dict(self.place.api.get(self.place.space.core("pods", name)))

    def delete_pod(self, name: str) -> None:
        self.place.api.delete(self.place.space.core("pods", name), gracePeriodSeconds=0)

    def until_node(self, name: str) -> str:
        def look() -> str:
            return str(self.get_pod(name)["spec"].get("nodeName", ""))

        return self._until(look, lambda: f"{name} has a node, but it is {self.get_pod(name)['status']}")

    def until_refused(self, name: str, *words: str, why: dict[str, int] | None = None) -> str:
        """The message of the pod's condition, once it says why there is no node.

        A scheduler that has not seen all nodes yet says something else first. `why` is how many nodes of this test fail
        on what; `words` must be in the message.
        """

        def look() -> str:
            condition = self.condition(name)
            said = str(condition.get("message", "")) if condition.get("reason") == "Unschedulable" else ""
            right = all(word in said for word in words) and (why is None or reasons(said) == why)
            return said if right else ""

        return self._until(look, lambda: f"{name} is refused: {words or ''} {why or ''}: {self.condition(name)}")

    def condition(self, name: str) -> Object:
        found = self.get_pod(name)["status"].get("conditions") or []
        return next((dict(each) for each in found if each["type"] == "PodScheduled"), {})

    def stays_without_node(self, name: str) -> None:
        """Wait until somebody who came later has a node, and see that this pod has none."""
        self.until_node(self.pod())
        assert not self.get_pod(name)["spec"].get("nodeName")

    def _until(self, look: Callable[[], str], what: Callable[[], str]) -> str:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (seen := look()):
            assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS:g} s: {what()}"
            time.sleep(0.05)
        return seen


def reasons(message: str) -> dict[str, int]:
    """How many nodes of the test failed on what; those of others fail on the selector that all pods of a test have."""
    _, _, rest = message.partition("nodes are available: ")
    first = rest.split(". ")[0].removesuffix(".")
    counted = (part.partition(" ") for part in first.split(", "))
    return {phrase: int(number) for number, _, phrase in counted if number.isdigit() and phrase != OTHERS}
