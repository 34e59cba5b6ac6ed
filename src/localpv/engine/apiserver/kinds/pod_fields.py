"""Fields of a pod and resources of a container that its own processes may read as variables or files."""

from __future__ import annotations

from collections.abc import Iterator

from localpv.api import fields, names, quantity
from localpv.api.fields import FieldError
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds.volume_access import ZERO, read_amount

Errors = Iterator[FieldError]

IN_VARIABLES = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
IN_FILES = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_KNOWN = frozenset(IN_VARIABLES + IN_FILES + ("spec.restartPolicy", "spec.schedulerName", "status.phase"))

RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_CPU_DIVISORS = frozenset({"1", "1m"})
_BYTE_DIVISORS = frozenset({"1"} | {f"1{unit}{binary}" for unit in "KMGTPE" for binary in ("", "i")} - {"1K"} | {"1k"})


def field_ref(reference: Object, path: str, allowed: tuple[str, ...]) -> Errors:
    """A field of the pod: by its path, or one label or annotation by its key."""
    version, field = reference.get("apiVersion", ""), reference.get("fieldPath", "")
    if not version:
        yield fields.required(f"{path}.apiVersion")
        return
    if not field:
        yield fields.required(f"{path}.fieldPath")
        return
    if version != "v1":
        yield fields.invalid(f"{path}.fieldPath", field, f"there is no pod in version {version}")
        return
    parent, subscript, key = field.partition("['")
    if parent and subscript and key.endswith("']"):
        key = key.removesuffix("']")
        if parent not in ("metadata.annotations", "metadata.labels"):
            yield fields.invalid(f"{path}.fieldPath", field, "only labels and annotations can be picked by key")
            return
        for sentence in names.qualified_name(key.lower() if parent == "metadata.annotations" else key):
            yield fields.invalid(path, key, sentence)
    elif field not in _KNOWN:
        yield fields.invalid(f"{path}.fieldPath", field, "this field of a pod cannot be read from inside")
    elif field not in allowed:
        yield fields.not_supported(f"{path}.fieldPath", field, allowed)


def resource_ref(reference: Object, path: str, *, in_volume: bool) -> Errors:
    """What a container asked for or is limited to. A file in a volume must say which container."""
    resource = reference.get("resource", "")
    if in_volume and not reference.get("containerName"):
        yield fields.required(f"{path}.containerName")
    elif not resource:
        yield fields.required(f"{path}.resource")
    elif resource not in RESOURCES and not resource.startswith(_HUGE_PAGES):
        yield fields.not_supported(f"{path}.resource", resource, RESOURCES)
    divisor = reference.get("divisor")
    if divisor is None or read_amount(divisor) == ZERO:
        return
    if resource in RESOURCES or resource.startswith(_HUGE_PAGES):
        allowed = _CPU_DIVISORS if resource.endswith(".cpu") else _BYTE_DIVISORS
        if quantity.canonical(divisor) not in allowed:
            yield fields.invalid(f"{path}.divisor", resource, f"must be one of {', '.join(sorted(allowed))}")
