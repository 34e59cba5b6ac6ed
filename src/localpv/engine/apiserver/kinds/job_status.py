"""What a controller may write into the status of a Job: counters that do not go back, ends that stay ends.

A rule is only applied when what it speaks of has changed, so that a change of the spec never blocks the next status.
"""

from __future__ import annotations

import re
from itertools import pairwise

from localpv.api import fields
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import workload_common as common


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


def validate_update(obj: Object, old: Object) -> FieldErrors:
    status, before = obj.get("status", {}), old.get("status", {})
    spec = obj["spec"]
    errors = common.nonnegative(status, "status", "active", "succeeded", "failed", "ready", "terminating")
    errors += _wrong_uncounted(status.get("uncountedTerminatedPods", {}))
    errors += _wrong_conditions(status, before, spec)
    errors += _wrong_times(status, before, spec)
    errors += _wrong_end(status, before)
    errors += _wrong_indexes(status, before, spec)
    return errors + _wrong_counters(status, before, spec)


def is_true(status: Object, kind: str) -> bool:
    return any(
        condition.get("type") == kind and condition.get("status") == "True"
        for condition in status.get("conditions", ())
    )


def _is_finished(status: Object) -> bool:
    return is_true(status, "Complete") or is_true(status, "Failed")


def _changed(status: Object, before: Object, *keys: str) -> bool:
    return any(status.get(key) != before.get(key) for key in keys)


def _turned(status: Object, before: Object, *kinds: str) -> bool:
    return any(is_true(status, kind) != is_true(before, kind) for kind in kinds)


def _wrong_uncounted(pods: Object) -> FieldErrors:
    errors = []
    seen: set[str] = set()
    for key in ("succeeded", "failed"):
        for index, uid in enumerate(pods.get(key, ())):
            path = f"status.uncountedTerminatedPods.{key}[{index}]"
            if not uid:
                errors.append(fields.invalid(path, uid, "must not be empty"))
            elif uid in seen:
                errors.append(fields.duplicate(path, uid))
            seen.add(uid)
    return errors


def _wrong_conditions(status: Object, before: Object, spec: Object) -> FieldErrors:
    complete, failed = is_true(status, "Complete"), is_true(status, "Failed")
    target, met = is_true(status, "FailureTarget"), is_true(status, "SuccessCriteriaMet")
    was_complete = is_true(before, "Complete")
    problems = [
        (complete and failed and _turned(status, before, "Complete", "Failed"),
         "Complete and Failed exclude each other"),
        (complete and target and _turned(status, before, "Complete", "FailureTarget"),
         "Complete and FailureTarget exclude each other"),
        (failed and not target and (_turned(status, before, "Failed") or _changed(status, before, "failedIndexes")),
         "Failed comes only after FailureTarget"),
        (complete and not met and _turned(status, before, "Complete", "SuccessCriteriaMet"),
         "Complete comes only after SuccessCriteriaMet"),
        (met and failed, "SuccessCriteriaMet and Failed exclude each other"),
        (met and target, "SuccessCriteriaMet and FailureTarget exclude each other"),
        ("successPolicy" in spec and complete and not met,
         "a Job with a successPolicy is complete once its criteria are met"),
        (is_true(before, "SuccessCriteriaMet") and not met, "SuccessCriteriaMet cannot be taken back"),
        (was_complete and not is_true(before, "SuccessCriteriaMet") and met,
         "SuccessCriteriaMet cannot be added to a Job that is complete"),
    ]  # fmt: skip
    problems += [
        (is_true(before, kind) and not is_true(status, kind), f"{kind} cannot be taken back")
        for kind in ("Failed", "Complete", "FailureTarget")
    ]
    conditions = status.get("conditions", [])
    return [fields.invalid("status.conditions", conditions, why) for wrong, why in problems if wrong]


