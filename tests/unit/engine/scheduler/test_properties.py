"""What holds in every world: sums that add up, and volumes that are given once, where they can be used."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.scheduler.samples import World, node, pod
from tests.unit.volume.samples import claim, storage_class, volume

from localpv.engine.scheduler import resources
from localpv.engine.scheduler.assume_cache import Binding
from localpv.engine.scheduler.node_info import NodeInfos
from localpv.engine.scheduler.pod_info import PodInfo
from localpv.engine.scheduler.schedule_one import Chosen
from localpv.volume import fit

NODES = ["a", "b", "c"]
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["bind", "assume", "finish", "remove", "give back"]),
        st.sampled_from(["p", "q", "r", "s"]),
        st.sampled_from(NODES),
        st.integers(1, 4),
    ),
    max_size=25,
)


@given(CHANGES)
def test_what_a_node_has_left_is_what_its_pods_leave(changes: list[tuple[str, str, str, int]]) -> None:
    node_infos = NodeInfos()
    for name in NODES:
        node_infos.node_changed(None, node(name))
    for what, name, where, cpu in changes:
        claims = [f"claim-{number}" for number in range(cpu % 3)]
        ports = [{"name": "main", "ports": [{"containerPort": 80, "hostPort": cpu}]}]
        there = pod(name, *claims, node=where, owner=f"set-{cpu}", containers=ports, overhead={"cpu": str(cpu)})
        match what:
            case "bind":
                node_infos.pod_changed(None, there)
            case "assume":
                node_infos.assume(PodInfo.of(there), where)
            case "finish":
                node_infos.pod_changed(there, pod(name, node=where, phase="Failed"))
            case "remove":
                node_infos.pod_changed(there, None)
            case "give back":
                node_infos.give_back(there.key)
    used: Counter[str] = Counter()
    for node_info in node_infos:
        total: Counter[str] = Counter()
        for pod_info in node_info.pods.values():
            total.update(pod_info.requests)
            used.update(pod_info.claim_keys())
        assert {key: value for key, value in node_info.used.items() if value} == dict(total)
        assert set(node_info.ports) == {port for pod_info in node_info.pods.values() for port in pod_info.ports}
        assert node_info.owners == Counter(pod_info.owner for pod_info in node_info.pods.values())
        assert node_info.scored_cpu == sum(pod_info.requests[resources.CPU] for pod_info in node_info.pods.values())
    assert node_infos.claims == used


SIZES = st.integers(1, 5)
DISKS = st.lists(st.tuples(st.sampled_from([*NODES, ""]), SIZES), max_size=10)
PODS = st.lists(st.lists(SIZES, min_size=1, max_size=3), min_size=1, max_size=6)


@given(DISKS, PODS)
def test_volumes_are_given_once_and_all_on_the_node_of_the_pod(
    disks: list[tuple[str, int]], pods: list[list[int]]
) -> None:
    world = World().add(*(node(name) for name in NODES), storage_class(waits=True))
    free = {}
    for number, (where, size) in enumerate(disks):
        free[f"v{number}"] = (where, size)
        world.add(volume(f"v{number}", node=where, size=f"{size}Gi"))
    for number, sizes in enumerate(pods):
        claims = [claim(f"c{number}-{index}", size=f"{size}Gi") for index, size in enumerate(sizes)]
        world.add(*claims)
        wanted = pod(f"p{number}", *(each.metadata.name for each in claims))
        found = world.choose(wanted)
        if not isinstance(found, Chosen):
            assert not any(_can_serve(free, name, sizes) for name in NODES)
            continue
        assert {each.claim.key for each in found.plan.bindings} == {each.key for each in claims}
        for binding in found.plan.bindings:
            _suits(binding, world, found.node)
            del free[binding.volume.key]
        world.node_infos.assume(PodInfo.of(wanted), found.node)
        world.storage.assume_cache.make(found.plan, found.node)


def _suits(binding: Binding, world: World, where: str) -> None:
    there = world.node_infos.get(where)
    assert there is not None and there.node is not None
    assert fit.fits_node(binding.volume, there.node)
    assert fit.size(binding.volume) >= fit.wanted(binding.claim)


def _can_serve(free: dict[str, tuple[str, int]], name: str, sizes: list[int]) -> bool:
    """Whether a node has a volume for each size: the smallest claim takes the smallest that is large enough."""
    left = sorted(size for where, size in free.values() if where in (name, ""))
    for size in sorted(sizes):
        fitting_one = next((each for each in left if each >= size), None)
        if fitting_one is None:
            return False
        left.remove(fitting_one)
    return True
