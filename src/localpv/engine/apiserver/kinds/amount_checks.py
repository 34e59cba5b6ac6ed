"""ResourceQuotas and LimitRanges: rules that are more than a table."""

from __future__ import annotations

from collections.abc import Iterator

from localpv.api import fields, names
from localpv.api.fields import FieldError
from localpv.api.objects import Object
from localpv.api.quantity import Quantity
from localpv.engine.apiserver.kinds import pod_resources
from localpv.engine.apiserver.kinds.volume_access import ZERO, read_amount

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
        for sentence in names.qualified_name(name):
            yield fields.invalid(here, name, sentence)
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
