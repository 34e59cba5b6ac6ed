"""ClusterRoles that are the sum of others, chosen by label.

Kubernetes has a controller write the sum into the role's rules. Here decisions are made from the sum itself, so
they are right at once; `outdated` gives the roles whose written rules are behind, for the server to write, so that
`kubectl describe clusterrole admin` shows the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from localpv.api.objects import Object


def is_aggregated(role: Object) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def rules(role: Object, roles: Mapping[str, Object]) -> list[Object]:
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
            if name in seen or not _matches(selector, chosen["metadata"].get("labels") or {}):
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
        total = rules(role, by_name)
        if total != (role.get("rules") or []):
            changed.append({**role, "rules": total})
    return changed


def _matches(selector: Object, labels: Mapping[str, str]) -> bool:
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
