"""Kinds that are only stored: the rules of theirs that are more than a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy

from localpv.api import fields, names, node_selector
from localpv.api.fields import FieldError
from localpv.api.objects import Object
from localpv.api.quantity import Quantity
from localpv.engine.apiserver.kinds import job, pod_resources, pod_scheduling, pod_spec, storageclass
from localpv.engine.apiserver.kinds import workload_common as common
from localpv.engine.apiserver.kinds.checks import ZERO, read_amount
from localpv.engine.apiserver.kinds.volume_sources import csi_driver_name

_NAMED = ("@annually", "@daily", "@hourly", "@midnight", "@monthly", "@weekly", "@yearly")
_MONTHS = dict(
    zip(("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), range(1, 13), strict=True)
)
_DAYS = dict(zip(("sun", "mon", "tue", "wed", "thu", "fri", "sat"), range(7), strict=True))
_FIELDS: tuple[tuple[str, int, int, Mapping[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of the month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 6, _DAYS),
)
_IS_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?(?:ns|us|µs|ms|s|m|h))+").fullmatch
_IS_ZONE_PART = re.compile(r"[A-Za-z._0-9+][A-Za-z.\-_0-9+]{0,13}").fullmatch
_LONGEST = 1024


def wrong_schedule(schedule: str) -> str:
    """What is wrong with a schedule; empty when nothing is."""
    if "TZ" in schedule:
        return "a time zone goes into timeZone"
    if len(schedule) > _LONGEST:
        return f"must be no more than {_LONGEST} characters"
    if schedule.startswith("@"):
        every = schedule.removeprefix("@every ")
        return "" if schedule in _NAMED or (every != schedule and _IS_DURATION(every)) else "is no known shorthand"
    words = schedule.split()
    if len(words) != len(_FIELDS):
        return f"must have five fields, not {len(words)}"
    for word, (name, least, most, known) in zip(words, _FIELDS, strict=True):
        if not all(_is_range(part, least, most, known) for part in word.split(",") if part):
            return f"{word[:40]} is no {name}: numbers from {least} to {most}, ranges such as 1-5, steps such as */2"
    return ""


def _is_range(text: str, least: int, most: int, known: Mapping[str, int]) -> bool:
    span, slash, step = text.partition("/")
    if slash and not (step.isdecimal() and step.isascii() and int(step[:9]) > 0):
        return False
    if span in ("*", "?"):
        return True
    first, dash, last = span.partition("-")
    low = _number(first, known)
    high = _number(last, known) if dash else low
    return low is not None and high is not None and least <= low <= high <= most


def _number(text: str, known: Mapping[str, int]) -> int | None:
    if text.isdecimal() and text.isascii():
        return int(text[:9])
    return known.get(text.lower())


def wrong_zone(zone: str) -> str:
    """What is wrong with the name of a time zone; that it has the form of one is enough here."""
    if not zone:
        return "must be the name of a time zone, or be left out"
    if zone.lower() == "local":
        return "must be the name of a time zone, such as Europe/Oslo"
    if not all(_IS_ZONE_PART(part) and part not in (".", "..") for part in zone.split("/")):
        return "must be the name of a time zone, such as Europe/Oslo"
    return ""


Errors = Iterator[FieldError]

QUOTA_RESOURCES = frozenset(
    {
        *("cpu", "memory", "ephemeral-storage", "pods", "services", "replicationcontrollers", "resourcequotas"),
        *("secrets", "configmaps", "persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
        *("requests.cpu", "requests.memory", "requests.storage", "requests.ephemeral-storage"),
        *("limits.cpu", "limits.memory", "limits.ephemeral-storage"),
    }
)
COUNTED = frozenset(
    {
        *("pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps"),
        *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
    }
)
SCOPES = (
    *("BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating"),
    "VolumeAttributesClass",
)


def limit_types(item: Object, path: str) -> Errors:
    kind = item.get("type", "")
    if kind not in ("Container", "Pod", "PersistentVolumeClaim") and ("/" not in kind or names.qualified_name(kind)):
        yield fields.invalid(f"{path}.type", kind, "must be Container, Pod, PersistentVolumeClaim or have a domain")
    if kind == "Pod":
        for key in ("default", "defaultRequest"):
            if item.get(key):
                yield fields.forbidden(f"{path}.{key}", "does not go with type Pod")
    if kind == "PersistentVolumeClaim" and not any("storage" in (item.get(key) or {}) for key in ("min", "max")):
        yield fields.required(f"{path}.limits", "min or max of storage is needed")
    for low, high, told in _ORDER:
        for name, amount in (item.get(low) or {}).items():
            limit = (item.get(high) or {}).get(name)
            if limit is not None and read_amount(amount) > read_amount(limit):
                yield fields.invalid(f"{path}.{told}[{name}]", amount, f"{low} cannot be more than {high}")
    for name, ratio in (item.get("maxLimitRequestRatio") or {}).items():
        if read_amount(ratio) < _ONE:
            yield fields.invalid(f"{path}.maxLimitRequestRatio[{name}]", ratio, "must be 1 or more")


_ONE = Quantity.parse(1)
_ORDER = (
    ("min", "max", "min"),
    ("min", "defaultRequest", "defaultRequest"),
    ("min", "default", "default"),
    ("defaultRequest", "max", "defaultRequest"),
    ("defaultRequest", "default", "defaultRequest"),
    ("default", "max", "default"),
)
"""What may not be more than what, and where that is told."""


def complete_limits(item: Object) -> None:
    """Limits of containers follow from each other: the default from the largest, the request from the default."""
    if item.get("type") != "Container":
        return
    limits = {**(item.get("max") or {}), **(item.get("default") or {})}
    requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
    for key, amounts in (("default", limits), ("defaultRequest", requests)):
        if amounts:
            item[key] = amounts


def quota(spec: Object, path: str) -> Errors:
    yield from _amounts(spec.get("hard") or {}, f"{path}.hard")
    scopes = spec.get("scopes") or []
    # The first is enough: each is told with the whole list.
    unknown = next((scope for scope in scopes if scope not in SCOPES), None)
    if unknown is not None:
        yield fields.invalid(f"{path}.scopes", scopes, f"{unknown} is no scope")
    for one in ("BestEffort", "Terminating"):
        if one in scopes and f"Not{one}" in scopes:
            yield fields.invalid(f"{path}.scopes", scopes, f"{one} and Not{one} exclude each other")


def quota_status(status: Object, path: str) -> Errors:
    for key in ("hard", "used"):
        yield from _amounts(status.get(key) or {}, f"{path}.{key}")


def _amounts(amounts: Object, path: str) -> Errors:
    for name, amount in amounts.items():
        here = f"{path}[{name}]"
        yield from fields.malformed(here, name, names.qualified_name(name))
        if (
            "/" not in name
            and name not in QUOTA_RESOURCES
            and not name.startswith(("hugepages-", "requests.hugepages-"))
        ):
            yield fields.invalid(here, name, "is no resource that a quota can be about, and has no domain")
        value = read_amount(amount)
        if value < ZERO:
            yield fields.invalid(here, amount, "must be greater than or equal to 0")
        if name in COUNTED and not pod_resources.is_whole(value):
            yield fields.invalid(here, amount, "must be a whole number")


HIGHEST_PRIORITY = 1_000_000_000
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
LONGEST_CRON_NAME = 52
"""A Job gets the name and eleven more characters, and its pods have at most 63."""


def driver(text: str) -> list[str]:
    return [error.message for error in csi_driver_name(text, "")]


def pool(text: str) -> list[str]:
    return [sentence for part in text.split("/") for sentence in names.dns_subdomain(part)]


def budget(spec: Object, path: str) -> Errors:
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield fields.invalid(path, spec, "minAvailable and maxUnavailable exclude each other")
    for key in ("minAvailable", "maxUnavailable"):
        if key in spec:
            yield from common.wrong_share(spec[key], f"{path}.{key}")


def _replicas(spec: Object, path: str) -> Errors:
    least, most = spec.get("minReplicas", 1), spec.get("maxReplicas", 0)
    if most < 1:
        yield fields.invalid(f"{path}.maxReplicas", most, "must be greater than or equal to 1")
    if most < least:
        yield fields.invalid(f"{path}.maxReplicas", most, "must be greater than or equal to minReplicas")


def scaled(spec: Object, path: str) -> Errors:
    yield from _replicas(spec, path)
    version = (spec.get("scaleTargetRef") or {}).get("apiVersion", "")
    if "/" not in version:
        yield fields.invalid(f"{path}.scaleTargetRef.apiVersion", version, "must name a group and a version")
    measured = {metric.get("type") for metric in spec.get("metrics") or ()}
    if spec.get("minReplicas") == 0 and not measured & {"External", "Object"}:
        yield fields.forbidden(f"{path}.metrics", "to scale to 0 takes a metric of something other than the pods")


def complete_scaling(spec: Object) -> None:
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    if (behavior := spec.get("behavior")) is None:
        return
    percent, pods = ({"type": kind, "value": value, "periodSeconds": 15} for kind, value in _STEPS)
    up, down = behavior.setdefault("scaleUp", {}), behavior.setdefault("scaleDown", {})
    up.setdefault("stabilizationWindowSeconds", 0)
    up.setdefault("policies", [pods, percent])
    down.setdefault("policies", [dict(percent)])
    for direction in (up, down):
        direction.setdefault("selectPolicy", "Max")


_STEPS = (("Percent", 100), ("Pods", 4))


def target(target: Object, path: str) -> Errors:
    kind = target.get("type", "")
    if not kind:
        yield fields.required(f"{path}.type")
    if kind not in ("Utilization", "Value", "AverageValue"):
        yield fields.invalid(f"{path}.type", kind, "must be Utilization, Value or AverageValue")
    for key in ("value", "averageValue"):
        if key in target and read_amount(target[key]) <= ZERO:
            yield fields.invalid(f"{path}.{key}", target[key], "must be positive")


def measured(*choices: str) -> Callable[[Object, str], Errors]:
    """One of several measures in the target; the last is what is missing when there is none."""

    def check(source: Object, path: str) -> Errors:
        target = source.get("target") or {}
        present = [key for key in choices if key in target]
        if not present:
            yield fields.required(f"{path}.target.{choices[-1]}", f"one of {', '.join(choices)} is needed")

    return check


def queuing(queuing: Object, path: str) -> Errors:
    hand, queues = queuing.get("handSize", 0), queuing.get("queues", 0)
    if hand > queues:
        yield fields.invalid(f"{path}.handSize", hand, "cannot be more than queues")


def flow_rule(rule: Object, path: str) -> Errors:
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        yield fields.required(path, "resourceRules or nonResourceRules are needed")


def flow_resources(rule: Object, path: str) -> Errors:
    if not rule.get("namespaces") and not rule.get("clusterScope"):
        yield fields.required(f"{path}.namespaces", "needed unless clusterScope is true")
    for key in ("verbs", "apiGroups", "resources", "namespaces"):
        yield from _alone(rule, key, path)


def flow_paths(rule: Object, path: str) -> Errors:
    for key in ("verbs", "nonResourceURLs"):
        yield from _alone(rule, key, path)


def _alone(rule: Object, key: str, path: str) -> Errors:
    values = rule.get(key) or []
    if "*" in values and len(values) > 1:
        yield fields.invalid(f"{path}.{key}", values, "* stands alone")


def count(request: Object, path: str) -> Errors:
    mode, count = request.get("allocationMode"), request.get("count", 0)
    if mode == "All" and count:
        yield fields.invalid(f"{path}.count", count, "does not go with allocationMode All")
    elif mode == "ExactCount" and count < 1:
        yield fields.invalid(f"{path}.count", count, "must be greater than or equal to 1")


def named(entry: Object, path: str) -> Errors:
    yield from fields.malformed(f"{path}.name", entry.get("name", ""), names.dns_label(entry.get("name", "")))


def named_request(request: Object, path: str) -> Errors:
    yield from named(request, path)
    yield from count(request, path)


def complete_request(request: Object) -> None:
    if request.get("allocationMode") == "ExactCount" and not request.get("count"):
        request["count"] = 1


def on_nodes(spec: Object, path: str) -> Errors:
    choices = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
    present = [key for key in choices if spec.get(key) not in (None, "", False)]
    if not present:
        yield fields.required(path, f"exactly one of {', '.join(choices)} is needed")
    elif len(present) > 1:
        yield fields.invalid(path, present, f"only one of {', '.join(choices)} can be there")
    if "devices" in spec and "sharedCounters" in spec:
        yield fields.invalid(path, "", "devices and sharedCounters exclude each other")
    if (selector := spec.get("nodeSelector")) is not None:
        yield from node_selector.validate(selector, f"{path}.nodeSelector")
        if len(terms := selector.get("nodeSelectorTerms") or ()) != 1:
            yield fields.invalid(f"{path}.nodeSelector.nodeSelectorTerms", terms, "must be exactly one")


def cron_spec(spec: Object, path: str) -> Errors:
    schedule = spec.get("schedule", "")
    if schedule and (problem := wrong_schedule(schedule)):
        yield fields.invalid(f"{path}.schedule", schedule, problem)
    if "timeZone" in spec and (problem := wrong_zone(spec["timeZone"])):
        yield fields.invalid(f"{path}.timeZone", spec["timeZone"], problem)
    wanted: Object = {"metadata": {}, "spec": deepcopy((spec.get("jobTemplate") or {}).get("spec") or {})}
    job.Job().default(wanted)
    for error in job.wrong_spec(wanted["spec"]):
        yield FieldError(f"{path}.jobTemplate.{error.field}", error.reason, error.message)


def complete_cron(spec: Object) -> None:
    template = spec.setdefault("jobTemplate", {})
    template.setdefault("metadata", {})
    inner = template.setdefault("spec", {})
    pod_spec.default_template(inner.setdefault("template", {}))


def cron_job(obj: Object) -> Errors:
    name = obj["metadata"].get("name", "")
    if len(name) > LONGEST_CRON_NAME:
        yield fields.invalid("metadata.name", name, f"must be no more than {LONGEST_CRON_NAME} characters")


def priority_class(obj: Object) -> Errors:
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    if name.startswith("system-"):
        if SYSTEM_PRIORITIES.get(name) != value or obj.get("globalDefault"):
            yield fields.forbidden("metadata.name", "names that begin with system- are those of Kubernetes")
    elif value > HIGHEST_PRIORITY:
        yield fields.forbidden("value", f"can be at most {HIGHEST_PRIORITY}")


def runtime_class(obj: Object) -> Errors:
    yield from fields.malformed("handler", obj.get("handler", ""), names.dns_label(obj.get("handler", "")))
    scheduling = obj.get("scheduling") or {}
    yield from names.validate_labels(scheduling.get("nodeSelector") or {}, "scheduling.nodeSelector")
    yield from pod_scheduling.toleration_errors(scheduling.get("tolerations") or [], "scheduling.tolerations")


def attributes(obj: Object) -> Errors:
    if obj.get("driverName"):
        yield from fields.malformed(
            "driverName", obj["driverName"], names.qualified_name(obj.get("driverName", "").lower())
        )
    if not obj.get("parameters"):
        yield fields.required("parameters")
    yield from storageclass.wrong_parameters(obj.get("parameters") or {})


def flow_schema(obj: Object) -> Errors:
    if obj["spec"].get("matchingPrecedence") == 1 and obj["metadata"].get("name") != "exempt":
        yield fields.invalid("spec.matchingPrecedence", 1, "is that of the schema exempt")


def level(obj: Object) -> Errors:
    kind = obj["spec"].get("type")
    if (obj["metadata"].get("name") == "exempt") != (kind == "Exempt"):
        yield fields.invalid("spec.type", kind, "is Exempt for the level exempt, and for no other")
