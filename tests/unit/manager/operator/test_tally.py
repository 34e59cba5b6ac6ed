"""The sums of a LocalStorage are those of its nodes, in whichever order what they are made of came."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localpv.api.kinds.cluster import Node, NodeSpec, Taint
from localpv.api.kinds.localdisk import OfferedVolume
from localpv.api.kinds.localstorage import DeviceGroup, LocalStorageNodeSpec, NodeGroup
from localpv.api.kinds.meta import ObjectMeta
from localpv.api.kinds.pods import Toleration
from localpv.manager.operator.informers import Disk, Report, _DiskSpec, _DiskStatus, _ReportStatus
from localpv.manager.operator.tally import LONGEST_MESSAGE, MOST_NODES, Tally

GROUP = NodeGroup(
    node_selector={"disks": "yes"}, devices=(DeviceGroup(storage_class_name="fast", device_names=("sdb",)),)
)

pytestmark = pytest.mark.seed("OPR-12")


def node(name: str, *taints: Taint, **labels: str) -> Node:
    meta = ObjectMeta(name=name, labels=labels or {"disks": "yes"})
    return Node(metadata=meta, spec=NodeSpec(taints=taints))


def report(name: str, generation: int = 1, matched: int = 0, error: str = "") -> Report:
    return Report(
        metadata=ObjectMeta(name=f"local.{name}", namespace="s"),
        spec=LocalStorageNodeSpec(node_name=name, local_storage_name="local", local_storage_uid="u"),
        status=_ReportStatus(generation=generation, matched=matched, error=error),
    )


def disk(name: str, *, published: bool, reason: str = "") -> Disk:
    volume = OfferedVolume(name="pv") if published else None
    return Disk(
        metadata=ObjectMeta(name="d"),
        spec=_DiskSpec(node_name=name, storage_class_name="fast", volume=volume),
        status=_DiskStatus(eligible=not reason, reason=reason, matched_by="s/local nodes[0]"),
    )


def sums(tally: Tally) -> Any:
    counted = (tally.nodes, tally.current, tally.matched, tally.published, tally.problems)
    return counted, [*tally.summaries()]


def test_nodes_with_problems_come_first_and_no_more_than_people_can_read() -> None:
    tally = Tally()
    nodes = [node(f"n{number:04}") for number in range(200)]
    tally.expect([GROUP], 1, nodes)
    for each in nodes[:-1]:
        tally.report(None, report(each.key, matched=1))
    shown = [*tally.summaries()]
    assert len(shown) == MOST_NODES
    assert (shown[0].name, shown[1].name) == ("n0199", "n0000")
    assert "No discoverer has reported" in shown[0].message
    assert (tally.nodes, tally.current, tally.matched, tally.problems) == (200, 199, 199, 1)


def test_another_generation_is_not_there_until_the_nodes_say_so() -> None:
    tally = Tally()
    tally.expect([GROUP], 1, [node("a"), node("b")])
    for name in ("a", "b"):
        tally.report(None, report(name))
    assert tally.current == 2
    tally.expect([GROUP], 2, [node("a"), node("b")])
    assert (tally.current, tally.problems) == (0, 2)
    tally.report(report("a"), report("a", generation=2))
    assert (tally.current, tally.problems) == (1, 1)


def test_what_a_node_says_is_cut() -> None:
    tally = Tally()
    tally.expect([GROUP], 1, [node("a")])
    tally.report(None, report("a", error="x" * 100_000))
    (shown,) = tally.summaries()
    assert len(shown.message) == LONGEST_MESSAGE


def test_taints_keep_nodes_out_unless_they_are_tolerated_or_pass() -> None:
    kept = Taint(key="dedicated", effect="NoSchedule", value="db")
    passing = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
    tally = Tally()
    tally.expect([GROUP], 1, [node("a", kept), node("b", passing), node("c", disks="no")])
    assert [each.name for each in tally.summaries()] == ["b"]
    tolerant = NodeGroup(tolerations=(Toleration(key="dedicated", operator="Exists"),), devices=GROUP.devices)
    tally.expect([tolerant], 1, [node("a", kept)])
    assert "a" in [each.name for each in tally.summaries()]


def test_a_node_that_has_nothing_any_more_is_forgotten() -> None:
    tally = Tally()
    tally.expect([GROUP], 1, [node("a")])
    tally.report(None, report("a", matched=3))
    tally.disk(disk("a", published=True), 1)
    tally.node("a", None)
    assert "not selected any more" in next(tally.summaries()).message
    tally.disk(disk("a", published=True), -1)
    tally.report(report("a", matched=3), None)
    assert sums(tally) == ((0, 0, 0, 0, 0), [])


NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("node"), NAMES, st.booleans()),
        st.tuples(st.just("report"), NAMES, st.integers(0, 3), st.integers(0, 4), st.sampled_from(["", "wrong"])),
        st.tuples(st.just("unreport"), NAMES),
        st.tuples(st.just("disk"), NAMES, st.sampled_from(["", "InUse", "Mounted"])),
        st.tuples(st.just("undisk")),
        st.tuples(st.just("expect"), st.integers(1, 3)),
    ),
    max_size=40,
)


@given(STEPS)
def test_sums_that_grew_are_those_that_are_made_at_once(steps: list[Any]) -> None:
    grown, generation = Tally(), 1
    nodes: dict[str, Node] = {}
    reports: dict[str, Report] = {}
    disks: list[Disk] = []
    grown.expect([GROUP], generation, [])
    for step, *given_ in steps:
        match step, given_:
            case "node", [name, True]:
                nodes[name] = node(name)
                grown.node(name, nodes[name])
            case "node", [name, False]:
                nodes.pop(name, None)
                grown.node(name, None)
            case "report", [name, *status]:
                old, reports[name] = reports.get(name), report(name, *status)
                grown.report(old, reports[name])
            case "unreport", [name]:
                if (gone := reports.pop(name, None)) is not None:
                    grown.report(gone, None)
            case "disk", [name, reason]:
                disks.append(disk(name, published=not reason, reason=reason))
                grown.disk(disks[-1], 1)
            case "undisk", []:
                if disks:
                    grown.disk(disks.pop(), -1)
            case "expect", [wanted]:
                generation = wanted
                grown.expect([GROUP], generation, nodes.values())
    made = Tally()
    for each in reports.values():
        made.report(None, each)
    for one in disks:
        made.disk(one, 1)
    made.expect([GROUP], generation, nodes.values())
    assert sums(grown) == sums(made)
