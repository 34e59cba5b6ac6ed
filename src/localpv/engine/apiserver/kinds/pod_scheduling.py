"""Where a pod may run: affinity, tolerations, spread over a topology, gates."""

from __future__ import annotations

import re
from collections.abc import Iterator

from localpv.api import fields, names, node_selector, selectors
from localpv.api.fields import FieldError
from localpv.api.node_selector import PREFERRED, REQUIRED
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import rules
from localpv.engine.apiserver.kinds.node import TAINT_EFFECTS
from localpv.engine.apiserver.kinds.rules import Field

Errors = Iterator[FieldError]

_is_label_value = re.compile(r".*\.matchExpressions\[\d+\]\.values\[\d+\]").fullmatch

_WEIGHT = (Field("weight", least=1, most=100, unset=0),)
_TOLERATION = (Field("effect", enum=TAINT_EFFECTS, may_be_empty=True),)
_SPREAD = (
    Field("maxSkew", least=1, said="must be greater than zero", unset=0),
    Field("topologyKey", required="must not be empty"),
    Field("whenUnsatisfiable", enum=("DoNotSchedule", "ScheduleAnyway"), unset=""),
)
_DOMAINS = (Field("minDomains", least=1, said="must be greater than zero"),)
_INCLUSION = (
    Field("nodeAffinityPolicy", enum=("Honor", "Ignore")),
    Field("nodeTaintsPolicy", enum=("Honor", "Ignore")),
)


def errors(spec: Object, path: str) -> Errors:
    yield from names.validate_labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    if affinity := spec.get("affinity"):
        yield from _affinity(affinity, f"{path}.affinity")
    if tolerations := spec.get("tolerations"):
        yield from toleration_errors(tolerations, f"{path}.tolerations")
    if constraints := spec.get("topologySpreadConstraints"):
        yield from _spread(constraints, f"{path}.topologySpreadConstraints")
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        condition = gate.get("conditionType", "")
        yield from fields.malformed(
            f"{path}.readinessGates[{index}].conditionType", condition, names.qualified_name(condition)
        )
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name", "")
        yield from fields.malformed(f"{path}.schedulingGates[{index}]", name, names.qualified_name(name))
        if name in seen:
            yield fields.duplicate(f"{path}.schedulingGates[{index}]", name)
        seen.add(name)


def _affinity(affinity: Object, path: str) -> Errors:
    if node := affinity.get("nodeAffinity"):
        at = f"{path}.nodeAffinity"
        if (required := node.get(REQUIRED)) is not None:
            yield from node_selector.validate(required, f"{at}.{REQUIRED}")
        for index, term in enumerate(node.get(PREFERRED) or ()):
            yield from rules.errors(_WEIGHT, term, f"{at}.{PREFERRED}[{index}]")
            preference = f"{at}.{PREFERRED}[{index}].preference"
            for error in node_selector.validate_term(term.get("preference") or {}, preference):
                # A preference for a value that no label can have is only never met.
                if not _is_label_value(error.field):
                    yield error
    for name in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(name) or {}
        for index, term in enumerate(pods.get(REQUIRED) or ()):
            yield from _pod_term(term, f"{path}.{name}.{REQUIRED}[{index}]")
        for index, term in enumerate(pods.get(PREFERRED) or ()):
            at = f"{path}.{name}.{PREFERRED}[{index}]"
            yield from rules.errors(_WEIGHT, term, at)
            yield from _pod_term(term.get("podAffinityTerm") or {}, f"{at}.podAffinityTerm")


def _pod_term(term: Object, path: str) -> Errors:
    for name in ("labelSelector", "namespaceSelector"):
        if (selector := term.get(name)) is not None:
            yield from selectors.validate(selector, f"{path}.{name}")
    for namespace in term.get("namespaces") or ():
        yield from fields.malformed(f"{path}.namespace", namespace, names.dns_label(namespace))
    yield from _label_keys(term, path)
    key = term.get("topologyKey", "")
    if not key:
        yield fields.required(f"{path}.topologyKey", "must not be empty")
    yield from fields.malformed(f"{path}.topologyKey", key, names.qualified_name(key))


