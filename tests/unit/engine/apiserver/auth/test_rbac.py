from __future__ import annotations

import pytest
from tests import steps
from tests.unit.engine.apiserver.auth.fakes import (
    RBAC,
    Store,
    a_binding,
    a_cluster_binding,
    a_cluster_role,
    a_role,
    a_rule,
    account,
    an_object,
    group,
    resource,
    user,
)

from localpv import errors
from localpv.api import status
from localpv.api.objects import Object
from localpv.engine.apiserver.auth import identity, rbac
from localpv.engine.apiserver.auth.identity import Attributes, User
from localpv.engine.apiserver.auth.rbac import Authorizer
from localpv.engine.apiserver.auth.tokens import ADMIN

ALICE = User("alice", ("team", identity.AUTHENTICATED))


def may(store: Store, who: User, verb: str, resource: str, *, path: str = "", **where: str) -> bool:
    plural, _, subresource = resource.partition("/")
    request = Attributes(verb=verb, resource=plural, subresource=subresource, path=path, **where)
    return Authorizer(store).decide(who, request).allowed


def test_nobody_may_anything_without_a_binding() -> None:
    assert not may(Store(a_cluster_role("reader", a_rule("get", "core", "pods"))), ALICE, "get", "pods")


def test_a_member_of_masters_may_do_anything_without_a_role() -> None:
    root = User("root", (identity.MASTERS,))
    assert may(Store(), root, "delete", "nodes", name="a")
    assert may(Store(), root, "get", "", path="/metrics")


def test_a_cluster_role_binding_counts_in_the_whole_cluster() -> None:
    store = Store(a_cluster_role("r", a_rule("get list", "core", "pods")), a_cluster_binding("r", user("alice")))
    assert may(store, ALICE, "get", "pods", namespace="a", name="x")
    assert may(store, ALICE, "list", "pods")
    assert not may(store, ALICE, "delete", "pods", namespace="a", name="x")
    assert not may(store, ALICE, "get", "pods", group="apps")
    assert not may(store, User("bob"), "get", "pods")


def test_a_role_binding_counts_in_its_namespace_also_when_it_names_a_cluster_role() -> None:
    store = Store(
        a_cluster_role("r", a_rule("get", "core", "pods")),
        a_binding("a", "r", group("team"), kind="ClusterRole"),
        a_role("a", "local", a_rule("delete", "core", "pods")),
        a_binding("a", "local", user("alice")),
    )
    for verb in ("get", "delete"):
        assert may(store, ALICE, verb, "pods", namespace="a")
        assert not may(store, ALICE, verb, "pods", namespace="b")
        assert not may(store, ALICE, verb, "pods")


def test_a_binding_may_leave_out_the_namespace_of_an_account_beside_it() -> None:
    agent = identity.service_account("a", "agent")
    store = Store(a_role("a", "r", a_rule("get", "core", "pods")), a_binding("a", "r", account("agent")))
    assert may(store, agent, "get", "pods", namespace="a")
    assert not may(store, identity.service_account("b", "agent"), "get", "pods", namespace="a")


def test_all_accounts_of_a_namespace_are_a_group() -> None:
    subject = group("system:serviceaccounts:a")
    store = Store(a_cluster_role("r", a_rule("get", "core", "pods")), a_cluster_binding("r", subject))
    assert may(store, identity.service_account("a", "x"), "get", "pods")
    assert not may(store, identity.service_account("b", "x"), "get", "pods")


@pytest.mark.parametrize(
    ("resources", "asked", "allowed"),
    [
        ("pods", "pods", True),
        ("pods", "pods/log", False),
        ("pods/log", "pods/log", True),
        ("pods/log", "pods", False),
        ("*", "pods/log", True),
        ("*", "anything", True),
        ("*/scale", "deployments/scale", True),
        ("*/scale", "deployments", False),
        ("*/scale", "deployments/status", False),
        ("pods/*", "pods/log", False),
    ],
)
def test_subresources_are_resources_of_their_own(resources: str, asked: str, allowed: bool) -> None:
    store = Store(a_cluster_role("r", a_rule("get", "*", resources)), a_cluster_binding("r", user("alice")))
    assert may(store, ALICE, "get", asked) is allowed


