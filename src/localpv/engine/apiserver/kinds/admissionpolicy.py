"""ValidatingAdmissionPolicies and their bindings: stored and checked for form; their expressions are not evaluated."""

from __future__ import annotations

import re
from collections.abc import Sequence

from localpv.api import fields, names, selectors
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import rules
from localpv.engine.apiserver.kinds.base import StatusStrategy, Strategy, keep_metadata
from localpv.engine.apiserver.kinds.rules import Field

MATCH_POLICY = Field("matchPolicy", enum=("Equivalent", "Exact"))
FAILURE_POLICY = Field("failurePolicy", enum=("Fail", "Ignore"))
_SCOPE = (Field("scope", enum=("*", "Cluster", "Namespaced")),)
_VALIDATION = (Field("reason", enum=("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")),)
_BINDING = (Field("policyName", required=True, form=names.dns_subdomain),)
_PARAM_REF = (Field("parameterNotFoundAction", required=True, enum=("Deny", "Allow")),)
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
    errors = [*rules.errors((MATCH_POLICY,), match, path)]
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
        errors += fields.malformed(where, name, names.path_segment(name))
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
    return [*errors, *rules.errors(_SCOPE, rule, path)]


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


_ACTIONS = ("Audit", "Deny", "Warn")
_MAX_CONDITIONS = 64
_MAX_ANNOTATIONS = 20
_MAX_ANNOTATION_EXPRESSION = 5 * 1024
_is_identifier = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*").fullmatch
_is_cel_word = re.compile(
    "true|false|null|in|as|break|const|continue|else|for|function|if|import|let|loop|package|namespace"
    "|return|var|void|while"
).fullmatch


class ValidatingAdmissionPolicy(StatusStrategy):
    unconditional_update = False

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("failurePolicy") is None:
            spec["failurePolicy"] = "Fail"
        default(spec.get("matchConstraints"))

    def prepare_for_create(self, obj: Object) -> None:
        obj["status"] = {}

    def prepare_for_status_update(self, obj: Object, old: Object) -> None:
        super().prepare_for_status_update(obj, old)
        keep_metadata(obj, old)

    def validate_status_update(self, obj: Object, old: Object) -> FieldErrors:
        status = obj.get("status", {})
        found = {
            "typeChecking.expressionWarnings": (
                status.get("typeChecking", {}).get("expressionWarnings", ()),
                ("warning", "fieldRef"),
            ),
            "conditions": (status.get("conditions", ()), ("type", "status", "lastTransitionTime", "reason")),
        }
        return [
            fields.required(f"status.{path}[{index}].{key}")
            for path, (entries, keys) in found.items()
            for index, entry in enumerate(entries)
            for key in keys
            if not entry.get(key)
        ]

    def validate(self, obj: Object) -> FieldErrors:
        spec = obj["spec"]
        errors = [*rules.errors((FAILURE_POLICY,), spec, "spec")]
        if (kind := spec.get("paramKind")) is not None:
            errors += _wrong_param_kind(kind, "spec.paramKind")
        match = spec.get("matchConstraints")
        if match is None:
            errors.append(fields.required("spec.matchConstraints"))
        else:
            errors += validate(match, "spec.matchConstraints")
            if not match.get("resourceRules"):
                errors.append(fields.required("spec.matchConstraints.resourceRules"))
        errors += wrong_conditions(spec.get("matchConditions", ()), "spec.matchConditions")
        for index, variable in enumerate(spec.get("variables", ())):
            errors += _wrong_variable(variable, f"spec.variables[{index}]")
        validations, annotations = spec.get("validations", ()), spec.get("auditAnnotations", ())
        if not validations and not annotations:
            why = "a policy needs at least one validation or audit annotation"
            errors += [fields.required("spec.validations", why), fields.required("spec.auditAnnotations", why)]
        for index, validation in enumerate(validations):
            errors += _wrong_validation(validation, f"spec.validations[{index}]")
        return errors + _wrong_annotations(obj["metadata"].get("name", ""), annotations, "spec.auditAnnotations")


class ValidatingAdmissionPolicyBinding(Strategy):
    unconditional_update = False

    def default(self, obj: Object) -> None:
        default(obj.setdefault("spec", {}).get("matchResources"))

    def validate(self, obj: Object) -> FieldErrors:
        spec = obj["spec"]
        errors = [*rules.errors(_BINDING, spec, "spec")]
        if (reference := spec.get("paramRef")) is not None:
            errors += _wrong_param_ref(reference, "spec.paramRef")
        if (match := spec.get("matchResources")) is not None:
            errors += validate(match, "spec.matchResources")
        return errors + _wrong_actions(spec.get("validationActions", ()), "spec.validationActions")

    def warnings(self, obj: Object) -> list[str]:
        return ["policies are not evaluated here: the binding is only stored, and forbids nothing"]


