"""May this user do that: Role, ClusterRole and their bindings, from an index that is made when it is needed.

Three levels, each made on first use and thrown away by `invalidate`:

bindings      subject -> roles granted to it, cluster-wide and by namespace
permissions   (user, namespace) -> all rules that apply there, in order
decisions     (verb, group, resource) -> the rules among them that allow it

A typical decision is two dictionary look-ups; which object is meant (`name`) is compared last, so ten thousand
objects share one entry.

Nobody gives away, through a role or a binding, more than they have (`check_escalation`). Whoever may
write roles could otherwise write themselves a bigger one. Two verbs lift this on purpose: `escalate` on the role, and
`bind` on the role that a binding refers to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from localpv.api import status, well_known
from localpv.api.objects import Object
from localpv.api.resources import Resource
from localpv.engine.apiserver.auth import rules
from localpv.engine.apiserver.auth.identity import (
    MASTERS,
    Attributes,
    User,
    account_username,
    forbidden,
    quoted,
    refusal,
)
from localpv.engine.apiserver.auth.lookup import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, Objects
from localpv.engine.apiserver.auth.rules import Rule, from_role, is_aggregated, listed, uncovered

# Callers choose user names (by impersonation) and verbs (in reviews), so neither level may grow without end.
# A full one is emptied: the next decisions cost some microseconds more, nothing else.
_MAX_PERMISSIONS = 2048
_MAX_DECISIONS = 1024


class Decision(NamedTuple):
    allowed: bool
    reason: str = ""
    """Which binding allowed it, or which binding could not be followed."""


_MASTER = Decision(True)
_NO = Decision(False)


class _Grant(NamedTuple):
    """A role given to a subject by a binding."""

    rules: tuple[Rule, ...]
    binding: str
    source: str
    role: str
    """Name of the ClusterRole; empty for a Role."""
    error: str
    """Set when the role does not exist."""


class _Allow(NamedTuple):
    names: frozenset[str] | None
    """None: any object."""
    decision: Decision


@dataclass(slots=True)
class _Permissions:
    """All that one user may do in one namespace, or cluster-wide."""

    grants: list[_Grant]
    cluster_roles: frozenset[str]
    refusal: Decision
    decisions: dict[tuple[str, str, str, str], tuple[_Allow, ...]] = field(default_factory=dict)
    paths: dict[tuple[str, str], Decision] = field(default_factory=dict)

    def decide(self, request: Attributes) -> Decision:
        if not request.resource:
            return self._decide_path(request.verb, request.path)
        key = (request.verb, request.group, request.resource, request.subresource)
        found = self.decisions.get(key)
        if found is None:
            if len(self.decisions) >= _MAX_DECISIONS:
                self.decisions.clear()
            found = self.decisions[key] = self._find(*key)
        for names, decision in found:
            if names is None or request.name in names:
                return decision
        return self.refusal

    def _find(self, verb: str, group: str, resource: str, subresource: str) -> tuple[_Allow, ...]:
        found: list[_Allow] = []
        for grant in self.grants:
            for rule in grant.rules:
                if rule.allows_resource(verb, group, resource, subresource):
                    decision = Decision(True, f"RBAC: allowed by {grant.source}")
                    if not rule.names:
                        return (*found, _Allow(None, decision))
                    found.append(_Allow(frozenset(rule.names), decision))
        return tuple(found)

    def _decide_path(self, verb: str, path: str) -> Decision:
        decision = self.paths.get((verb, path))
        if decision is None:
            if len(self.paths) >= _MAX_DECISIONS:
                self.paths.clear()
            decision = self.refusal
            for grant in self.grants:
                if any(rule.allows_path(verb, path) for rule in grant.rules):
                    decision = Decision(True, f"RBAC: allowed by {grant.source}")
                    break
            self.paths[verb, path] = decision
        return decision


class _Bindings:
    """Which roles each subject has. A subject is `User:name` or `Group:name`; a service account is its user."""

    def __init__(self, objects: Objects) -> None:
        cluster_roles = {role["metadata"]["name"]: role for role in objects.list(CLUSTER_ROLES)}
        self.cluster_rules = {
            name: rules.from_role(rules.rules_of(role, cluster_roles)) for name, role in cluster_roles.items()
        }
        self.role_rules = {
            (role["metadata"]["namespace"], role["metadata"]["name"]): rules.from_role(role.get("rules") or [])
            for role in objects.list(ROLES)
        }
        self.everywhere: dict[str, list[_Grant]] = {}
        self.in_namespace: dict[str, dict[str, list[_Grant]]] = {}
        for binding in objects.list(CLUSTER_ROLE_BINDINGS):
            self._add("", binding, self.everywhere)
        for binding in objects.list(ROLE_BINDINGS):
            namespace = binding["metadata"]["namespace"]
            self._add(namespace, binding, self.in_namespace.setdefault(namespace, {}))

    def role(self, reference: Object, namespace: str) -> tuple[Rule, ...] | None:
        """The rules of the role that a binding in this namespace ("" for a ClusterRoleBinding) refers to."""
        kind, name = reference.get("kind"), reference.get("name", "")
        if kind == "ClusterRole":
            return self.cluster_rules.get(name)
        if kind == "Role":
            return self.role_rules.get((namespace, name))
        return None

    def _add(self, namespace: str, binding: Object, grants: dict[str, list[_Grant]]) -> None:
        reference, name = binding.get("roleRef") or {}, binding["metadata"]["name"]
        kind, role = reference.get("kind", ""), reference.get("name", "")
        found = self.role(reference, namespace)
        error = "" if found is not None else f"{kind.lower()}.{well_known.RBAC_GROUP} {quoted(role)} not found"
        what = f"RoleBinding {quoted(f'{name}/{namespace}')}" if namespace else f"ClusterRoleBinding {quoted(name)}"
        granted = set()
        for subject in binding.get("subjects") or ():
            key, shown = _subject(subject, namespace)
            if key and key not in granted:
                granted.add(key)
                source = f"{what} of {kind} {quoted(role)} to {shown}"
                grant = _Grant(found or (), what, source, role if kind == "ClusterRole" else "", error)
                grants.setdefault(key, []).append(grant)


def _subject(subject: Object, namespace: str) -> tuple[str, str]:
    kind, name = subject.get("kind", ""), subject.get("name", "")
    if kind in ("User", "Group"):
        return f"{kind}:{name}", f"{kind} {quoted(name)}"
    if kind == "ServiceAccount":
        # A binding in a namespace may leave out the namespace of accounts next to it.
        home = subject.get("namespace") or namespace
        if home:
            return f"User:{account_username(home, name)}", f"{kind} {quoted(f'{name}/{home}')}"
    return "", ""


class Authorizer:
    """Decides requests from the RBAC objects of the store. Call `invalidate` after any of them changed."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._bindings: _Bindings | None = None
        self._permissions: dict[tuple[str, tuple[str, ...], str], _Permissions] = {}

    def invalidate(self) -> None:
        self._bindings = None
        self._permissions.clear()

    def decide(self, user: User, request: Attributes) -> Decision:
        if MASTERS in user.groups:
            return _MASTER
        found = self._permissions.get((user.name, user.groups, request.namespace))
        return (found or self._permissions_of(user, request.namespace)).decide(request)

    def require(self, user: User, request: Attributes) -> None:
        """Raise Forbidden unless the user may do this."""
        decision = self.decide(user, request)
        if not decision.allowed:
            raise forbidden(user, request, decision.reason)

    def rules_for(self, user: User, namespace: str) -> tuple[list[Rule], list[str]]:
        """All rules that apply to a user in a namespace, and which bindings could not be followed."""
        grants = self._permissions_of(user, namespace).grants
        return [rule for grant in grants for rule in grant.rules], [grant.error for grant in grants if grant.error]

    def rules_of_role(self, reference: Object, namespace: str) -> tuple[Rule, ...] | None:
        """The rules behind a roleRef; None when there is no such role."""
        return self._current().role(reference, namespace)

    def cluster_roles(self, user: User) -> frozenset[str]:
        """Names of the ClusterRoles that the user has in the whole cluster."""
        return self._permissions_of(user, "").cluster_roles

    def _current(self) -> _Bindings:
        if self._bindings is None:
            self._bindings = _Bindings(self._objects)
        return self._bindings

    def _permissions_of(self, user: User, namespace: str) -> _Permissions:
        key = (user.name, user.groups, namespace)
        found = self._permissions.get(key)
        if found is None:
            if len(self._permissions) >= _MAX_PERMISSIONS:
                self._permissions.clear()
            found = self._permissions[key] = self._gather(user, namespace)
        return found

    def _gather(self, user: User, namespace: str) -> _Permissions:
        bindings = self._current()
        subjects = dict.fromkeys([f"User:{user.name}", *(f"Group:{group}" for group in user.groups)])
        grants = [grant for subject in subjects for grant in bindings.everywhere.get(subject, ())]
        if namespace:
            local = bindings.in_namespace.get(namespace, {})
            grants += [grant for subject in subjects for grant in local.get(subject, ())]
        # A binding may name the user and one of its groups; it counts once.
        grants = list({grant.binding: grant for grant in reversed(grants)}.values())[::-1]
        errors = list(dict.fromkeys(grant.error for grant in grants if grant.error))
        roles = frozenset(grant.role for grant in grants if grant.role)
        return _Permissions(grants, roles, Decision(False, f"RBAC: {summed_up(errors)}") if errors else _NO)


