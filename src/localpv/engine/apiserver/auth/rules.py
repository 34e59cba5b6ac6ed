"""Rules of roles: what one allows, whether it covers another, and ClusterRoles that are the sum of others.

Kubernetes has a controller write the sum into the role's rules. Here decisions are made from the sum itself, so
they are right at once; `outdated` gives the roles whose written rules are behind, for the server to write, so that
`kubectl describe clusterrole admin` shows the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from localpv.api.objects import Object
from localpv.engine.apiserver.auth.identity import quoted

ALL = "*"


@dataclass(frozen=True, slots=True)
class Rule:
    """A PolicyRule with its lists as tuples, in the order in which they were written."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def allows_resource(self, verb: str, group: str, resource: str, subresource: str) -> bool:
        """Whether the rule speaks of this verb and resource. Its `names` may still narrow it down."""
        if verb not in self.verbs and ALL not in self.verbs:
            return False
        if group not in self.groups and ALL not in self.groups:
            return False
        if ALL in self.resources:
            return True
        if not subresource:
            return resource in self.resources
        return f"{resource}/{subresource}" in self.resources or f"*/{subresource}" in self.resources

    def allows_path(self, verb: str, path: str) -> bool:
        return (verb in self.verbs or ALL in self.verbs) and any(_url_covers(url, path) for url in self.urls)

    def covers(self, atom: Rule) -> bool:
        """Whether who has this rule may also do what `atom`, a rule with one of each, allows."""
        if not (ALL in self.verbs or set(atom.verbs) <= set(self.verbs)):
            return False
        if atom.urls:
            # A rule without resource names covers paths too; one with them says nothing about paths.
            return not self.names and any(_url_covers(url, atom.urls[0]) for url in self.urls)
        if not (ALL in self.groups or set(atom.groups) <= set(self.groups)):
            return False
        if self.names and not (atom.names and set(atom.names) <= set(self.names)):
            return False
        resource = atom.resources[0]
        if ALL in self.resources or resource in self.resources:
            return True
        _, slash, subresource = resource.partition("/")
        return bool(slash) and f"*/{subresource}" in self.resources

    def atoms(self) -> Iterator[Rule]:
        """The same permissions as rules with one verb and one resource, name or path each."""
        for group in self.groups:
            for resource in self.resources:
                for verb in self.verbs:
                    for name in self.names or (None,):
                        yield Rule((verb,), (group,), (resource,), () if name is None else (name,))
        for url in self.urls:
            for verb in self.verbs:
                yield Rule(verbs=(verb,), urls=(url,))

    def __str__(self) -> str:
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.urls),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{key}:{listed(values)}" for key, values in parts if values) + "}"


def _url_covers(url: str, path: str) -> bool:
    return url == path or (url.endswith(ALL) and path.startswith(url.rstrip(ALL)))


def listed(values: Iterable[str]) -> str:
    """Strings as messages of the API list them: `["get" "list"]`."""
    return "[" + " ".join(quoted(value) for value in values) + "]"


def from_role(rules: Iterable[Object]) -> tuple[Rule, ...]:
    return tuple(
        Rule(
            verbs=tuple(rule.get("verbs") or ()),
            groups=tuple(rule.get("apiGroups") or ()),
            resources=tuple(rule.get("resources") or ()),
            names=tuple(rule.get("resourceNames") or ()),
            urls=tuple(rule.get("nonResourceURLs") or ()),
        )
        for rule in rules
    )


def uncovered(wanted: Iterable[Rule], held: Iterable[Rule]) -> list[Rule]:
    """What `wanted` allows and `held` does not, with the verbs of one resource or path put together again."""
    held = tuple(held)
    missing: dict[Rule, list[str]] = {}
    for rule in wanted:
        for atom in rule.atoms():
            if not any(have.covers(atom) for have in held):
                what = Rule(groups=atom.groups, resources=atom.resources, names=atom.names, urls=atom.urls)
                verbs = missing.setdefault(what, [])
                if atom.verbs[0] not in verbs:
                    verbs.append(atom.verbs[0])
    return [Rule(tuple(verbs), what.groups, what.resources, what.names, what.urls) for what, verbs in missing.items()]


def is_aggregated(role: Object) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def rules_of(role: Object, roles: Mapping[str, Object]) -> list[Object]:
    """The rules that a ClusterRole gives; `roles` are all ClusterRoles by name."""
    if not is_aggregated(role):
        return role.get("rules") or []
    total: list[Object] = []
    seen = {role["metadata"]["name"]}
    _collect(role, roles, seen, total)
    return total


def _collect(role: Object, roles: Mapping[str, Object], seen: set[str], total: list[Object]) -> None:
    # Each role is visited once, so roles that choose each other end in their common sum and not in a circle.
    for selector in role["aggregationRule"]["clusterRoleSelectors"]:
        for name in sorted(roles):
            chosen = roles[name]
            if name in seen or not _selects(selector, chosen["metadata"].get("labels") or {}):
                continue
            seen.add(name)
            if is_aggregated(chosen):
                _collect(chosen, roles, seen, total)
            else:
                total.extend(rule for rule in chosen.get("rules") or [] if rule not in total)


def outdated(roles: Iterable[Object]) -> list[Object]:
    """Copies, with the right rules, of those aggregated roles whose written rules are not the sum."""
    by_name = {role["metadata"]["name"]: role for role in roles}
    changed = []
    for role in by_name.values():
        total = rules_of(role, by_name)
        if total != (role.get("rules") or []):
            changed.append({**role, "rules": total})
    return changed


def _selects(selector: Object, labels: Mapping[str, str]) -> bool:
    wanted: Mapping[str, str] = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_holds(term, labels) for term in selector.get("matchExpressions") or ())


def _holds(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(term.get("key", ""))
    match term.get("operator"):
        case "In":
            return value in (term.get("values") or ())
        case "NotIn":
            return value not in (term.get("values") or ())
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False