def test_names_limit_a_rule_to_these_objects() -> None:
    store = Store(a_cluster_role("r", a_rule("get", "core", "pods", "x y")), a_cluster_binding("r", user("alice")))
    assert may(store, ALICE, "get", "pods", name="x")
    assert not may(store, ALICE, "get", "pods", name="z")
    assert not may(store, ALICE, "get", "pods")


def test_a_rule_with_names_does_not_hide_a_later_one_without() -> None:
    rules = [a_rule("get", "core", "pods", "x"), a_rule("get", "core", "pods")]
    store = Store(a_cluster_role("r", *rules), a_cluster_binding("r", user("alice")))
    assert may(store, ALICE, "get", "pods", name="z")


@pytest.mark.parametrize(
    ("url", "path", "allowed"),
    [
        ("/metrics", "/metrics", True),
        ("/metrics", "/metrics/slis", False),
        ("/livez/*", "/livez/ping", True),
        ("/livez/*", "/livez", False),
        ("*", "/whatever", True),
        ("/a*", "/abc", True),
    ],
)
def test_paths_may_end_in_a_star(url: str, path: str, allowed: bool) -> None:
    role = a_cluster_role("r", {"verbs": ["get"], "nonResourceURLs": [url]})
    store = Store(role, a_cluster_binding("r", user("alice")))
    assert may(store, ALICE, "get", "", path=path) is allowed
    assert not may(store, ALICE, "post", "", path=path)


def test_a_role_that_is_a_sum_gives_what_the_roles_with_its_label_give() -> None:
    chosen = a_cluster_role("part", a_rule("get", "core", "pods"))
    chosen["metadata"]["labels"] = {"to": "sum"}
    whole = a_cluster_role("sum", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"to": "sum"}}]})
    store = Store(chosen, whole, a_cluster_binding("sum", user("alice")))
    assert may(store, ALICE, "get", "pods")
    chosen["metadata"]["labels"] = {}
    assert not may(store, ALICE, "get", "pods")


def test_a_change_counts_after_the_index_is_told_of_it() -> None:
    store = Store(a_cluster_role("r", a_rule("get", "core", "pods")))
    authorizer = Authorizer(store)
    request = Attributes(verb="get", resource="pods")
    assert not authorizer.decide(ALICE, request).allowed
    store.put(a_cluster_binding("r", user("alice")))
    authorizer.invalidate()
    assert authorizer.decide(ALICE, request).allowed


@pytest.mark.parametrize(
    ("request_", "message", "details"),
    [
        (
            Attributes(verb="list", resource="persistentvolumes"),
            'persistentvolumes is forbidden: User "alice" cannot list resource "persistentvolumes" in API group "" '
            "at the cluster scope",
            {"kind": "persistentvolumes"},
        ),
        (
            Attributes(verb="get", resource="pods", subresource="log", namespace="a", name="x"),
            'pods "x" is forbidden: User "alice" cannot get resource "pods/log" in API group "" in the namespace "a"',
            {"kind": "pods", "name": "x"},
        ),
        (
            Attributes(verb="delete", resource="storageclasses", group="storage.k8s.io", name="x"),
            'storageclasses.storage.k8s.io "x" is forbidden: User "alice" cannot delete resource "storageclasses" '
            'in API group "storage.k8s.io" at the cluster scope',
            {"kind": "storageclasses", "group": "storage.k8s.io", "name": "x"},
        ),
        (Attributes(verb="get", path="/foo<b>"), 'forbidden: User "alice" cannot get path "/foo&lt;b&gt;"', {}),
    ],
)
def test_a_refusal_reads_as_clients_know_it(request_: Attributes, message: str, details: dict[str, str]) -> None:
    with pytest.raises(errors.Forbidden) as refused:
        Authorizer(Store()).require(ALICE, request_)
    told = status.to_status(refused.value)
    assert (told["message"], told["reason"], told["code"]) == (message, "Forbidden", 403)
    assert told.get("details", {}) == details


