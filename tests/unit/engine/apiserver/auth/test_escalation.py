from __future__ import annotations

import pytest
from tests.unit.engine.apiserver.auth.fakes import (
    RBAC,
    Store,
    a_binding,
    a_cluster_binding,
    a_cluster_role,
    a_role,
    a_rule,
    an_object,
    resource,
    user,
)

from localpv import errors
from localpv.api.objects import Object
from localpv.engine.apiserver.auth import escalation
from localpv.engine.apiserver.auth.identity import User
from localpv.engine.apiserver.auth.rbac import Authorizer
from localpv.engine.apiserver.auth.tokens import ADMIN

ALICE = User("alice", ("system:authenticated",))
BIG = a_cluster_role("big", a_rule("*", "*", "*"), {"verbs": ["*"], "nonResourceURLs": ["*"]})
SUM = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}


def world(*rules: Object) -> Authorizer:
    """Alice may get pods, and what these rules say."""
    role = a_cluster_role("hers", a_rule("get", "core", "pods"), *rules)
    return Authorizer(Store(BIG, role, a_cluster_binding("hers", user("alice"))))


def check(new: Object, old: Object | None = None, *, who: User = ALICE, authorizer: Authorizer | None = None) -> None:
    escalation.check(who, resource(new["kind"]), new, old, authorizer or world())


def test_what_one_has_may_be_given_away() -> None:
    check(a_cluster_role("new", a_rule("get", "core", "pods", "x")))
    check(a_role("ns", "new", a_rule("get", "core", "pods")))
    check(a_cluster_binding("hers", user("bob"), name="new"))
    check(a_binding("ns", "hers", user("bob"), kind="ClusterRole"))


def test_what_one_does_not_have_may_not_be_given_away() -> None:
    role = a_cluster_role(
        "new",
        a_rule("get list", "core", "pods secrets", "a"),
        {"nonResourceURLs": ["/x"], "verbs": ["get"]},
        a_rule("get list", "apps", "*"),
    )
    with pytest.raises(errors.Forbidden) as refused:
        check(role)
    first, *rights = refused.value.message.split("\n")
    assert first.startswith('clusterroles.rbac.authorization.k8s.io "new" is forbidden: user "alice" ')
    assert '(groups=["system:authenticated"])' in first
    assert rights == [
        '{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["list"]}',
        '{APIGroups:[""], Resources:["secrets"], ResourceNames:["a"], Verbs:["get" "list"]}',
        '{APIGroups:["apps"], Resources:["*"], Verbs:["get" "list"]}',
        '{NonResourceURLs:["/x"], Verbs:["get"]}',
    ]
    assert refused.value.details == {"name": "new", "group": RBAC, "kind": "clusterroles"}


def test_a_bigger_role_may_not_be_bound() -> None:
    with pytest.raises(errors.Forbidden, match=r'clusterrolebindings.* "big" is forbidden'):
        check(a_cluster_binding("big", user("alice")))
    with pytest.raises(errors.Forbidden):
        check(a_binding("ns", "big", user("alice"), kind="ClusterRole"))


def test_a_role_that_does_not_exist_cannot_be_bound_by_who_may_not_bind() -> None:
    with pytest.raises(errors.NotFound, match=r'clusterrolebindings\.rbac\.authorization\.k8s\.io "nope" not found'):
        check(a_cluster_binding("nope", user("alice")))
    check(a_cluster_binding("nope", user("alice")), who=ADMIN)


def test_masters_may_give_anything() -> None:
    check(a_cluster_role("new", a_rule("*", "*", "*"), aggregationRule=SUM), who=ADMIN)


def test_the_verb_escalate_lifts_the_limit_for_roles() -> None:
    wider = a_cluster_role("new", a_rule("*", "*", "*"))
    check(wider, authorizer=world(a_rule("escalate", RBAC, "clusterroles")))
    named = world(a_rule("escalate", RBAC, "clusterroles", "new"))
    check(wider, a_cluster_role("new"), authorizer=named)
    with pytest.raises(errors.Forbidden):
        check(wider, authorizer=named)  # A create has no name in its address.


def test_the_verb_bind_lifts_the_limit_for_bindings_of_that_role() -> None:
    authorizer = world(a_rule("bind", RBAC, "clusterroles", "big"))
    check(a_cluster_binding("big", user("alice")), authorizer=authorizer)
    with pytest.raises(errors.NotFound):
        check(a_cluster_binding("other", user("alice")), authorizer=authorizer)


def test_only_who_has_everything_may_use_sums() -> None:
    with pytest.raises(errors.Forbidden, match="aggregationRule"):
        check(a_cluster_role("new", aggregationRule=SUM))
    with pytest.raises(errors.Forbidden, match="aggregationRule"):
        check(a_cluster_role("new"), a_cluster_role("new", aggregationRule=SUM))
    check(a_cluster_role("new", aggregationRule=SUM), authorizer=world(*BIG["rules"]))


def test_garbage_collection_may_finish_a_role_that_allows_more() -> None:
    old = a_cluster_role("big", *BIG["rules"])
    new = a_cluster_role("big", *BIG["rules"])
    old["metadata"]["finalizers"] = ["x/y"]
    check(new, old)
    new["metadata"]["labels"] = {"a": "b"}
    with pytest.raises(errors.Forbidden):
        check(new, old)


def test_other_kinds_are_not_looked_at() -> None:
    check(an_object("ConfigMap", "x", "ns"))
