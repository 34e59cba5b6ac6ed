"""The index must agree with the plainest possible reading of the rules."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.authority import rbac
from tests.unit.engine.apiserver.auth.fakes import RBAC, Store, an_object

from localpv.api.objects import Object
from localpv.engine.apiserver.auth.identity import Attributes, User, service_account
from localpv.engine.apiserver.auth.rbac import Authorizer
from localpv.engine.apiserver.auth.rules import from_role, uncovered

VERBS = st.sampled_from(["get", "list", "delete", "*"])
GROUPS = st.sampled_from(["", "apps", "*"])
RESOURCES = st.sampled_from(["pods", "pods/log", "*/log", "nodes", "nodes/log", "*"])
NAMES = st.sampled_from(["x", "y"])
URLS = st.sampled_from(["/a", "/a/*", "/a*", "*", "/b"])
NAMESPACES = st.sampled_from(["n", "m"])
ROLE_NAMES = st.sampled_from(["r1", "r2", "r3"])


def some(what: st.SearchStrategy[str], least: int = 0) -> st.SearchStrategy[list[str]]:
    return st.lists(what, min_size=least, max_size=2, unique=True)


RULES = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {"verbs": some(VERBS, 1), "apiGroups": some(GROUPS, 1), "resources": some(RESOURCES, 1)},
            optional={"resourceNames": some(NAMES)},
        ),
        st.fixed_dictionaries({"verbs": some(VERBS, 1), "nonResourceURLs": some(URLS, 1)}),
    ),
    max_size=3,
)
SUBJECTS = st.lists(
    st.one_of(
        st.fixed_dictionaries({"kind": st.just("User"), "name": st.sampled_from(["u", "system:serviceaccount:n:s"])}),
        st.fixed_dictionaries({"kind": st.just("Group"), "name": st.sampled_from(["g", "system:serviceaccounts:n"])}),
        st.fixed_dictionaries(
            {"kind": st.just("ServiceAccount"), "name": st.just("s")}, optional={"namespace": NAMESPACES}
        ),
    ),
    max_size=3,
)
USERS = st.sampled_from([User("u"), User("v", ("g",)), User("u", ("g", "h")), service_account("n", "s"), User("w")])
REQUESTS = st.one_of(
    st.builds(
        Attributes,
        verb=st.sampled_from(["get", "list", "delete"]),
        group=st.sampled_from(["", "apps", "batch"]),
        resource=st.sampled_from(["pods", "nodes"]),
        subresource=st.sampled_from(["", "log", "scale"]),
        namespace=st.sampled_from(["", "n", "m"]),
        name=st.sampled_from(["", "x", "y", "z"]),
    ),
    st.builds(Attributes, verb=st.sampled_from(["get", "list"]), path=st.sampled_from(["/a", "/a/b", "/b", "/ab"])),
)


@st.composite
def worlds(draw: st.DrawFn) -> list[Object]:
    found = [an_object("ClusterRole", name, rules=draw(RULES)) for name in ("r1", "r2")]
    found += [an_object("Role", name, namespace, rules=draw(RULES)) for namespace in ("n", "m") for name in ("r1",)]
    for number in range(draw(st.integers(0, 3))):
        reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": draw(ROLE_NAMES)}
        found.append(an_object("ClusterRoleBinding", f"b{number}", roleRef=reference, subjects=draw(SUBJECTS)))
    for number in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["Role", "ClusterRole"]))
        reference = {"apiGroup": RBAC, "kind": kind, "name": draw(ROLE_NAMES)}
        namespace = draw(NAMESPACES)
        found.append(an_object("RoleBinding", f"b{number}", namespace, roleRef=reference, subjects=draw(SUBJECTS)))
    return found


@settings(max_examples=400)
@given(world=worlds(), asked=st.lists(st.tuples(USERS, REQUESTS), min_size=1, max_size=12))
def test_the_index_agrees_with_a_plain_reading_of_the_rules(
    world: list[Object], asked: list[tuple[User, Attributes]]
) -> None:
    authorizer = Authorizer(Store(*world))
    for who, request in asked:
        assert authorizer.decide(who, request).allowed is rbac.allowed(world, who, request)


@settings(max_examples=300)
@given(held=RULES, wanted=RULES, request=REQUESTS)
def test_who_covers_a_role_may_do_all_that_the_role_allows(
    held: list[Object], wanted: list[Object], request: Attributes
) -> None:
    if uncovered(from_role(wanted), from_role(held)):
        return
    if any(rbac.rule_allows(rule, request) for rule in wanted):
        assert any(rbac.rule_allows(rule, request) for rule in held)


@given(rules=RULES)
def test_every_role_covers_itself(rules: list[Object]) -> None:
    assert uncovered(from_role(rules), from_role(rules)) == []