def test_a_refusal_names_the_roles_that_do_not_exist() -> None:
    store = Store(a_cluster_binding("gone", user("alice")), a_binding("a", "lost", user("alice")))
    with pytest.raises(errors.Forbidden) as refused:
        Authorizer(store).require(ALICE, Attributes(verb="list", resource="pods", namespace="a"))
    assert refused.value.message.endswith(
        'in the namespace "a": RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, '
        'role.rbac.authorization.k8s.io "lost" not found]'
    )


def test_the_reason_names_the_binding() -> None:
    store = Store(a_cluster_role("r", a_rule("get", "core", "pods")), a_cluster_binding("r", group("team"), name="b"))
    decision = Authorizer(store).decide(ALICE, Attributes(verb="get", resource="pods"))
    assert decision.reason == 'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to Group "team"'


def test_a_binding_that_names_a_user_twice_counts_once() -> None:
    binding = a_cluster_binding("r", user("alice"), group("team"))
    authorizer = Authorizer(Store(a_cluster_role("r", a_rule("get", "core", "pods")), binding))
    assert len(authorizer.rules_for(ALICE, "a")[0]) == 1


def test_half_written_bindings_give_nothing_and_break_nothing() -> None:
    store = Store(
        an_object("ClusterRoleBinding", "a", roleRef={}),
        an_object("ClusterRoleBinding", "b", roleRef={"kind": "Odd", "name": "x"}, subjects=[{}, {"kind": "Odd"}]),
        a_cluster_binding("c", account("nowhere")),
    )
    assert not may(store, ALICE, "get", "pods")


def test_callers_cannot_make_the_index_grow_without_end() -> None:
    store = Store(a_cluster_role("r", a_rule("get", "*", "*")), a_cluster_binding("r", user("alice")))
    authorizer = Authorizer(store)
    for number in range(5000):
        odd = f"odd{number}"
        assert authorizer.decide(ALICE, Attributes(verb="get", resource=odd)).allowed
        assert not authorizer.decide(ALICE, Attributes(verb="get", path=f"/{odd}")).allowed
        assert not authorizer.decide(User(odd), Attributes(verb="get", resource="pods")).allowed
    kept = authorizer._permissions
    assert len(kept) <= 2048
    assert all(len(found.decisions) <= 1024 and len(found.paths) <= 1024 for found in kept.values())


def test_a_decision_takes_few_steps_however_many_rules_there_are() -> None:
    taken = []
    for many in (2, 200):
        rules = [a_rule("get list watch", "core", f"kind{number}") for number in range(many)]
        store = Store(a_cluster_role("r", *rules, a_rule("get", "core", "pods")), a_cluster_binding("r", user("alice")))
        authorizer = Authorizer(store)
        first, second = (Attributes(verb="get", resource="pods", namespace="a", name=name) for name in "ab")
        assert authorizer.decide(ALICE, first).allowed
        taken.append(steps.of(lambda authorizer=authorizer, second=second: authorizer.decide(ALICE, second)))
    assert taken[0] == taken[1] < 50


WRITER = User("alice", ("system:authenticated",))
BIG = a_cluster_role("big", a_rule("*", "*", "*"), {"verbs": ["*"], "nonResourceURLs": ["*"]})
SUM = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}


def world(*rules: Object) -> Authorizer:
    """Alice may get pods, and what these rules say."""
    role = a_cluster_role("hers", a_rule("get", "core", "pods"), *rules)
    return Authorizer(Store(BIG, role, a_cluster_binding("hers", user("alice"))))


def check(new: Object, old: Object | None = None, *, who: User = WRITER, authorizer: Authorizer | None = None) -> None:
    rbac.check_escalation(who, resource(new["kind"]), new, old, authorizer or world())


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
