"""Roles, their bindings, ServiceAccounts. What they allow is evaluated elsewhere; here is what they may look like."""

from __future__ import annotations

from localpv.api import fields, names, selectors, well_known
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import rules
from localpv.engine.apiserver.kinds.base import Strategy
from localpv.engine.apiserver.kinds.rules import Field


class _Rbac(Strategy):
    generation = False
    allow_create_on_update = True

    def validate_name(self, name: str) -> list[str]:
        # system:node and its like are no DNS names; whatever fits between two slashes of a path will do.
        return names.path_segment(name)


class Role(_Rbac):
    def validate(self, obj: Object) -> FieldErrors:
        return _wrong_rules(obj, namespaced=True)


class ClusterRole(_Rbac):
    def validate(self, obj: Object) -> FieldErrors:
        errors = _wrong_rules(obj, namespaced=False)
        aggregation = obj.get("aggregationRule")
        if aggregation is not None:
            path = "aggregationRule.clusterRoleSelectors"
            chosen = aggregation.get("clusterRoleSelectors") or []
            if not chosen:
                errors.append(fields.required(path, "an aggregation needs at least one selector of roles"))
            for index, selector in enumerate(chosen):
                if problems := selectors.validate(selector, f"{path}[{index}]"):
                    errors += [*problems, fields.invalid(f"{path}[{index}]", selector, "cannot be read")]
        return errors


_VERBS = (Field("verbs", required="a rule needs at least one verb"),)
_RESOURCES = (
    Field("apiGroups", required="a rule about resources needs at least one API group"),
    Field("resources", required="a rule about resources needs at least one of them"),
)


def _role_ref(*kinds: str) -> tuple[Field, ...]:
    return (
        Field("apiGroup", enum=(well_known.RBAC_GROUP,)),
        Field("kind", enum=kinds, unset=""),
        Field("name", required=True, form=names.path_segment),
    )


class RoleBinding(_Rbac):
    role_ref = _role_ref("Role", "ClusterRole")
    namespaced = True

    def default(self, obj: Object) -> None:
        role = obj.setdefault("roleRef", {})
        if not role.get("apiGroup"):
            role["apiGroup"] = well_known.RBAC_GROUP
        for subject in obj.get("subjects", ()):
            if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = well_known.RBAC_GROUP

    def validate(self, obj: Object) -> FieldErrors:
        errors = [*rules.errors(self.role_ref, obj["roleRef"], "roleRef")]
        for index, subject in enumerate(obj.get("subjects", ())):
            errors += _wrong_subject(subject, f"subjects[{index}]", namespaced=self.namespaced)
        return errors

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        if obj["roleRef"] != old["roleRef"]:
            why = "cannot change: delete the binding and create it with the other role"
            return [fields.invalid("roleRef", obj["roleRef"], why)]
        return []


class ClusterRoleBinding(RoleBinding):
    role_ref = _role_ref("ClusterRole")
    namespaced = False


def _wrong_rules(obj: Object, *, namespaced: bool) -> FieldErrors:
    return [
        error
        for index, rule in enumerate(obj.get("rules") or ())
        for error in _wrong_rule(rule, f"rules[{index}]", namespaced=namespaced)
    ]


def _wrong_rule(rule: Object, path: str, *, namespaced: bool) -> FieldErrors:
    errors = [*rules.errors(_VERBS, rule, path)]
    if urls := rule.get("nonResourceURLs"):
        if namespaced:
            errors.append(fields.invalid(f"{path}.nonResourceURLs", urls, "only a ClusterRole can allow URLs"))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            why = "a rule is either about resources or about URLs, not both"
            errors.append(fields.invalid(f"{path}.nonResourceURLs", urls, why))
        return errors
    return [*errors, *rules.errors(_RESOURCES, rule, path)]


def _wrong_subject(subject: Object, path: str, *, namespaced: bool) -> FieldErrors:
    errors: FieldErrors = []
    name, group = subject.get("name", ""), subject.get("apiGroup", "")
    if not name:
        errors.append(fields.required(f"{path}.name"))
    match subject.get("kind", ""):
        case "ServiceAccount":
            if name:
                errors += fields.malformed(f"{path}.name", name, names.dns_subdomain(name))
            if group:
                errors.append(fields.not_supported(f"{path}.apiGroup", group, ("",)))
            if not namespaced and not subject.get("namespace"):
                errors.append(fields.required(f"{path}.namespace"))
        case "User" | "Group":
            if group != well_known.RBAC_GROUP:
                errors.append(fields.not_supported(f"{path}.apiGroup", group, (well_known.RBAC_GROUP,)))
        case kind:
            errors.append(fields.not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group")))
    return errors


_MOUNTABLE_SECRETS = "kubernetes.io/enforce-mountable-secrets"


class ServiceAccount(Strategy):
    generation = False
    returns_deleted = True

    def prepare_for_create(self, obj: Object) -> None:
        _keep_names(obj)

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        _keep_names(obj)

    def warnings(self, obj: Object) -> list[str]:
        if _MOUNTABLE_SECRETS in (obj["metadata"].get("annotations") or {}):
            return [
                f"metadata.annotations[{_MOUNTABLE_SECRETS}]: deprecated since v1.32;"
                " keep secrets apart by namespace instead"
            ]
        return []


def _keep_names(obj: Object) -> None:
    if secrets := obj.get("secrets"):
        obj["secrets"] = [{"name": secret["name"]} if "name" in secret else {} for secret in secrets]