def _wrong_times(status: Object, before: Object, spec: Object) -> FieldErrors:
    errors: FieldErrors = []
    path = "status.completionTime"
    start, end, complete = status.get("startTime"), status.get("completionTime"), is_true(status, "Complete")
    if _turned(status, before, "Complete") or _changed(status, before, "completionTime"):
        if end and not complete:
            errors.append(fields.invalid(path, end, "belongs to a Job that is complete"))
        if complete and not end:
            errors.append(fields.required(path, "a complete Job has one"))
    # Times in one format and one zone sort as text.
    if start and end and end < start and _changed(status, before, "startTime", "completionTime"):
        errors.append(fields.invalid(path, end, "cannot be before startTime"))
    if end and before.get("completionTime") and end != before["completionTime"]:
        errors.append(fields.invalid(path, end, "field is immutable"))
    if (
        before.get("startTime")
        and start != before["startTime"]
        and not spec.get("suspend")
        and not _resumes(status, before)
    ):
        errors.append(fields.required("status.startTime", "stays as it is as long as the Job is not suspended"))
    return errors


def _resumes(status: Object, before: Object) -> bool:
    suspended = [c.get("status") for c in status.get("conditions", ()) if c.get("type") == "Suspended"]
    return is_true(before, "Suspended") and suspended == ["False"]


def _wrong_end(status: Object, before: Object) -> FieldErrors:
    """What cannot be there any more once a Job has ended."""
    if not _is_finished(status):
        return []
    ended = not _is_finished(before)
    return [
        fields.invalid(f"status.{key}", status[key], "a Job that has ended has no such pods")
        for key in ("active", "terminating")
        if status.get(key, 0) > 0 and (ended or _changed(status, before, key))
    ]


def _wrong_indexes(status: Object, before: Object, spec: Object) -> FieldErrors:
    errors: FieldErrors = []
    completions = spec.get("completions")
    done, failed = status.get("completedIndexes", ""), status.get("failedIndexes")
    if done != before.get("completedIndexes", ""):
        errors += _unreadable(done, completions, "status.completedIndexes")
        if done and spec["completionMode"] != "Indexed":
            errors.append(fields.invalid("status.completedIndexes", done, "needs completionMode Indexed"))
    if failed is not None and failed != before.get("failedIndexes"):
        if "backoffLimitPerIndex" not in spec:
            errors.append(fields.invalid("status.failedIndexes", failed, "needs backoffLimitPerIndex"))
        else:
            errors += _unreadable(failed, completions, "status.failedIndexes")
    changed = _changed(status, before, "completedIndexes", "failedIndexes")
    if completions is not None and failed and changed and _overlap(done, failed, completions):
        errors.append(fields.invalid("status.failedIndexes", failed, "has indexes that are completed as well"))
    return errors


def _unreadable(text: str, completions: int | None, path: str) -> FieldErrors:
    if completions is None:
        return []
    try:
        intervals(text, completions)
    except MalformedIndexes as error:
        return [fields.invalid(path, text, str(error))]
    return []


def _overlap(done: str, failed: str, completions: int) -> bool:
    try:
        first, second = intervals(done, completions), intervals(failed, completions)
    except MalformedIndexes:
        return False
    # Both lists rise, so one sweep over the two together meets every pair that could touch.
    merged = sorted(first + second)
    return any(left[1] >= right[0] for left, right in pairwise(merged))


def _wrong_counters(status: Object, before: Object, spec: Object) -> FieldErrors:
    errors: FieldErrors = []
    keys = ["failed"]
    # An indexed Job whose two numbers are equal can be made smaller, and then less has succeeded.
    if spec["completionMode"] != "Indexed" or spec.get("completions") != spec.get("parallelism"):
        keys.append("succeeded")
    for key in keys:
        if status.get(key, 0) < before.get(key, 0):
            errors.append(fields.invalid(f"status.{key}", status.get(key, 0), "cannot become less"))
    if _is_finished(status):
        turned = not _is_finished(before)
        suspended_empty = spec.get("suspend") and spec.get("completions") == 0
        if not status.get("startTime") and not suspended_empty and (turned or _changed(status, before, "startTime")):
            errors.append(fields.required("status.startTime", "a Job that has ended has one"))
        uncounted = status.get("uncountedTerminatedPods", {})
        if any(uncounted.values()) and (turned or _changed(status, before, "uncountedTerminatedPods")):
            why = "all pods of a Job that has ended are counted"
            errors.append(fields.invalid("status.uncountedTerminatedPods", uncounted, why))
    ready = status.get("ready")
    if ready is not None and ready > status.get("active", 0) and _changed(status, before, "ready", "active"):
        errors.append(fields.invalid("status.ready", ready, "cannot be more than active"))
    return errors
