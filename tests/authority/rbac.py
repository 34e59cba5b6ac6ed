"""RBAC as the documentation of Kubernetes tells it, in the plainest possible words: what tests compare to.

Nothing of it is shared with the code that it judges, and nothing is indexed or cached.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Subject:
    """Who asks: the name, the groups, and the node that the token is bound to, if it is."""

    name: str
    groups: tuple[str, ...] = ()
    node: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked for; without a resource it is about a path."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


def account(namespace: str, name: str, node: str = "") -> Subject:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return Subject(f"system:serviceaccount:{namespace}:{name}", groups, node)


def allowed(objects: Iterable[Object], who: Any, asked: Any) -> bool:
    """Whether any binding gives the subject a role with a rule for this. `objects` are roles and bindings."""
    objects = list(objects)
    return any(
        rule_allows(rule, asked)
        for binding in objects
        if binding["kind"] in ("RoleBinding", "ClusterRoleBinding")
        and binding["metadata"].get("namespace", "") in ("", asked.namespace)
        and any(is_subject(who, subject, binding) for subject in binding.get("subjects") or ())
        for role in objects
        if is_role_of(binding, role)
        for rule in role.get("rules") or ()
    )


def is_role_of(binding: Object, role: Object) -> bool:
    reference = binding["roleRef"]
    if (role["kind"], role["metadata"]["name"]) != (reference["kind"], reference["name"]):
        return False
    if role["kind"] == "ClusterRole":
        return True
    # A Role is meant in the namespace of the binding; a ClusterRoleBinding has none and cannot mean one.
    return bool(role["metadata"]["namespace"] == binding["metadata"].get("namespace"))


def is_subject(who: Any, subject: Object, binding: Object) -> bool:
    match subject["kind"]:
        case "User":
            return bool(who.name == subject["name"])
        case "Group":
            return subject["name"] in who.groups
    home = subject.get("namespace") or binding["metadata"].get("namespace") or ""
    return bool(home) and who.name == f"system:serviceaccount:{home}:{subject['name']}"


def rule_allows(rule: Object, asked: Any) -> bool:
    def among(key: str, *values: str) -> bool:
        return any(value in (rule.get(key) or ()) for value in ("*", *values))

    if not among("verbs", asked.verb):
        return False
    if not asked.resource:
        return any(
            url == asked.path or (url.endswith("*") and asked.path.startswith(url.rstrip("*")))
            for url in rule.get("nonResourceURLs") or ()
        )
    names = rule.get("resourceNames") or ()
    if (names and asked.name not in names) or not among("apiGroups", asked.group):
        return False
    if not asked.subresource:
        return among("resources", asked.resource)
    return among("resources", f"{asked.resource}/{asked.subresource}", f"*/{asked.subresource}")


# -- impersonation ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Disguise:
    """In whose name somebody asks."""

    user: str
    groups: tuple[str, ...] = ()
    extra: dict[str, str] = field(default_factory=dict)

    def headers(self) -> list[tuple[str, str]]:
        return [
            ("Impersonate-User", self.user),
            *(("Impersonate-Group", group) for group in self.groups),
            *((f"Impersonate-Extra-{key}", value) for key, value in self.extra.items()),
        ]


def questions(disguise: Disguise) -> list[Asked]:
    """The rights that it takes: one for each part of the other identity."""
    first = Asked(verb="impersonate", resource="users", name=disguise.user)
    if home := _home(disguise.user):
        first = replace(first, resource="serviceaccounts", namespace=home[0], name=home[1])
    groups = [Asked(verb="impersonate", resource="groups", name=group) for group in disguise.groups]
    extra = [
        Asked(verb="impersonate", group="authentication.k8s.io", resource="userextras", subresource=key, name=value)
        for key, value in disguise.extra.items()
    ]
    return [first, *groups, *extra]


def disguised(objects: Iterable[Object], who: Subject, disguise: Disguise) -> Subject | None:
    """Whom the server takes them for; None when they may not."""
    objects = list(objects)
    if "system:masters" not in who.groups and not all(allowed(objects, who, each) for each in questions(disguise)):
        return None
    home = _home(disguise.user)
    groups = disguise.groups or (account(*home).groups[:2] if home else ())
    if "system:authenticated" not in groups and "system:unauthenticated" not in groups:
        groups = (*groups, "system:authenticated")
    return Subject(disguise.user, groups)


def _home(user: str) -> tuple[str, str] | None:
    if not user.startswith("system:serviceaccount:"):
        return None
    _, _, namespace, name = user.split(":")
    return namespace, name


def is_agent(objects: Iterable[Object], who: Subject) -> bool:
    """Whether localpv's rule for agents binds this subject."""
    return "localpv:agents" in who.groups or any(
        binding["kind"] == "ClusterRoleBinding"
        and binding["roleRef"]["name"] == "localpv-agent"
        and any(is_subject(who, subject, binding) for subject in binding.get("subjects") or ())
        for binding in objects
    )