def summed_up(errors: Iterable[str]) -> str:
    """One error as it is, several in brackets."""
    errors = list(errors)
    return errors[0] if len(errors) == 1 else "[" + ", ".join(errors) + "]"


_ROLES = frozenset({"roles", "clusterroles"})
_BINDINGS = frozenset({"rolebindings", "clusterrolebindings"})
_EVERYTHING = (Rule(("*",), ("*",), ("*",)), Rule(verbs=("*",), urls=("*",)))


def check_escalation(user: User, resource: Resource, new: Object, old: Object | None, authorizer: Authorizer) -> None:
    """Raise Forbidden when this create or update (`old` is not None) of a role or binding gives away too much.

    Other resources pass. To be called with the object as it would be stored, before it is.
    """
    if resource.group != well_known.RBAC_GROUP or user.is_master:
        return
    metadata = new["metadata"]
    target = Attributes(
        verb="",
        group=well_known.RBAC_GROUP,
        resource=resource.plural,
        namespace=metadata.get("namespace", "") if resource.namespaced else "",
        name=metadata.get("name", ""),
    )
    if resource.plural in _ROLES:
        _check_role(user, target, new, old, authorizer)
    elif resource.plural in _BINDINGS:
        _check_binding(user, target, new, old, authorizer)


def _check_role(user: User, target: Attributes, new: Object, old: Object | None, authorizer: Authorizer) -> None:
    # A create has no name in its address, so only an `escalate` on all roles lets it pass.
    escalate = Attributes(
        verb="escalate",
        group=well_known.RBAC_GROUP,
        resource=target.resource,
        namespace=target.namespace,
        name=target.name if old is not None else "",
    )
    if authorizer.decide(user, escalate).allowed or (old is not None and _same_but_for_gc(new, old)):
        return
    _confirm(user, target, from_role(new.get("rules") or []), authorizer)
    aggregates = is_aggregated(new) or (old is not None and is_aggregated(old))
    if aggregates and uncovered(_EVERYTHING, authorizer.rules_for(user, target.namespace)[0]):
        # What it will sum up is not known yet and can be anything.
        raise refusal(target, "only a cluster administrator may use aggregationRule")


