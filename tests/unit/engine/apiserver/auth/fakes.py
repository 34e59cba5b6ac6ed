"""A store in memory and short ways to write the objects that these tests need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from localpv.api.objects import Object
from localpv.api.resources import BUILT_IN, REVIEWS, Resource

RBAC = "rbac.authorization.k8s.io"
NOW = 1_800_000_000.0

RESOURCES = {resource.kind: resource for resource in (*BUILT_IN, *REVIEWS) if resource.group != "events.k8s.io"}


def resource(kind: str) -> Resource:
    return RESOURCES[kind]


class Store:
    """Objects by storage prefix; counts how often it is asked."""

    def __init__(self, *objects: Object) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.asked = 0
        for obj in objects:
            self.put(obj)

    def put(self, obj: Object) -> Object:
        self.objects[_key(obj)] = obj
        return obj

    def remove(self, obj: Object) -> None:
        del self.objects[_key(obj)]

    def get(self, prefix: str, namespace: str, name: str) -> Object | None:
        self.asked += 1
        return self.objects.get((prefix, namespace, name))

    def list(self, prefix: str, namespace: str | None = None) -> Iterable[Object]:
        return [
            obj for key, obj in self.objects.items() if key[0] == prefix and (namespace is None or key[1] == namespace)
        ]

    def list_kind(self, kind: str, name: str) -> Iterator[Object]:
        return (obj for obj in self.list(resource(kind).storage_prefix) if obj["metadata"]["name"] == name)


def _key(obj: Object) -> tuple[str, str, str]:
    metadata = obj["metadata"]
    return resource(obj["kind"]).storage_prefix, metadata.get("namespace", ""), metadata["name"]


def an_object(kind: str, name: str, namespace: str = "", uid: str = "", **more: Any) -> Object:
    metadata = {"name": name, "uid": uid or f"uid-of-{name}"}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": resource(kind).api_version, "kind": kind, "metadata": metadata, **more}


def a_rule(verbs: str, groups: str, resources: str, names: str = "") -> Object:
    """Lists are written with spaces; `core` stands for the group without a name."""
    rule: Object = {
        "verbs": verbs.split(),
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "resources": resources.split(),
    }
    if names:
        rule["resourceNames"] = names.split()
    return rule


def a_cluster_role(name: str, *rules: Object, **more: Any) -> Object:
    return an_object("ClusterRole", name, rules=list(rules), **more)


def a_role(namespace: str, name: str, *rules: Object) -> Object:
    return an_object("Role", name, namespace, rules=list(rules))


def a_cluster_binding(role: str, *subjects: Object, name: str = "") -> Object:
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    return an_object("ClusterRoleBinding", name or role, roleRef=reference, subjects=list(subjects))


def a_binding(namespace: str, role: str, *subjects: Object, kind: str = "Role", name: str = "") -> Object:
    reference = {"apiGroup": RBAC, "kind": kind, "name": role}
    return an_object("RoleBinding", name or role, namespace, roleRef=reference, subjects=list(subjects))


def user(name: str) -> Object:
    return {"apiGroup": RBAC, "kind": "User", "name": name}


def group(name: str) -> Object:
    return {"apiGroup": RBAC, "kind": "Group", "name": name}


def account(name: str, namespace: str = "") -> Object:
    subject = {"kind": "ServiceAccount", "name": name}
    return {**subject, "namespace": namespace} if namespace else subject
