"""Which nodes a pod or a volume may be on: the NodeSelector of node affinity.

The terms of a selector are alternatives; the requirements of a term must all hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from localpv.api import fields, names
from localpv.api.fields import FieldErrors
from localpv.api.selectors import Operator, Requirement, whole_number

_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
    "Gt": Operator.GREATER,
    "Lt": Operator.LESS,
}
_NAME = "metadata.name"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class NodeSelector:
    """A selector read once, to be asked about many nodes."""

    __slots__ = ("_terms",)

    def __init__(self, selector: Mapping[str, Any]) -> None:
        # An empty term selects no node, and so does a term that cannot be understood: better no node than a wrong one.
        read = (_term(term) for term in selector.get("nodeSelectorTerms") or () if term)
        self._terms = tuple(term for term in read if term is not None)

    def matches(self, labels: Mapping[str, str] | None, name: str = "") -> bool:
        labels = labels or {}
        for on_labels, on_name in self._terms:
            if all(requirement.matches(labels) for requirement in on_labels) and (
                not name or all((name == wanted) is equal for wanted, equal in on_name)
            ):
                return True
        return False


_Term = tuple[tuple[Requirement, ...], tuple[tuple[str, bool], ...]]


def _term(term: Mapping[str, Any]) -> _Term | None:
    expressions, on_fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not on_fields:
        return None
    if any(_wrong_expression(each, "") for each in expressions) or any(_wrong_field(each, "") for each in on_fields):
        return None
    on_labels = tuple(
        Requirement(each["key"], _OPERATORS[each["operator"]], frozenset(each.get("values") or ()))
        for each in expressions
    )
    if any(
        each.operator in (Operator.GREATER, Operator.LESS) and whole_number(next(iter(each.values))) is None
        for each in on_labels
    ):
        return None
    return on_labels, tuple((each["values"][0], each["operator"] == "In") for each in on_fields)


def validate(selector: Mapping[str, Any], path: str) -> FieldErrors:
    """What is wrong with a NodeSelector that is there."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        return [fields.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    wrong: FieldErrors = []
    for index, term in enumerate(terms):
        wrong.extend(validate_term(term, f"{path}.nodeSelectorTerms[{index}]"))
    return wrong


def validate_term(term: Mapping[str, Any], path: str) -> FieldErrors:
    """What is wrong with one term; also used alone, in preferred scheduling terms."""
    wrong: FieldErrors = []
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        wrong.extend(_wrong_expression(expression, f"{path}.matchExpressions[{index}]"))
    for index, requirement in enumerate(term.get("matchFields") or ()):
        wrong.extend(_wrong_field(requirement, f"{path}.matchFields[{index}]"))
    return wrong


def _wrong_expression(expression: Mapping[str, Any], path: str) -> FieldErrors:
    wrong: FieldErrors = []
    key, operator = expression.get("key", ""), expression.get("operator", "")
    values = expression.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            wrong.append(fields.required(f"{path}.values", "In and NotIn need at least one value"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            wrong.append(fields.forbidden(f"{path}.values", "Exists and DoesNotExist take no values"))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            wrong.append(fields.required(f"{path}.values", "Gt and Lt need exactly one value"))
    else:
        wrong.append(fields.invalid(f"{path}.operator", operator, f"must be one of {', '.join(_OPERATORS)}"))
    wrong.extend(fields.invalid(f"{path}.key", key, sentence) for sentence in names.qualified_name(key))
    for index, value in enumerate(values):
        wrong.extend(fields.invalid(f"{path}.values[{index}]", value, each) for each in names.label_value(value))
    return wrong


def _wrong_field(requirement: Mapping[str, Any], path: str) -> FieldErrors:
    wrong: FieldErrors = []
    key, operator = requirement.get("key", ""), requirement.get("operator", "")
    values = requirement.get("values") or []
    if operator not in ("In", "NotIn"):
        wrong.append(fields.invalid(f"{path}.operator", operator, "must be In or NotIn for a field of the node"))
    elif len(values) != 1:
        wrong.append(fields.required(f"{path}.values", "In and NotIn need exactly one value for a field of the node"))
    if key != _NAME:
        wrong.append(fields.invalid(f"{path}.key", key, f"{_NAME} is the only field of a node that can be selected by"))
    else:
        for index, value in enumerate(values):
            wrong.extend(fields.invalid(f"{path}.values[{index}]", value, each) for each in names.dns_subdomain(value))
    return wrong