def _wrong_param_kind(kind: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    version = kind.get("apiVersion", "")
    where = f"{path}.apiVersion"
    if not version:
        errors.append(fields.required(where))
    elif version.count("/") > 1:
        errors.append(
            fields.invalid(where, version, "must be a version, or a group and a version with a slash between")
        )
    else:
        group, _, name = version.rpartition("/")
        if group and (problems := names.dns_subdomain(group)):
            errors.append(fields.invalid(where, group, ", ".join(problems)))
        if not name:
            errors.append(fields.invalid(where, version, "the version is missing"))
        elif problems := names.dns1035_label(name):
            errors.append(fields.invalid(where, name, ", ".join(problems)))
    word = kind.get("kind", "")
    if not word:
        errors.append(fields.required(f"{path}.kind"))
    elif problems := names.dns1035_label(word.lower()):
        errors.append(fields.invalid(f"{path}.kind", word, "apart from capital letters: " + ", ".join(problems)))
    return errors


def wrong_conditions(conditions: Sequence[Object], path: str) -> FieldErrors:
    errors: FieldErrors = []
    if len(conditions) > _MAX_CONDITIONS:
        errors.append(fields.too_many(path, len(conditions), _MAX_CONDITIONS))
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        where = f"{path}[{index}]"
        if not condition.get("expression", "").strip():
            errors.append(fields.required(f"{where}.expression"))
        name = condition.get("name", "")
        if not name:
            errors.append(fields.required(f"{where}.name"))
            continue
        errors += fields.malformed(f"{where}.name", name, names.qualified_name(name))
        if name in seen:
            errors.append(fields.duplicate(f"{where}.name", name))
        seen.add(name)
    return errors


def _wrong_variable(variable: Object, path: str) -> FieldErrors:
    errors = []
    name = variable.get("name", "")
    if not name.strip():
        errors.append(fields.required(f"{path}.name"))
    elif not _is_identifier(name) or _is_cel_word(name):
        errors.append(fields.invalid(f"{path}.name", name, "must be an identifier of CEL"))
    if not variable.get("expression", "").strip():
        errors.append(fields.required(f"{path}.expression"))
    return errors


def _wrong_validation(validation: Object, path: str) -> FieldErrors:
    errors = [
        fields.invalid(f"{path}.{key}", text, "must not be blank when it is given")
        for key in ("messageExpression", "message")
        if (text := validation.get(key)) and not text.strip()
    ]
    if not validation.get("expression", "").strip():
        errors.append(fields.required(f"{path}.expression"))
    message = validation.get("message", "").strip()
    if "\n" in message or "\r" in message:
        errors.append(fields.invalid(f"{path}.message", validation["message"], "must be one line"))
    return [*errors, *rules.errors(_VALIDATION, validation, path)]


def _wrong_annotations(policy: str, annotations: Sequence[Object], path: str) -> FieldErrors:
    errors: FieldErrors = []
    if len(annotations) > _MAX_ANNOTATIONS:
        errors.append(fields.invalid(path, annotations, f"there may be at most {_MAX_ANNOTATIONS} audit annotations"))
    seen: set[str] = set()
    for index, annotation in enumerate(annotations):
        where, key = f"{path}[{index}]", annotation.get("key", "")
        # The policy's name becomes the prefix of the key, so the two have to be right together.
        errors += fields.malformed(f"{where}.key", key, names.qualified_name(f"{policy}/{key}"))
        expression = annotation.get("valueExpression", "").strip()
        if not expression:
            errors.append(fields.required(f"{where}.valueExpression"))
        elif len(expression.encode()) > _MAX_ANNOTATION_EXPRESSION:
            why = f"may have at most {_MAX_ANNOTATION_EXPRESSION} bytes"
            errors.append(fields.required(f"{where}.valueExpression", why))
        if key in seen:
            errors.append(fields.duplicate(f"{where}.key", key))
        seen.add(key)
    return errors


def _wrong_param_ref(reference: Object, path: str) -> FieldErrors:
    name, selector = reference.get("name", ""), reference.get("selector")
    errors = fields.malformed(f"{path}.name", name, names.path_segment(name) if name else ())
    if name and selector is not None:
        why = "either a name or a selector, not both"
        errors += [fields.forbidden(f"{path}.name", why), fields.forbidden(f"{path}.selector", why)]
    if selector is not None:
        errors += selectors.validate(selector, f"{path}.selector")
    if not name and selector is None:
        errors.append(fields.required(path, "a name or a selector says which parameters are meant"))
    return [*errors, *rules.errors(_PARAM_REF, reference, path)]


def _wrong_actions(actions: Sequence[str], path: str) -> FieldErrors:
    if not actions:
        return [fields.required(path, "at least one action is needed")]
    errors = []
    again = fields.repeated(actions)
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            errors.append(fields.not_supported(f"{path}[{index}]", action, _ACTIONS))
        if index in again:
            errors.append(fields.duplicate(f"{path}[{index}]", action))
    if "Deny" in actions and "Warn" in actions:
        errors.append(fields.invalid(path, actions, "Deny and Warn would say the same thing twice: choose one"))
    return errors