def _check_binding(user: User, target: Attributes, new: Object, old: Object | None, authorizer: Authorizer) -> None:
    reference = new.get("roleRef") or {}
    kind, name = reference.get("kind", ""), reference.get("name", "")
    if old is not None and _same_but_for_gc(new, old):
        return
    if kind in ("ClusterRole", "Role"):
        bind = Attributes(
            verb="bind", group=well_known.RBAC_GROUP, resource=f"{kind.lower()}s", namespace=target.namespace, name=name
        )
        if authorizer.decide(user, bind).allowed:
            return
    wanted = authorizer.rules_of_role(reference, target.namespace)
    if wanted is None:
        # Told as Kubernetes tells it: with the resource of the request and the name of the role.
        raise status.not_found(target.resource, well_known.RBAC_GROUP, name)
    _confirm(user, target, wanted, authorizer)


def _confirm(user: User, target: Attributes, wanted: tuple[Rule, ...], authorizer: Authorizer) -> None:
    held, _ = authorizer.rules_for(user, target.namespace)
    missing = uncovered(wanted, held)
    if missing:
        rights = "\n".join(sorted(str(rule) for rule in missing))
        who = f"user {quoted(user.name)} (groups={listed(user.groups)})"
        raise refusal(target, f"{who} would grant RBAC permissions without holding them:\n{rights}")


def _same_but_for_gc(new: Object, old: Object) -> bool:
    """Garbage collection must be able to finish a deletion whatever the role allows."""
    return _without_gc(new) == _without_gc(old)


def _without_gc(obj: Object) -> Object:
    dropped = ("ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation")
    metadata = {key: value for key, value in obj["metadata"].items() if key not in dropped}
    return {**obj, "metadata": metadata}
