"""Nodes."""

from __future__ import annotations

import pytest
from tests.unit.engine.apiserver.kinds import steps
from tests.unit.engine.apiserver.kinds.steps import causes, with_name

from localpv.api.objects import Object
from localpv.engine.apiserver.kinds.node import Node

nodes = Node()


def a_node(spec: Object, **top: Object) -> Object:
    new, errors = steps.created(nodes, "core.v1.Node", with_name(spec, **top))
    assert errors == []
    return new


def test_node_brings_its_status_along_and_can_allocate_what_it_has() -> None:
    node = a_node({}, status={"capacity": {"cpu": "4", "memory": "8Gi"}})

    assert node["status"]["allocatable"] == {"cpu": "4", "memory": "8Gi"}


def test_older_and_newer_field_for_the_pods_addresses_agree() -> None:
    assert a_node({"podCIDR": "10.0.0.0/24"})["spec"]["podCIDRs"] == ["10.0.0.0/24"]
    assert a_node({"podCIDRs": ["10.0.0.0/24", "fd00::/64"]})["spec"]["podCIDR"] == "10.0.0.0/24"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"podCIDRs": ["ten"]}, [("spec.podCIDRs[0]", "Invalid")]),
        ({"podCIDRs": ["10.0.0.0/24", "10.1.0.0/24"]}, [("spec.podCIDRs", "Invalid")]),
        ({"taints": [{"key": "a"}]}, [("metadata.taints[0].effect", "Required")]),
        ({"taints": [{"key": "a", "effect": "Never"}]}, [("metadata.taints[0].effect", "NotSupported")]),
        (
            {"taints": [{"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoExecute", "value": "b"}]},
            [("metadata.taints[1]", "Duplicate")],
        ),
    ],
)
def test_wrong_node_is_refused(spec: Object, expected: list[tuple[str, str]]) -> None:
    assert causes(steps.created(nodes, "core.v1.Node", with_name(spec))[1]) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"podCIDR": "10.1.0.0/24"}, [("spec.podCIDRs", "Forbidden")]),
        ({"providerID": "b"}, [("spec.providerID", "Forbidden")]),
        ({"unschedulable": True}, []),
        ({"taints": [{"key": "a", "effect": "NoSchedule"}]}, []),
    ],
)
def test_node_keeps_its_addresses_and_its_provider(change: Object, expected: list[tuple[str, str]]) -> None:
    old = a_node({"podCIDR": "10.0.0.0/24", "providerID": "a"})

    assert causes(steps.updated(nodes, old, {"spec": change})[1]) == expected


def test_nodes_can_be_chosen_by_whether_they_take_pods() -> None:
    assert nodes.selectable(a_node({})) == {"spec.unschedulable": "false"}
    assert nodes.selectable(a_node({"unschedulable": True})) == {"spec.unschedulable": "true"}


def test_report_leaves_the_spec_alone_and_names_no_address_twice() -> None:
    old = a_node({})
    new, errors = steps.reported(nodes, old, {"conditions": [{"type": "Ready", "status": "True"}]})
    assert errors == []
    assert new["status"]["conditions"][0]["status"] == "True"
    assert new["spec"] == old["spec"]

    twice = [{"type": "Hostname", "address": "a"}] * 2
    assert causes(steps.reported(nodes, old, {"addresses": twice})[1]) == [("status.addresses[1]", "Duplicate")]
