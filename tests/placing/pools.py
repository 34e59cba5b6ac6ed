"""Nodes with pools, and an agent that makes, grows and wipes what it is told: no disk, and every byte counted."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.contract import builders, wire
from tests.contract.builders import Object
from tests.placing.cluster import Cluster

from localpv.deploy import storage
from localpv.volume import pool_names

POOLS = "/apis/localpv.dev/v1alpha1/localpools"
ORDERS = "/apis/localpv.dev/v1alpha1/poolvolumes"
DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
GI = 1 << 30
EVERY_SECONDS = 0.05


@dataclass
class Agent:
    """Serves the PoolVolumes of some nodes, in a thread of its own."""

    target: wire.Target
    nodes: set[str] = field(default_factory=set)
    held: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Volumes by name: node and bytes."""

    wiped: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)
    """By node, the most bytes that were held at once."""

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        stop = threading.Event()
        thread = threading.Thread(target=self._run, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _run(self, stop: threading.Event) -> None:
        api = wire.Api(self.target, self.target.token)
        try:
            while not stop.wait(EVERY_SECONDS):
                answer = api.send("GET", ORDERS)
                for order in answer.body["items"] if answer.code == 200 else ():
                    if order["spec"]["nodeName"] in self.nodes:
                        self._serve(api, order)
        finally:
            api.close()

    def _serve(self, api: wire.Api, order: Object) -> None:
        meta, spec = order["metadata"], order["spec"]
        name, same = meta["name"], {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        if "deletionTimestamp" in meta:
            if "localpv.dev/protected" in meta["finalizers"]:
                return
            if self.held.pop(name, None) is not None:
                self.wiped[name] += 1
            self._patch(api, f"{ORDERS}/{name}", {"metadata": same | {"finalizers": None}})
        elif self.held.get(name, ("", 0))[1] < spec["sizeBytes"] or not order.get("status"):
            self.held[name] = (spec["nodeName"], spec["sizeBytes"])
            there = sum(size for node, size in self.held.values() if node == spec["nodeName"])
            self.most[spec["nodeName"]] = max(self.most[spec["nodeName"]], there)
            status = {"phase": "Ready", "sizeBytes": spec["sizeBytes"], "observedGeneration": meta["generation"]}
            self._patch(api, f"{ORDERS}/{name}/status", {"metadata": same, "status": status})

    def _patch(self, api: wire.Api, path: str, patch: Any) -> None:
        answer = api.send("PATCH", path, patch, content_type=wire.MERGE_PATCH)
        assert answer.code in (200, 404, 409), answer.raw  # somebody else wrote first, or it is gone: seen next time


@dataclass
class PoolCluster:
    """A class of pools, and nodes that have one each."""

    cluster: Cluster
    agent: Agent

    def storage_class(self, *, waits: bool = True, **fields: Any) -> None:
        api = self.cluster.place.api
        api.send("POST", DRIVERS, storage.csi_driver())  # one for all tests
        fields = {"provisioner": pool_names.DRIVER, "reclaimPolicy": "Delete", "allowVolumeExpansion": True} | fields
        self.cluster.place.storage_class(waits=waits, **fields)

    def node(self, *, size: int = 10 * GI) -> str:
        """A node with a pool of so many bytes."""
        name, api = self.cluster.node(), self.cluster.place.api
        self.cluster.change_node(name, {"metadata": {"labels": {pool_names.TOPOLOGY: name}}})
        self.agent.nodes.add(name)
        made: Object = {
            "apiVersion": "localpv.dev/v1alpha1",
            "kind": "LocalPool",
            "metadata": {"name": pool_names.local_pool_name(name, "pool")},
            "spec": {"nodeName": name, "poolName": "pool", "kind": "file"},
        }
        made["spec"]["classNames"] = [self.cluster.place.class_name]
        path = f"{POOLS}/{api.post(POOLS, made)['metadata']['name']}"
        status = {"capacityBytes": size, "extentBytes": 1 << 20, "observedAt": "2030-01-01T00:00:00Z"}
        api.merge(f"{path}/status", {"status": status})
        return name

    def orders(self) -> list[Object]:
        """The PoolVolumes of these nodes."""
        found = self.cluster.place.api.get(ORDERS)["items"]
        return [one for one in found if one["spec"]["nodeName"] in self.agent.nodes]

    def clear(self) -> None:
        """Let everything go that was made for claims of this test, before its nodes and pools go."""
        api, space = self.cluster.place.api, self.cluster.place.space
        for kind in ("pods", "persistentvolumeclaims"):
            api.call("DELETE", space.core(kind), gracePeriodSeconds=0)
        wire.eventually(lambda: not self.orders(), "nothing is left in the pools", within=4 * wire.PATIENCE_SECONDS)

    def capacities(self) -> dict[str, str]:
        """What kube-scheduler is told, by node."""
        found = self.cluster.place.api.get("/apis/storage.k8s.io/v1/csistoragecapacities")["items"]
        return {
            one["nodeTopology"]["matchLabels"][pool_names.TOPOLOGY]: one["capacity"]
            for one in found
            if one["storageClassName"] == self.cluster.place.class_name
        }


def unique_claims(count: int) -> list[str]:
    return [builders.unique("claim") for _ in range(count)]
