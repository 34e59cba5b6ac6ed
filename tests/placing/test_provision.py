"""Claims of classes with pools, from the scheduler's choice to free space again, on both engines.

Beside Kubernetes the manager runs as a process of its own, with kube-controller-manager and kube-scheduler; ours has
all of them in `localpv up`. The agents are played: what they would hold on disks is counted.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.contract import wire
from tests.placing import placer_process
from tests.placing.cluster import Cluster
from tests.placing.pools import GI, Agent, PoolCluster, unique_claims

BURST_SECONDS = 280.0


@pytest.fixture(scope="module", autouse=True)
def manager(target: wire.Target) -> Iterator[None]:
    """Ours runs in `localpv up` already; beside Kubernetes it is the manager."""
    with placer_process.beside(target):
        yield


@pytest.fixture
def pools(target: wire.Target, cluster: Cluster) -> Iterator[PoolCluster]:
    agent = Agent(target)
    made = PoolCluster(cluster, agent)
    with agent.serving():
        yield made
        made.clear()


def test_a_pod_gets_a_volume_of_exactly_its_size_on_its_own_node(pools: PoolCluster) -> None:
    pools.storage_class()
    node = pools.node()
    claim = pools.cluster.place.claim(size="3Gi")
    assert pools.cluster.placed(claim) == node

    volume = pools.cluster.place.get_volume(pools.cluster.place.until_claim(claim, "Bound")["spec"]["volumeName"])
    assert volume["spec"]["capacity"] == {"storage": "3Gi"}
    assert volume["spec"]["csi"]["volumeHandle"] == f"pool/{volume['metadata']['name']}"
    assert [*pools.agent.held.values()] == [(node, 3 * GI)]


def test_the_claims_of_a_pod_are_all_carved_out_of_the_pool_of_its_node(pools: PoolCluster) -> None:
    pools.storage_class()
    nodes = {pools.node() for _ in range(2)}
    claims = [pools.cluster.place.claim(size="4Gi") for _ in range(2)]
    node = pools.cluster.placed(*claims)
    assert node in nodes
    for claim in claims:
        pools.cluster.place.until_claim(claim, "Bound")

    assert {where for where, _ in pools.agent.held.values()} == {node}


def test_a_pod_goes_where_there_is_room_for_its_claim(pools: PoolCluster) -> None:
    pools.storage_class()
    pools.node(size=2 * GI)
    large = pools.node(size=20 * GI)
    _until_told(pools)
    claim = pools.cluster.place.claim(size="10Gi")

    assert pools.cluster.placed(claim) == large


def test_when_claim_and_pod_are_gone_the_space_is_free_for_the_next(pools: PoolCluster) -> None:
    pools.storage_class()
    node = pools.node(size=4 * GI)
    claim = pools.cluster.place.claim(size="4Gi")
    pod = pools.cluster.pod(claim)
    assert pools.cluster.until_node(pod) == node
    volume = pools.cluster.place.until_claim(claim, "Bound")["spec"]["volumeName"]
    pools.cluster.delete_pod(pod)
    pools.cluster.place.delete_claim(claim)
    path = pools.cluster.place.volume_path(volume)
    wire.eventually(lambda: pools.cluster.place.api.gone(path), "the volume is gone")
    assert pools.agent.wiped == {volume: 1}
    _until_told(pools)

    assert pools.cluster.placed(pools.cluster.place.claim(size="4Gi")) == node


@pytest.mark.seed("LVM-9")
def test_parameters_that_nobody_knows_are_named_on_the_claim(pools: PoolCluster) -> None:
    pools.storage_class(waits=False, parameters={"vgname": "a"})
    pools.node()
    claim = pools.cluster.place.claim()

    assert "vgname" in pools.cluster.place.until_event(claim, "ProvisioningFailed")["message"]
    assert pools.orders() == []


def test_a_claim_grows_until_its_node_must_go_on(pools: PoolCluster) -> None:
    pools.storage_class(waits=False)
    pools.node()
    claim, volume = pools.cluster.place.bound(size="1Gi")
    path = pools.cluster.place.claim_path(claim)
    pools.cluster.place.api.merge(path, {"spec": {"resources": {"requests": {"storage": "5Gi"}}}})

    def stage() -> bool:
        status = pools.cluster.place.get_claim(claim)["status"]
        return status.get("allocatedResourceStatuses", {}).get("storage") == "NodeResizePending"

    wire.eventually(stage, "the claim waits for its node")
    assert pools.cluster.place.get_volume(volume)["spec"]["capacity"] == {"storage": "5Gi"}
    assert pools.cluster.place.get_claim(claim)["status"]["allocatedResources"] == {"storage": "5Gi"}


def test_two_hundred_claims_on_pools_for_a_hundred_give_a_hundred_volumes(pools: PoolCluster) -> None:
    pools.storage_class(waits=False)
    nodes = [pools.node(size=25 * GI) for _ in range(4)]
    claims = [pools.cluster.place.claim(name=name) for name in unique_claims(200)]
    place = pools.cluster.place
    path = place.space.core("persistentvolumeclaims")

    def decided() -> tuple[int, int]:
        bound = sum(one["status"]["phase"] == "Bound" for one in place.api.get(path)["items"])
        events = place.api.get(place.space.core("events"), fieldSelector="reason=ProvisioningFailed")["items"]
        told = {one["involvedObject"]["name"] for one in events if "no room" in one["message"]}
        return bound, len(told)

    wire.eventually(lambda: decided() == (100, 100), f"a hundred have one: {decided()}", within=BURST_SECONDS)
    assert len(claims) == 200
    assert len(pools.orders()) == len(pools.agent.held) == 100
    assert pools.agent.most == dict.fromkeys(nodes, 25 * GI)


def _until_told(pools: PoolCluster) -> None:
    """Beside kube-scheduler: wait until it can know what is free. Ours asks the ledger."""
    if pools.agent.target.log is not None:
        return
    sizes = pools.agent.nodes
    wire.eventually(
        lambda: set(pools.capacities()) == sizes and all(one != "0" for one in pools.capacities().values()),
        "what is free on each node is told",
    )
