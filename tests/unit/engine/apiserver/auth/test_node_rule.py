from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.engine.apiserver.auth.fakes import Store

from localpv.api import roles, well_known
from localpv.api.kinds.localdisk import LOCAL_DISKS
from localpv.api.kinds.localstorage import LOCAL_STORAGE_NODES, LOCAL_STORAGES
from localpv.api.objects import Object
from localpv.engine.apiserver import bootstrap
from localpv.engine.apiserver.auth import identity, node_rule
from localpv.engine.apiserver.auth.identity import Attributes, User
from localpv.engine.apiserver.auth.rbac import Authorizer

AGENT = identity.service_account("kube-system", "localpv-agent", extra={well_known.TOKEN_NODE_NAME: ("a",)})
UNBOUND = identity.service_account("kube-system", "localpv-agent")


def disk(node: str | None) -> Object:
    return {"metadata": {"name": "d"}, "spec": {"nodeName": node} if node else {}}


def on_disks(verb: str, name: str = "") -> Attributes:
    return Attributes(verb=verb, group="localpv.dev", resource="localdisks", name=name)


def test_the_rule_comes_with_the_role_and_with_the_group() -> None:
    authorizer = Authorizer(Store(*bootstrap.objects("a")))
    manager = identity.service_account("kube-system", "localpv-manager")
    for who, bound in (
        (AGENT, True),
        (UNBOUND, True),
        (User("x", (node_rule.AGENTS,)), True),
        (manager, False),
        (User("x", (node_rule.AGENTS, identity.MASTERS)), False),
    ):
        assert node_rule.applies(who, authorizer.cluster_roles(who)) is bound


@pytest.mark.parametrize(
    ("new", "old", "allowed"),
    [
        ("a", None, True),
        ("b", None, False),
        ("", None, False),
        ("a", "a", True),
        ("a", "b", False),
        ("b", "a", False),
        (None, "a", True),
        (None, "b", False),
    ],
)
def test_an_agent_writes_the_disks_of_its_own_node(new: str | None, old: str | None, allowed: bool) -> None:
    objects = [None if node is None else disk(node) for node in (new, old)]
    refused = node_rule.check_object(AGENT, *objects)
    assert (refused is None) is allowed


@pytest.mark.parametrize("field", ["volume", "identity", "clean"])
def test_what_the_manager_orders_is_not_written_by_an_agent(field: str) -> None:
    bare, ordered, other = disk("a"), disk("a"), disk("a")
    ordered["spec"][field], other["spec"][field] = {"name": "v"}, {"name": "w"}
    assert node_rule.check_object(AGENT, ordered, None)
    assert node_rule.check_object(AGENT, ordered, bare)
    assert node_rule.check_object(AGENT, bare, ordered)
    assert node_rule.check_object(AGENT, other, ordered)
    assert node_rule.check_object(AGENT, ordered, ordered) is None
    assert node_rule.check_object(AGENT, None, ordered) is None


def test_a_token_that_is_bound_to_no_node_touches_no_disk() -> None:
    assert node_rule.check_object(UNBOUND, disk("a"), None)
    assert node_rule.check_object(UNBOUND, disk(None), None)
    assert node_rule.check_request(UNBOUND, on_disks("get", "d"))
    assert node_rule.check_request(UNBOUND, Attributes(verb="get", resource="nodes", name="a"))


@pytest.mark.parametrize("verb", ["list", "watch", "deletecollection"])
@pytest.mark.parametrize(
    ("selector", "allowed"),
    [
        ("spec.nodeName=a", True),
        ("spec.nodeName==a", True),
        ("metadata.name=x,spec.nodeName=a", True),
        ("spec.nodeName=a,metadata.name!=x", True),
        ("", False),
        ("spec.nodeName=b", False),
        ("spec.nodeName!=a", False),
        ("spec.nodeName=ab", False),
        ("metadata.name=d", False),
        (r"metadata.name=x\,spec.nodeName=a", False),
        (r"metadata.name=x\\,spec.nodeName=a", True),
        ("metadata.name=x\\", False),
    ],
)
def test_an_agent_lists_only_what_it_limits_to_its_node(verb: str, selector: str, allowed: bool) -> None:
    assert (node_rule.check_request(AGENT, replace(on_disks(verb), field_selector=selector)) is None) is allowed


@pytest.mark.seed("OPR-12")
def test_what_came_of_a_localstorage_is_written_and_read_on_its_own_node_alone() -> None:
    discoverer = identity.service_account("kube-system", roles.DISCOVERER, extra={well_known.TOKEN_NODE_NAME: ("a",)})
    authorizer = Authorizer(Store(*bootstrap.objects("a")))
    assert node_rule.applies(discoverer, authorizer.cluster_roles(discoverer))
    assert node_rule.covers(LOCAL_STORAGE_NODES)
    assert node_rule.covers(LOCAL_DISKS)
    assert not node_rule.covers(LOCAL_STORAGES)
    asked = Attributes(verb="list", group="localpv.dev", resource="localstoragenodes")
    assert node_rule.check_request(discoverer, asked)
    assert node_rule.check_request(discoverer, replace(asked, field_selector="spec.nodeName=a")) is None
    other = {"kind": "LocalStorageNode", "metadata": {"name": "s.b"}, "spec": {"nodeName": "b"}}
    refused = node_rule.check_object(discoverer, other, None)
    assert refused is not None
    assert "LocalStorageNode is of node" in refused


def test_an_agent_reads_only_its_own_node() -> None:
    def node(verb: str, name: str = "", selector: str = "") -> str | None:
        asked = Attributes(verb=verb, resource="nodes", name=name, field_selector=selector)
        return node_rule.check_request(AGENT, asked)

    assert node("get", "a") is None
    assert node("get", "b")
    assert node("watch")
    assert node("watch", selector="metadata.name=a") is None
    assert node("list", selector="metadata.name=b")


def test_all_else_is_left_to_the_roles() -> None:
    assert node_rule.check_request(AGENT, Attributes(verb="create", resource="events", namespace="x")) is None
    for group, resource in (("localpv.dev", "others"), ("example.com", "localdisks")):
        assert node_rule.check_request(AGENT, Attributes(verb="list", group=group, resource=resource)) is None
    assert node_rule.check_request(AGENT, on_disks("create")) is None
