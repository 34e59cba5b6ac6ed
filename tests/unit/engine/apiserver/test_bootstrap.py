from __future__ import annotations

import pytest
from tests.unit.engine.apiserver.auth.fakes import Store, a_binding, group

from localpv.api.objects import Object
from localpv.engine.apiserver import bootstrap
from localpv.engine.apiserver.auth import identity, rules
from localpv.engine.apiserver.auth.identity import Attributes, User
from localpv.engine.apiserver.auth.rbac import Authorizer

AGENT = identity.service_account("kube-system", "localpv-agent")
MANAGER = identity.service_account("kube-system", "localpv-manager")
ANYBODY = User("x", (identity.AUTHENTICATED,))


def names(kind: str, objects: list[Object]) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects if obj["kind"] == kind]


def may(who: User, verb: str, resource: str, group: str = "", namespace: str = "", path: str = "") -> bool:
    plural, _, sub = resource.partition("/")
    people = [a_binding("ns", role, subject, kind="ClusterRole", name=role) for role, subject in PEOPLE.items()]
    authorizer = Authorizer(Store(*bootstrap.objects("node1"), *people))
    request = Attributes(verb=verb, group=group, resource=plural, subresource=sub, namespace=namespace, path=path)
    return authorizer.decide(who, request).allowed


PEOPLE = {role: group(role) for role in ("admin", "edit", "view")}


def test_the_first_start_has_the_namespaces_with_an_account_each() -> None:
    objects = bootstrap.objects("node1")
    namespaces = ["default", "kube-system", "kube-public", "kube-node-lease"]
    assert names("Namespace", objects) == namespaces
    accounts = [obj["metadata"] for obj in objects if obj["kind"] == "ServiceAccount"]
    assert [each["namespace"] for each in accounts if each["name"] == "default"] == namespaces
    assert names("Node", objects) == ["node1"]
    assert names("Node", bootstrap.objects("")) == []


def test_what_exists_stays_as_the_administrator_has_left_it() -> None:
    store = Store()
    for obj in bootstrap.missing(bootstrap.objects("node1"), store):
        store.put(obj)
    assert bootstrap.missing(bootstrap.objects("node1"), store) == []
    binding = next(store.list_kind("ClusterRoleBinding", "localpv-agent"))
    store.remove(binding)
    assert bootstrap.missing(bootstrap.objects("node1"), store) == [binding]


def test_every_namespace_should_have_an_account_and_the_certificate_of_the_authority() -> None:
    assert names("ServiceAccount", bootstrap.service_account_defaults("ns")) == ["default"]
    account, certificate = bootstrap.service_account_defaults("ns", "PEM")
    assert account["metadata"]["namespace"] == certificate["metadata"]["namespace"] == "ns"
    assert certificate["metadata"]["name"] == "kube-root-ca.crt"
    assert certificate["data"] == {"ca.crt": "PEM"}


def test_the_roles_that_are_sums_come_with_their_rules_written() -> None:
    roles = [obj for obj in bootstrap.objects("") if obj["kind"] == "ClusterRole"]
    assert rules.outdated(roles) == []
    by_name = {role["metadata"]["name"]: role for role in roles}
    assert all(rule in by_name["edit"]["rules"] for rule in by_name["view"]["rules"])
    assert all(rule in by_name["admin"]["rules"] for rule in by_name["edit"]["rules"])


def test_every_binding_refers_to_a_role_that_exists() -> None:
    objects = bootstrap.objects("")
    bound = [obj["roleRef"]["name"] for obj in objects if obj["kind"] == "ClusterRoleBinding"]
    assert set(bound) <= set(names("ClusterRole", objects))


def test_the_agent_has_disks_and_nodes_and_no_volumes() -> None:
    for verb in ("create", "get", "list", "watch", "update", "patch", "delete"):
        assert may(AGENT, verb, "localdisks", "localpv.dev")
        assert not may(AGENT, verb, "persistentvolumes")
        assert not may(AGENT, verb, "secrets", namespace="kube-system")
    assert may(AGENT, "patch", "localdisks/status", "localpv.dev")
    assert may(AGENT, "get", "nodes")
    assert not may(AGENT, "update", "nodes")


def test_the_manager_is_the_writer_of_volumes() -> None:
    for verb in ("create", "get", "list", "watch", "update", "patch", "delete"):
        assert may(MANAGER, verb, "persistentvolumes")
        assert may(MANAGER, verb, "localdisks", "localpv.dev")
        assert not may(MANAGER, verb, "secrets", namespace="kube-system")
    assert may(MANAGER, "update", "leases", "coordination.k8s.io", "kube-system")
    assert may(MANAGER, "create", "events", namespace="default")
    assert may(MANAGER, "create", "storageclasses", "storage.k8s.io")


@pytest.mark.parametrize(
    ("who", "verb", "resource", "allowed"),
    [
        ("view", "list", "pods", True),
        ("view", "list", "secrets", False),
        ("view", "create", "pods", False),
        ("edit", "create", "persistentvolumeclaims", True),
        ("edit", "list", "secrets", True),
        ("edit", "list", "pods", True),
        ("edit", "create", "serviceaccounts/token", True),
        ("admin", "create", "pods", True),
        ("admin", "list", "nodes", False),
    ],
)
def test_people_have_what_their_role_says_in_their_namespace(who: str, verb: str, resource: str, allowed: bool) -> None:
    assert may(User("x", (who,)), verb, resource, namespace="ns") is allowed
    assert not may(User("x", (who,)), verb, resource, namespace="other")


def test_only_the_administrator_of_a_namespace_gives_roles_in_it() -> None:
    for who, allowed in (("admin", True), ("edit", False)):
        assert may(User("x", (who,)), "create", "rolebindings", "rbac.authorization.k8s.io", "ns") is allowed


def test_everybody_may_discover_and_ask_about_themselves() -> None:
    for path in ("/api", "/apis/apps/v1", "/openapi/v3", "/version", "/readyz"):
        assert may(ANYBODY, "get", "", path=path)
    assert not may(ANYBODY, "get", "", path="/metrics")
    assert may(ANYBODY, "create", "selfsubjectaccessreviews", "authorization.k8s.io")
    assert may(ANYBODY, "create", "selfsubjectreviews", "authentication.k8s.io")
    assert not may(ANYBODY, "create", "tokenreviews", "authentication.k8s.io")
    assert may(identity.ANONYMOUS, "get", "", path="/livez")
    assert not may(identity.ANONYMOUS, "get", "", path="/api")
