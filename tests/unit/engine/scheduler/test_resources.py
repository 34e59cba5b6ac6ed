"""What pods ask for, added up."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.scheduler.samples import node, pod

from localpv.engine.scheduler import resources


def container(cpu: str, **more: Any) -> dict[str, Any]:
    return {"name": f"c{cpu}", "resources": {"requests": {"cpu": cpu}}, **more}


@pytest.mark.parametrize(
    ("containers", "init", "cpu"),
    [
        ([container("1"), container("500m")], [], 1500),
        ([container("1")], [container("3"), container("2")], 3000),
        ([container("4")], [container("3")], 4000),
        ([container("1")], [container("2", restartPolicy="Always")], 3000),
        # The second init container runs beside the sidecar that was started before it.
        ([container("1")], [container("2", restartPolicy="Always"), container("4")], 6000),
        ([container("1")], [container("4"), container("2", restartPolicy="Always")], 4000),
    ],
)
def test_a_pod_needs_what_it_needs_at_its_neediest_moment(containers: Any, init: Any, cpu: int) -> None:
    assert resources.requests(pod(containers=containers, initContainers=init)) == {"cpu": cpu}


def test_overhead_comes_on_top() -> None:
    wanted = pod(containers=[container("1")], overhead={"cpu": "250m", "memory": "120Mi"})
    assert resources.requests(wanted) == {"cpu": 1250, "memory": 120 * 2**20}


def test_what_the_pod_asks_for_as_a_whole_counts_instead_of_its_containers() -> None:
    whole = {"requests": {"cpu": "3"}}
    assert resources.requests(pod(containers=[container("1")], resources=whole, overhead={"cpu": "1"})) == {"cpu": 4000}


def test_a_fraction_of_a_unit_counts_as_one() -> None:
    assert resources.read({"cpu": "100u", "memory": "1500m"}) == {"cpu": 1, "memory": 2}


def test_a_node_that_says_only_its_capacity_gives_all_of_it() -> None:
    assert resources.allocatable(node(cpu="2"))["cpu"] == 2000