def _label_keys(term: Object, path: str) -> Errors:
    """matchLabelKeys and mismatchLabelKeys: labels of the pod itself that its peers must share, or must not."""
    selector = term.get("labelSelector")
    for name in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = term.get(name)
        if keys and selector is None:
            yield fields.forbidden(f"{path}.{name}", "goes with labelSelector only")
        elif keys:
            for index, key in enumerate(keys):
                yield from fields.malformed(f"{path}.{name}[{index}]", key, names.qualified_name(key))
    matched = {key: index for index, key in reversed([*enumerate(term.get("matchLabelKeys") or ())])}
    mismatched = set(term.get("mismatchLabelKeys") or ())
    if selector is not None:
        # At this point each key of the list has become an expression of the selector: a second one came with it.
        used = set(selector.get("matchLabels") or ())
        for expression in selector.get("matchExpressions") or ():
            key = expression.get("key", "")
            if key in matched and key in used:
                yield fields.invalid(f"{path}[{matched[key]}]", key, "is in matchLabelKeys and in labelSelector")
            used.add(key)
    for index, key in enumerate(term.get("matchLabelKeys") or ()):
        if key in mismatched:
            why = "is in matchLabelKeys and in mismatchLabelKeys"
            yield fields.invalid(f"{path}.matchLabelKeys[{index}]", key, why)


def toleration_errors(tolerations: list[Object], path: str) -> Errors:
    for index, toleration in enumerate(tolerations):
        at = f"{path}[{index}]"
        key, value = toleration.get("key", ""), toleration.get("value", "")
        operator, effect = toleration.get("operator", ""), toleration.get("effect", "")
        if key:
            yield from fields.malformed(f"{at}.key", key, names.qualified_name(key))
        if not key and operator != "Exists":
            yield fields.invalid(
                f"{at}.operator", operator, "must be Exists where no key is given, which means every taint"
            )
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            yield fields.invalid(f"{at}.effect", effect, "must be NoExecute where tolerationSeconds is set")
        if operator in ("", "Equal"):
            if wrong := names.label_value(value):
                yield fields.invalid(f"{at}.operator", value, "; ".join(wrong))
        elif operator == "Exists":
            if value:
                yield fields.invalid(f"{at}.operator", value, "Exists takes no value")
        else:
            yield fields.not_supported(f"{at}.operator", operator, ("Equal", "Exists"))
        yield from rules.errors(_TOLERATION, toleration, at)


def _spread(constraints: list[Object], path: str) -> Errors:
    pairs = [(each.get("topologyKey", ""), each.get("whenUnsatisfiable", "")) for each in constraints]
    # It is the first of two that is told of.
    again = {len(pairs) - 1 - index for index in fields.repeated(reversed(pairs))}
    for index, constraint in enumerate(constraints):
        at = f"{path}[{index}]"
        key, action = constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")
        yield from rules.errors(_SPREAD, constraint, at)
        if index in again:
            yield fields.duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        domains = constraint.get("minDomains")
        yield from rules.errors(_DOMAINS, constraint, at)
        if domains is not None and action != "DoNotSchedule":
            yield fields.invalid(f"{at}.minDomains", domains, "goes with whenUnsatisfiable: DoNotSchedule only")
        yield from rules.errors(_INCLUSION, constraint, at)
        yield from _label_keys(constraint, at)
        if (selector := constraint.get("labelSelector")) is not None:
            yield from selectors.validate(selector, f"{at}.labelSelector")


def merge_label_keys(pod: Object) -> None:
    """Turn matchLabelKeys into expressions with the pod's own labels, once, when it is created."""
    labels = pod["metadata"].get("labels") or {}
    spec = pod["spec"]
    terms = list(spec.get("topologySpreadConstraints") or ())
    for name in ("podAffinity", "podAntiAffinity"):
        pods = (spec.get("affinity") or {}).get(name) or {}
        terms.extend(pods.get(REQUIRED) or ())
        terms.extend(term["podAffinityTerm"] for term in pods.get(PREFERRED) or () if "podAffinityTerm" in term)
    for term in terms:
        selector = term.get("labelSelector")
        if selector is None:
            continue
        for keys, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
            for key in term.get(keys) or ():
                if key in labels:
                    expression = {"key": key, "operator": operator, "values": [labels[key]]}
                    selector.setdefault("matchExpressions", []).append(expression)
