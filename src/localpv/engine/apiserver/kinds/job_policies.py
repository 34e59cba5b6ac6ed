"""When a Job counts as failed or as done before all its pods are: checks of the two policies, and of index lists."""

from __future__ import annotations

import re
from collections.abc import Collection

from localpv.api import fields, names
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import workload_common as common

_MAX_RULES = 20
_MAX_EXIT_CODES = 255
_MAX_INDEXES_TEXT = 64 * 1024
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_STATUSES = ("False", "True", "Unknown")


class MalformedIndexes(ValueError):
    """A list of completion indexes such as `1,3-5` cannot be read."""


_IS_INDEX = re.compile(r"[0-9]{1,10}").fullmatch


def intervals(text: str, completions: int) -> list[tuple[int, int]]:
    """First and last index of each piece of `1,3-5`; they rise, and stay below the number of completions."""
    found: list[tuple[int, int]] = []
    last = -1
    for piece in text.split(",") if text else ():
        ends = piece.split("-")
        if len(ends) > 2 or any(_IS_INDEX(end) is None for end in ends):
            raise MalformedIndexes(f"{piece!r} is neither an index nor two with a dash between")
        first, final = int(ends[0]), int(ends[-1])
        if first <= last or (len(ends) == 2 and final <= first):
            raise MalformedIndexes(f"the indexes do not rise at {piece!r}")
        if final >= completions:
            raise MalformedIndexes(f"{final} is not below the number of completions")
        found.append((first, final))
        last = final
    return found


def validate(spec: Object) -> FieldErrors:
    errors: FieldErrors = []
    failure, success = spec.get("podFailurePolicy"), spec.get("successPolicy")
    if failure is not None:
        errors += _wrong_failure_policy(failure, spec, "spec.podFailurePolicy.rules")
    if success is not None:
        if spec["completionMode"] != "Indexed":
            errors.append(fields.invalid("spec.successPolicy", success, "needs completionMode Indexed"))
        else:
            errors += _wrong_success_policy(success, spec, "spec.successPolicy.rules")
    replacement = spec["podReplacementPolicy"]
    allowed = ("Failed",) if failure is not None else ("Failed", "TerminatingOrFailed")
    if replacement not in allowed:
        errors.append(fields.not_supported("spec.podReplacementPolicy", replacement, allowed))
    return errors


def _wrong_failure_policy(policy: Object, spec: Object, path: str) -> FieldErrors:
    rules = policy.get("rules", ())
    errors: FieldErrors = []
    if len(rules) > _MAX_RULES:
        errors.append(fields.too_many(path, len(rules), _MAX_RULES))
    pod = spec["template"]["spec"]
    containers = {container.get("name") for key in ("containers", "initContainers") for container in pod.get(key, ())}
    for index, rule in enumerate(rules):
        errors += _wrong_failure_rule(rule, f"{path}[{index}]", containers, "backoffLimitPerIndex" in spec)
    return errors


def _wrong_failure_rule(rule: Object, path: str, containers: Collection[str], per_index: bool) -> FieldErrors:
    errors: FieldErrors = []
    action, codes, conditions = rule.get("action", ""), rule.get("onExitCodes"), rule.get("onPodConditions", ())
    if not action:
        errors.append(fields.required(f"{path}.action", f"one of {', '.join(_ACTIONS)}"))
    elif action == "FailIndex" and not per_index:
        errors.append(fields.invalid(f"{path}.action", action, "needs backoffLimitPerIndex"))
    elif action not in _ACTIONS:
        errors.append(fields.not_supported(f"{path}.action", action, _ACTIONS))
    if codes is not None:
        errors += _wrong_exit_codes(codes, f"{path}.onExitCodes", containers)
    if len(conditions) > _MAX_RULES:
        errors.append(fields.too_many(f"{path}.onPodConditions", len(conditions), _MAX_RULES))
    for index, pattern in enumerate(conditions):
        where, kind = f"{path}.onPodConditions[{index}]", pattern.get("type", "")
        errors += [fields.invalid(f"{where}.type", kind, problem) for problem in names.qualified_name(kind)]
        if pattern["status"] not in _STATUSES:
            errors.append(fields.not_supported(f"{where}.status", pattern["status"], _STATUSES))
    if (codes is not None) == bool(conditions):
        errors.append(fields.invalid(path, rule, "a rule is about exit codes or about conditions: exactly one of them"))
    return errors


def _wrong_exit_codes(codes: Object, path: str, containers: Collection[str]) -> FieldErrors:
    errors = []
    operator, values = codes.get("operator", ""), codes.get("values", [])
    if not operator:
        errors.append(fields.required(f"{path}.operator", "In or NotIn"))
    elif operator not in ("In", "NotIn"):
        errors.append(fields.not_supported(f"{path}.operator", operator, ("In", "NotIn")))
    container = codes.get("containerName")
    if container is not None and container not in containers:
        errors.append(fields.invalid(f"{path}.containerName", container, "the template has no container of that name"))
    if not values:
        errors.append(fields.invalid(f"{path}.values", values, "at least one exit code is needed"))
    elif len(values) > _MAX_EXIT_CODES:
        errors.append(fields.too_many(f"{path}.values", len(values), _MAX_EXIT_CODES))
    again = fields.repeated(values)
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.append(fields.invalid(f"{path}.values[{index}]", value, "0 is no failure"))
        if index in again:
            errors.append(fields.duplicate(f"{path}.values[{index}]", value))
    if values != sorted(values):
        errors.append(fields.invalid(f"{path}.values", values, "must be in rising order"))
    return errors


def _wrong_success_policy(policy: Object, spec: Object, path: str) -> FieldErrors:
    rules = policy.get("rules", ())
    errors: FieldErrors = []
    if not rules:
        errors.append(fields.required(path, "at least one rule is needed"))
    if len(rules) > _MAX_RULES:
        errors.append(fields.too_many(path, len(rules), _MAX_RULES))
    for index, rule in enumerate(rules):
        errors += _wrong_success_rule(rule, spec.get("completions", 0), f"{path}[{index}]")
    return errors


def _wrong_success_rule(rule: Object, completions: int, path: str) -> FieldErrors:
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    errors: FieldErrors = []
    if indexes is None and count is None:
        errors.append(fields.required(path, "succeededCount or succeededIndexes is needed"))
    listed = 0
    if indexes is not None:
        if len(indexes) > _MAX_INDEXES_TEXT:
            errors.append(fields.too_long(f"{path}.succeededIndexes", _MAX_INDEXES_TEXT))
        try:
            listed = sum(last - first + 1 for first, last in intervals(indexes, completions))
        except MalformedIndexes as error:
            errors.append(fields.invalid(f"{path}.succeededIndexes", indexes, str(error)))
    if count is not None:
        errors += common.nonnegative(rule, path, "succeededCount")
        if count > completions:
            errors.append(fields.invalid(f"{path}.succeededCount", count, "cannot be more than completions"))
        if indexes is not None and count > listed:
            errors.append(fields.invalid(f"{path}.succeededCount", count, "cannot be more than the indexes listed"))
    return errors
