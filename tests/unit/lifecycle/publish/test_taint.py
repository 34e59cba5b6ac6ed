"""The taint of a new node goes when its volumes are published."""

from __future__ import annotations

import dataclasses

import pytest
from tests.unit.lifecycle.worlds import World, a_node

from localpv import errors
from localpv.api.kinds import Node, NodeSpec, Taint
from localpv.api.kinds.localdisk import Phase
from localpv.client.client import Client
from localpv.lifecycle.config.settings import Configuration
from localpv.lifecycle.publish import taint
from localpv.testing.api import FakeApi

KEY = "localpv.dev/agent-not-ready"
PATH = "/api/v1/nodes/n1"
CONFIGURATION = Configuration(remove_node_not_ready_taint=True, not_ready_taint_key=KEY)


def tainted(*keys: str) -> Node:
    return a_node(spec=NodeSpec(taints=tuple(Taint(key=key, effect="NoSchedule") for key in keys)))


def test_taint_goes_once_every_disk_that_can_be_offered_is() -> None:
    world = World()
    world.find_disk()
    assert not taint.is_due(tainted(KEY), [world.disk], CONFIGURATION)
    world.settle()
    assert taint.is_due(tainted(KEY), [world.disk], CONFIGURATION)


def test_disk_that_cannot_be_offered_does_not_hold_the_node_up() -> None:
    world = World()
    world.find_disk()
    world.report(eligible=False, phase=Phase.UNAVAILABLE)
    assert taint.is_due(tainted(KEY), [world.disk], CONFIGURATION)


def test_disk_that_was_not_looked_at_holds_the_node_up() -> None:
    world = World()
    world.find_disk()
    world.report(eligible=None, phase="")
    assert not taint.is_due(tainted(KEY), [world.disk], CONFIGURATION)
    assert not taint.is_due(tainted(KEY), [], CONFIGURATION), "its agent has not looked yet"


def test_taint_stays_when_nobody_asked_to_remove_it() -> None:
    world = World()
    world.published()
    for configuration in (
        Configuration(),
        dataclasses.replace(CONFIGURATION, not_ready_taint_key=""),
        dataclasses.replace(CONFIGURATION, remove_node_not_ready_taint=False),
    ):
        assert not taint.is_due(tainted(KEY), [world.disk], configuration)
    assert not taint.is_due(tainted("other"), [world.disk], CONFIGURATION)


async def test_only_our_taint_is_removed() -> None:
    api = FakeApi()
    taints = [{"key": KEY, "effect": "NoSchedule"}, {"key": "other", "effect": "NoExecute", "odd": 1}]
    stored = api.put(PATH, {"metadata": {"labels": {"a": "b"}}, "spec": {"taints": taints, "podCIDR": "x"}})
    nodes = Client(api, field_manager="test").untyped(Node.resource)
    await taint.remove(a_node(uid=stored["metadata"]["uid"]), nodes, key=KEY)
    assert api.objects[PATH]["spec"] == {"taints": [taints[1]], "podCIDR": "x"}
    await taint.remove(a_node(uid="another"), nodes, key="other")
    assert api.objects[PATH]["spec"]["taints"] == [taints[1]], "a node of the same name with another UID"


async def test_node_that_changed_meanwhile_is_looked_at_again() -> None:
    api = FakeApi()
    stored = api.put(PATH, {"spec": {"taints": [{"key": KEY, "effect": "NoSchedule"}]}})
    nodes = Client(api, field_manager="test").untyped(Node.resource)
    get = nodes.get

    async def get_and_change(name: str) -> dict[str, object]:
        found = await get(name)
        api.put(PATH, api.objects[PATH])
        return found

    nodes.get = get_and_change  # type: ignore[method-assign, assignment]
    with pytest.raises(errors.Conflict):
        await taint.remove(a_node(uid=stored["metadata"]["uid"]), nodes, key=KEY)
