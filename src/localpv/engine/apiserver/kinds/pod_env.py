"""Environment variables of a container and where their values come from."""

from __future__ import annotations

from collections.abc import Iterator

from localpv.api import fields, names, quantity
from localpv.api.fields import FieldError
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import checks, rules
from localpv.engine.apiserver.kinds.checks import ZERO, no_backsteps, read_amount
from localpv.engine.apiserver.kinds.rules import Field

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
        yield from fields.malformed(
            path, key, names.qualified_name(key.lower() if parent == "metadata.annotations" else key)
        )
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


_VARIABLE = (Field("name", required=True, form=checks.variable),)
_KEY = (Field("name", form=names.dns_subdomain, unset=""), Field("key", required=True, form=names.config_map_key))
_FILE_KEY = (
    Field("key", required=True, form=checks.variable),
    Field("volumeName", required=True, form=names.dns_label),
    Field("path", required=True),
)
_PREFIX = (Field("prefix", form=checks.variable, may_be_empty=True),)
_NAMED = (Field("name", required=True, form=names.dns_subdomain),)
SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def errors(container: Object, path: str) -> Errors:
    for index, variable in enumerate(container.get("env") or ()):
        at = f"{path}.env[{index}]"
        yield from rules.errors(_VARIABLE, variable, at)
        if (source := variable.get("valueFrom")) is not None:
            yield from _value_from(source, f"{at}.valueFrom", has_value=bool(variable.get("value")))
    for index, source in enumerate(container.get("envFrom") or ()):
        yield from _from(source, f"{path}.envFrom", index)


def _value_from(source: Object, path: str, *, has_value: bool) -> Errors:
    if (field := source.get("fieldRef")) is not None:
        yield from field_ref(field, f"{path}.fieldRef", IN_VARIABLES)
    if (resource := source.get("resourceFieldRef")) is not None:
        yield from resource_ref(resource, f"{path}.resourceFieldRef", in_volume=False)
    for name in ("configMapKeyRef", "secretKeyRef"):
        if (key := source.get(name)) is not None:
            yield from rules.errors(_KEY, key, f"{path}.{name}")
    if (file := source.get("fileKeyRef")) is not None:
        yield from rules.errors(_FILE_KEY, file, f"{path}.fileKeyRef")
        yield from no_backsteps(file.get("path", ""), f"{path}.fileKeyRef.path")
    given = sum(name in source for name in SOURCES)
    if not given:
        yield fields.invalid(path, "", f"needs one of {', '.join(SOURCES)}")
    elif has_value:
        yield fields.invalid(path, "", "a variable with a value takes it from nowhere else")
    elif given > 1:
        yield fields.invalid(path, "", "a variable takes its value from one place")


def _from(source: Object, path: str, index: int) -> Errors:
    at = f"{path}[{index}]"
    yield from rules.errors(_PREFIX, source, at)
    given = [name for name in ("configMapRef", "secretRef") if name in source]
    for name in given:
        yield from rules.errors(_NAMED, source[name], f"{at}.{name}")
    if len(given) != 1:
        yield fields.invalid(path, "", "needs one of configMapRef and secretRef")


def file_volume_errors(container: Object, path: str, volumes: dict[str, Object]) -> Errors:
    """Files with variables are written by a container before, so they lie in an emptyDir."""
    for index, variable in enumerate(container.get("env") or ()):
        file = (variable.get("valueFrom") or {}).get("fileKeyRef")
        if file is None:
            continue
        at, name = f"{path}.env[{index}].valueFrom.fileKeyRef.volumeName", file.get("volumeName", "")
        if name not in volumes:
            yield fields.not_found(at, name)
        elif "emptyDir" not in volumes[name]:
            yield fields.invalid(at, name, "must be an emptyDir")
