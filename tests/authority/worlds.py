"""Roles and bindings at random: few names, so that they meet."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from enum import Enum
from typing import Any

from hypothesis import strategies as st
from tests.authority.rbac import Asked, Subject

Object = dict[str, Any]

GROUP = "rbac.authorization.k8s.io"
USERS = ("ann", "bob")
GROUPS = ("staff", "guests")
ACCOUNTS = ("robot", "other")
RESOURCES = (
    "secrets", "pods", "pods/status", "pods/binding", "pods/eviction", "*/status", "leases", "localdisks",
    "localdisks/status", "nodes", "namespaces", "namespaces/finalize", "serviceaccounts", "serviceaccounts/token", "*",
)  # fmt: skip
API_GROUPS = ("", "coordination.k8s.io", "localpv.dev", "*")
VERBS = (
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*",
)  # fmt: skip
ROLES = ("r1", "r2", "r3")
"""Those that are made; r3 never is, so bindings can refer to nothing."""


def some(values: Sequence[str], most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=most, unique=True)


@functools.cache  # to make a strategy takes longer than to draw from it
def choice(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


@functools.cache
def rules(names: tuple[str, ...]) -> st.SearchStrategy[Object]:
    usual = st.fixed_dictionaries(
        {"verbs": some(VERBS, 4), "apiGroups": some(API_GROUPS, 3), "resources": some(RESOURCES, 3)},
        optional={"resourceNames": some(names, 2)},
    )
    impersonation = st.fixed_dictionaries(
        {
            "verbs": st.just(["impersonate"]),
            "apiGroups": st.sampled_from([[""], ["", "authentication.k8s.io"], ["*"]]),
            "resources": some(("users", "groups", "serviceaccounts", "userextras/team", "*"), 3),
        },
        optional={"resourceNames": some((*USERS, *GROUPS, *ACCOUNTS), 3)},
    )
    paths = st.fixed_dictionaries(
        {"verbs": some(("get", "*"), 1), "nonResourceURLs": some(("/metrics", "/version*", "*"), 2)}
    )
    return st.one_of(usual, usual, usual, impersonation, paths)


@functools.cache
def cluster_rules(names: tuple[str, ...]) -> st.SearchStrategy[list[Object]]:
    return st.lists(rules(names), min_size=1, max_size=3)


@functools.cache
def namespaced_rules(names: tuple[str, ...]) -> st.SearchStrategy[list[Object]]:
    return st.lists(rules(names).filter(_in_namespace), max_size=3)


@functools.cache
def homes_among(namespaces: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(namespaces), max_size=2, unique=True)


@functools.cache
def subjects(namespaces: tuple[str, ...]) -> st.SearchStrategy[list[Object]]:
    def of(kind: str, names: Sequence[str]) -> st.SearchStrategy[Object]:
        return st.sampled_from(names).map(lambda name: {"apiGroup": GROUP, "kind": kind, "name": name})

    people = of("User", (*USERS, *(f"system:serviceaccount:{each}:robot" for each in namespaces)))
    groups = of("Group", (*GROUPS, *(f"system:serviceaccounts:{each}" for each in namespaces)))
    accounts = st.builds(
        lambda name, namespace: {"kind": "ServiceAccount", "name": name, "namespace": namespace},
        st.sampled_from(ACCOUNTS),
        st.sampled_from(namespaces),
    )
    return st.lists(st.one_of(accounts, accounts, people, groups), min_size=1, max_size=3)


@st.composite
def rbac(
    draw: st.DrawFn, namespaces: tuple[str, ...], names: tuple[str, ...], standing: tuple[str, ...] = ()
) -> list[Object]:
    """Roles and bindings. `names` go into resourceNames, `standing` are ClusterRoles that are there already."""
    found: list[Object] = []

    def add(kind: str, name: str, namespace: str = "", **parts: Any) -> None:
        metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
        found.append({"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, **parts})

    for name in ROLES[:2]:
        add("ClusterRole", name, rules=draw(cluster_rules(names)))
    homes = draw(homes_among(namespaces))
    for namespace in homes:
        add("Role", "r1", namespace, rules=draw(namespaced_rules(names)))

    cluster_roles = choice(*ROLES, *standing)
    for number in range(draw(choice(0, 1, 2))):
        reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": draw(cluster_roles)}
        add("ClusterRoleBinding", f"b{number}", roleRef=reference, subjects=draw(subjects(namespaces)))
    for number in range(draw(choice(1, 2, 3))):
        kind = draw(choice("Role", "ClusterRole"))
        role = "r1" if kind == "Role" else draw(cluster_roles)
        reference = {"apiGroup": GROUP, "kind": kind, "name": role}
        home = draw(choice(*(homes or namespaces)) if kind == "Role" else choice(*namespaces))
        add("RoleBinding", f"b{number}", home, roleRef=reference, subjects=draw(subjects(namespaces)))
    return found


def _in_namespace(rule: Object) -> bool:
    return "nonResourceURLs" not in rule


class Near(Enum):
    """How close a grant comes to what is asked for."""

    EXACT = "this verb on this resource, in this namespace"
    CLUSTER = "the same in the whole cluster"
    BY_NAME = "the same, for this name alone"
    OTHER_NAME = "the same, for another name"
    OTHER_NAMESPACE = "the same, in another namespace"
    OTHER_VERB = "another verb"
    NO_SUBRESOURCE = "the resource, not its subresource, or the other way round"


def grant(number: int, near: Near, asked: Asked, who: Subject, namespaces: Sequence[str], name: str) -> list[Object]:
    """A role and a binding that allow what is asked for, or nearly. `name` is one that the request may be about."""
    resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    if near is Near.NO_SUBRESOURCE:
        resource = asked.resource if asked.subresource else f"{asked.resource}/status"
    others = {"get": "list", "list": "watch", "watch": "list", "update": "patch", "delete": "deletecollection"}
    verb = others.get(asked.verb, "get") if near is Near.OTHER_VERB else asked.verb
    verbs = [verb, "create"] if verb in ("update", "patch") and number % 2 else [verb]
    rule: Object = {"verbs": verbs, "apiGroups": [asked.group], "resources": [resource]}
    if near in (Near.BY_NAME, Near.OTHER_NAME):
        rule["resourceNames"] = [asked.name or name if near is Near.BY_NAME else "nobody"]
    label = f"near-{number}"
    role: Object = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": label},
        "rules": [rule],
    }
    home = asked.namespace if near is not Near.CLUSTER and asked.namespace in namespaces else ""
    if near is Near.OTHER_NAMESPACE:
        home = next(each for each in namespaces if each != asked.namespace)
    binding: Object = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RoleBinding" if home else "ClusterRoleBinding",
        "metadata": {"name": label, "namespace": home} if home else {"name": label},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": label},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": who.name}],
    }
    return [role, binding]
