"""Which requests an admission policy is about: rules of groups, versions, resources and operations."""

from __future__ import annotations

from collections.abc import Sequence

from localpv.api import fields, names, selectors
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")


def default(match: Object | None) -> None:
    if match is None:
        return
    if match.get("matchPolicy") is None:
        match["matchPolicy"] = "Equivalent"
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    for key in ("resourceRules", "excludeResourceRules"):
        for rule in match.get(key, ()):
            if rule.get("scope") is None:
                rule["scope"] = "*"


def validate(match: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    if match["matchPolicy"] not in ("Equivalent", "Exact"):
        errors.append(fields.not_supported(f"{path}.matchPolicy", match["matchPolicy"], ("Equivalent", "Exact")))
    for key in ("namespaceSelector", "objectSelector"):
        errors += selectors.validate(match[key], f"{path}.{key}")
    for key in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(key, ())):
            errors += wrong_rule(rule, f"{path}.{key}[{index}]")
    return errors


def wrong_rule(rule: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    seen: set[str] = set()
    for index, name in enumerate(rule.get("resourceNames", ())):
        where = f"{path}.resourceNames[{index}]"
        errors += [fields.invalid(where, name, problem) for problem in names.path_segment(name)]
        if name in seen:
            errors.append(fields.duplicate(where, name))
        seen.add(name)
    operations = rule.get("operations", ())
    errors += _wrong_wildcard(operations, f"{path}.operations")
    errors += [
        fields.not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS)
        for index, operation in enumerate(operations)
        if operation not in _OPERATIONS
    ]
    errors += _wrong_wildcard(rule.get("apiGroups", ()), f"{path}.apiGroups")
    versions = rule.get("apiVersions", ())
    errors += _wrong_wildcard(versions, f"{path}.apiVersions")
    errors += [fields.required(f"{path}.apiVersions[{index}]") for index, name in enumerate(versions) if not name]
    errors += _wrong_resources(rule.get("resources", ()), f"{path}.resources")
    if rule["scope"] not in ("*", "Cluster", "Namespaced"):
        errors.append(fields.not_supported(f"{path}.scope", rule["scope"], ("*", "Cluster", "Namespaced")))
    return errors


def _wrong_wildcard(values: Sequence[str], path: str) -> FieldErrors:
    if not values:
        return [fields.required(path)]
    if len(values) > 1 and "*" in values:
        return [fields.invalid(path, values, "'*' stands for all and must be alone")]
    return []


def _wrong_resources(resources: Sequence[str], path: str) -> FieldErrors:
    if not resources:
        return [fields.required(path)]
    errors: FieldErrors = []
    whole: set[str] = set()
    everywhere: set[str] = set()
    plain = False
    for index, entry in enumerate(resources):
        where = f"{path}[{index}]"
        if not entry:
            errors.append(fields.required(where))
            continue
        resource, slash, sub = entry.partition("/")
        if not slash:
            plain = entry != "*"
            continue
        if resource in whole:
            errors.append(fields.invalid(where, entry, f"{resource}/* covers it already"))
        if sub in everywhere:
            errors.append(fields.invalid(where, entry, f"*/{sub} covers it already"))
        if sub == "*":
            whole.add(resource)
        if resource == "*":
            everywhere.add(sub)
    if len(resources) > 1 and "*/*" in resources:
        errors.append(fields.invalid(path, resources, "'*/*' stands for all and must be alone"))
    if "*" in resources and plain:
        errors.append(fields.invalid(path, resources, "'*' stands for all resources; only subresources may be added"))
    return errors
