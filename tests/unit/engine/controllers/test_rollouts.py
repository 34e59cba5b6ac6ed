"""From one template to the next: no step takes too many pods away, and the last step comes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.unit.engine.controllers.builders import a_deployment, a_replica_set

from localpv.api.kinds.workloads import Deployment, ReplicaSet
from localpv.engine.controllers import rollouts
from localpv.engine.controllers.rollouts import Family


def resized(replica_set: ReplicaSet, replicas: int, available: int) -> ReplicaSet:
    spec = structs.replace(replica_set.spec, replicas=replicas)
    return structs.replace(replica_set, spec=spec, status={"replicas": replicas, "availableReplicas": available})


def test_set_of_the_present_template_is_told_from_the_others() -> None:
    old, new = a_replica_set("old", 1, age=5), a_replica_set("new", 1)
    family = rollouts.family(a_deployment(1), [new, old])
    assert (family.new, list(family.old)) == (new, [old])


def test_of_two_alike_the_oldest_counts() -> None:
    first, second = a_replica_set("new", 1, age=5), a_replica_set("new", 1)
    family = rollouts.family(a_deployment(1), [second, first])
    assert family.new is first and list(family.old) == [second]


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "limits"),
    [
        (4, "25%", "25%", (1, 1)),
        (3, "25%", "25%", (1, 0)),
        (1, "0%", "20%", (0, 1)),
        (10, 3, 2, (3, 2)),
        (0, 1, 0, (1, 0)),
    ],
)
def test_percentages_round_in_favour_of_those_who_use_the_pods(
    replicas: int, surge: int | str, unavailable: int | str, limits: tuple[int, int]
) -> None:
    deployment = a_deployment(replicas, surge=surge, unavailable=unavailable)
    most = limits[1] if replicas else 0
    assert (rollouts.surge(deployment), rollouts.most_unavailable(deployment)) == (limits[0], most)


def test_pods_that_do_not_serve_are_given_up_first() -> None:
    ill, well = a_replica_set("ill", 3, available=0, age=1), a_replica_set("well", 3, available=3, age=9)
    new = a_replica_set("new", 1, available=1)
    family = Family(deployment=a_deployment(4, surge=1, unavailable=1), new=new, old=[well, ill])
    # Three may go: 7 pods, of which 3 must be there, one of them new and well.
    sizes = rollouts._shrink_old(family, new)
    assert sizes == {"web-ill": 0, "web-well": 2}


def test_proportions_are_kept_when_the_number_changes_half_way() -> None:
    memory = {rollouts.DESIRED: "8", rollouts.LARGEST: "12"}
    old = a_replica_set("old", 8, available=8, age=5, annotations=memory)
    new = a_replica_set("new", 4, available=0, annotations=memory)
    family = Family(deployment=a_deployment(14, surge=4), new=new, old=[old])
    assert rollouts.was_resized(family)
    assert rollouts.proportional(family) == {"web-old": 12, "web-new": 6}


def test_sets_that_are_as_many_as_they_may_be_stay_as_they_are_though_one_remembers_another_number() -> None:
    old = a_replica_set("old", 8, available=8, age=5, annotations={rollouts.DESIRED: "8", rollouts.LARGEST: "12"})
    new = a_replica_set("new", 10, available=0, annotations={rollouts.DESIRED: "14", rollouts.LARGEST: "18"})
    family = Family(deployment=a_deployment(14, surge=4), new=new, old=[old])
    assert rollouts.was_resized(family)
    assert rollouts.proportional(family) == {"web-old": 8, "web-new": 10}


def test_lone_set_takes_the_whole_number() -> None:
    only = a_replica_set("old", 3, available=3)
    family = Family(deployment=a_deployment(5, image="other"), new=None, old=[only])
    assert rollouts.proportional(family) == {"web-old": 5}


def test_leftovers_of_a_finished_rollout_go_when_it_is_resized() -> None:
    memory = {rollouts.DESIRED: "3", rollouts.LARGEST: "4"}
    new = a_replica_set("new", 3, available=3, annotations=memory)
    left = a_replica_set("old", 1, available=1, age=5, annotations=memory)
    assert rollouts.proportional(Family(deployment=a_deployment(3), new=new, old=[left])) == {"web-old": 0}


@given(
    wanted=st.integers(0, 12),
    surge=st.integers(0, 5),
    unavailable=st.integers(0, 5),
    start=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=3),
)
def test_rollout_comes_to_its_end_and_keeps_its_limits(
    wanted: int, surge: int, unavailable: int, start: list[tuple[int, int]]
) -> None:
    deployment = a_deployment(wanted, surge=surge, unavailable=unavailable)
    sets = [a_replica_set("new", 0)]
    sets += [
        resized(a_replica_set(f"old{number}", 0, age=number + 1), size, min(size, well))
        for number, (size, well) in enumerate(start)
    ]
    least = wanted - rollouts.most_unavailable(deployment)
    for _ in range(200):
        family = rollouts.family(deployment, sets)
        sizes = rollouts.rolling(family)
        before = sum(map(rollouts.available, sets))
        total = sum(each.spec.replicas for each in sets)
        sets = [_apply(each, sizes) for each in sets]
        after = sum(map(rollouts.available, sets))
        assert after >= min(before, least), "no step takes away what must be there"
        most = max(total, wanted + rollouts.surge(deployment))
        assert sum(each.spec.replicas for each in sets) <= most, "nor makes more than may be there"
        if not sizes:
            # Time passes, and new pods become well.
            well = [_heal(each, deployment) for each in sets]
            if well == sets:
                break
            sets = well
    assert {each.metadata.name: each.spec.replicas for each in sets if each.spec.replicas} == (
        {"web-new": wanted} if wanted else {}
    )


def _apply(each: ReplicaSet, sizes: dict[str, int]) -> ReplicaSet:
    size = sizes.get(each.metadata.name, each.spec.replicas)
    # Pods that are not available are the first that a set gives up.
    return resized(each, size, min(size, rollouts.available(each)))


def _heal(each: ReplicaSet, deployment: Deployment) -> ReplicaSet:
    if each.metadata.name != "web-new":
        return each
    return resized(each, each.spec.replicas, each.spec.replicas)
