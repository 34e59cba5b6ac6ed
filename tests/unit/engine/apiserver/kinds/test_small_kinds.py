"""ServiceAccounts, Leases, roles and bindings."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.apiserver.kinds.writes import Writes

from localpv.engine.apiserver.kinds import node, rbac

RBAC = "rbac.authorization.k8s.io"
ACCOUNTS = Writes(rbac.ServiceAccount(), "ServiceAccount")
LEASES = Writes(node.Lease(), "Lease", "coordination.k8s.io")
ROLES = Writes(rbac.Role(), "Role", RBAC)
CLUSTER_ROLES = Writes(rbac.ClusterRole(), "ClusterRole", RBAC)
BINDINGS = Writes(rbac.RoleBinding(), "RoleBinding", RBAC)
CLUSTER_BINDINGS = Writes(rbac.ClusterRoleBinding(), "ClusterRoleBinding", RBAC)
VIEW = {"kind": "ClusterRole", "name": "view"}


def test_service_account_keeps_only_the_names_of_its_secrets() -> None:
    obj = ACCOUNTS.stored({"secrets": [{"name": "a", "namespace": "elsewhere"}, {}]})

    assert obj["secrets"] == [{"name": "a"}, {}]


def test_lease_times_make_sense_and_coordination_is_dropped() -> None:
    bad = {"leaseDurationSeconds": 0, "leaseTransitions": -1}

    assert LEASES.create({"spec": bad}).causes == {
        ("spec.leaseDurationSeconds", "Invalid"),
        ("spec.leaseTransitions", "Invalid"),
    }
    assert LEASES.stored({"spec": {"strategy": "x", "preferredHolder": "y", "holderIdentity": "me"}})["spec"] == {
        "holderIdentity": "me"
    }
    assert LEASES.stored({})["spec"] == {}


@pytest.mark.parametrize(
    ("rule", "in_role", "in_cluster_role"),
    [
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}, {}, {}),
        ({"apiGroups": [""], "resources": ["pods"]}, {"verbs": "Required"}, {"verbs": "Required"}),
        ({"verbs": ["get"]}, {"apiGroups": "Required", "resources": "Required"}, None),
        ({"verbs": ["get"], "nonResourceURLs": ["/metrics"]}, {"nonResourceURLs": "Invalid"}, {}),
        ({"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["pods"]}, {"nonResourceURLs": "Invalid"}, None),
    ],
)
def test_rules_are_about_resources_or_urls(rule: Any, in_role: Any, in_cluster_role: Any) -> None:
    for writes, wrong in ((ROLES, in_role), (CLUSTER_ROLES, in_role if in_cluster_role is None else in_cluster_role)):
        assert writes.create({"rules": [rule]}).causes == {(f"rules[0].{key}", why) for key, why in wrong.items()}


def test_role_names_are_path_segments() -> None:
    assert not ROLES.create({"metadata": {"name": "system:Node_x"}}).errors
    assert ROLES.create({"metadata": {"name": "a/b"}}).causes == {("metadata.name", "Invalid")}


def test_aggregation_needs_readable_selectors() -> None:
    path = "aggregationRule.clusterRoleSelectors"

    assert CLUSTER_ROLES.create({"aggregationRule": {}}).causes == {(path, "Required")}
    broken = {"matchExpressions": [{"key": "a", "operator": "What"}]}
    assert (f"{path}[0]", "Invalid") in CLUSTER_ROLES.create(
        {"aggregationRule": {"clusterRoleSelectors": [broken]}}
    ).causes


def test_groups_of_role_and_subjects_are_filled_in() -> None:
    people = [{"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "name": "s"}]
    obj = BINDINGS.stored({"roleRef": VIEW, "subjects": people})

    assert obj["roleRef"]["apiGroup"] == RBAC
    assert [subject.get("apiGroup") for subject in obj["subjects"]] == [RBAC, RBAC, None]


def test_cluster_binding_wants_a_cluster_role_and_the_namespace_of_accounts() -> None:
    subjects = [{"kind": "ServiceAccount", "name": "s"}, {"kind": "Robot", "name": "r"}, {"kind": "User"}]
    outcome = CLUSTER_BINDINGS.create({"roleRef": {"kind": "Role", "name": "r"}, "subjects": subjects})

    assert outcome.causes == {
        ("roleRef.kind", "NotSupported"),
        ("subjects[0].namespace", "Required"),
        ("subjects[1].kind", "NotSupported"),
        ("subjects[2].name", "Required"),
    }


def test_role_of_a_binding_stays_while_its_subjects_change() -> None:
    old = BINDINGS.stored({"roleRef": VIEW})

    assert BINDINGS.update(old, roleRef__name="edit").causes == {("roleRef", "Invalid")}
    assert not BINDINGS.update(old, subjects=[{"kind": "User", "name": "u"}]).errors
