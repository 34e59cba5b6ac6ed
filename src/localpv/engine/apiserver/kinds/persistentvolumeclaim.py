"""PersistentVolumeClaim: a wish for storage, and once bound the volume that fulfils it."""

from __future__ import annotations

from collections.abc import Iterator

from localpv.api import fields, names, quantity, selectors, well_known
from localpv.api.fields import FieldError, FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import checks, rules
from localpv.engine.apiserver.kinds.base import StatusStrategy
from localpv.engine.apiserver.kinds.checks import ZERO, read_amount
from localpv.engine.apiserver.kinds.rules import Field

Errors = Iterator[FieldError]

RESIZE_STATES = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)

_SPEC = (
    Field("storageClassName", form=names.dns_subdomain, may_be_empty=True),
    Field("volumeAttributesClassName", form=names.dns_subdomain, may_be_empty=True),
    Field("volumeMode", enum=checks.VOLUME_MODES),
)
_DATA_SOURCE = (Field("name", required=True), Field("kind", required=True))
_DATA_SOURCE_PLACE = (
    Field("apiGroup", form=names.dns_subdomain, may_be_empty=True),
    Field("namespace", form=names.dns_label, may_be_empty=True),
)


class PersistentVolumeClaim(StatusStrategy):
    returns_deleted = True
    generation = False

    def default(self, obj: Object) -> None:
        default_spec(obj.setdefault("spec", {}))
        status = obj.setdefault("status", {})
        if not status.get("phase"):
            status["phase"] = "Pending"

    def prepare_for_create(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending"}
        _settle_data_source(obj["spec"], {})

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        super().prepare_for_update(obj, old)
        _settle_data_source(obj["spec"], old.get("spec", {}))

    def validate(self, obj: Object) -> FieldErrors:
        return validate_spec(obj["spec"], "spec")

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        return list(_changes(obj, old))

    def validate_status_update(self, obj: Object, old: Object) -> FieldErrors:
        return list(_status_errors(obj))

    def warnings(self, obj: Object) -> list[str]:
        found = list(spec_warnings(obj["spec"], "spec"))
        if well_known.BETA_STORAGE_CLASS in obj["metadata"].get("annotations", {}):
            where = f"metadata.annotations[{well_known.BETA_STORAGE_CLASS}]"
            found.insert(0, f"{where}: deprecated; use spec.storageClassName instead")
        return found


def default_spec(spec: Object) -> None:
    """Also for the claims that are written into pods and stateful sets."""
    for amounts in spec.setdefault("resources", {}).values():
        checks.round_up(amounts)
    if "volumeMode" not in spec:
        spec["volumeMode"] = "Filesystem"


def validate_spec(spec: Object, path: str) -> FieldErrors:
    """What is wrong with the spec of a claim, here or written into a pod or a stateful set."""
    return list(_spec_errors(spec, path))


def _spec_errors(spec: Object, path: str) -> Errors:
    modes = spec.get("accessModes")
    if not modes:
        yield fields.required(f"{path}.accessModes", "name at least one")
    else:
        yield from checks.access_modes(modes, f"{path}.accessModes")
    if (selector := spec.get("selector")) is not None:
        yield from selectors.validate(selector, f"{path}.selector")

    # Kubernetes names the field by the resource and leaves `requests` out.
    asked = requests(spec).get("storage")
    if asked is None:
        yield fields.required(f"{path}.resources[storage]", "say how much storage in resources.requests.storage")
    else:
        yield from checks.positive(asked, f"{path}.resources[storage]")

    yield from rules.errors(_SPEC, spec, path)
    yield from _data_sources(spec, path)


def requests(spec: Object) -> Object:
    found: Object = (spec.get("resources") or {}).get("requests") or {}
    return found


# What a new volume is filled with: dataSource is the old field for claims and snapshots, dataSourceRef the new one
# for anything. Both say the same unless the reference leaves the namespace, which only the new one can.


def _settle_data_source(spec: Object, old: Object) -> None:
    reference = spec.get("dataSourceRef")
    if reference is not None and reference.get("namespace") and "dataSourceRef" not in old:
        # References into other namespaces are an alpha feature that is off.
        del spec["dataSourceRef"]
        reference = None
    source = spec.get("dataSource")
    had_one = "dataSource" in old or "dataSourceRef" in old
    if source is not None and reference is None and not had_one and not _is_claim_or_snapshot(source):
        # The old field has always ignored what it does not know.
        del spec["dataSource"]
        source = None
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif source is None and reference is not None and not reference.get("namespace"):
        spec["dataSource"] = checks.without(reference, "namespace")


def _is_claim_or_snapshot(source: Object) -> bool:
    what = (source.get("apiGroup", ""), source.get("kind", ""))
    return what in (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


def _data_sources(spec: Object, path: str) -> Errors:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    for name, value in (("dataSource", source), ("dataSourceRef", reference)):
        if value is not None:
            yield from _data_source(value, f"{path}.{name}")
    if source is None or reference is None:
        return
    if reference.get("namespace"):
        yield fields.invalid(path, "dataSource", "leave it out where dataSourceRef names a namespace")
    elif any(source.get(key) != reference.get(key) for key in ("apiGroup", "kind", "name")):
        yield fields.invalid(path, "dataSource", "must say the same as dataSourceRef")


def _data_source(value: Object, path: str) -> Errors:
    yield from rules.errors(_DATA_SOURCE, value, path)
    if not value.get("apiGroup") and value.get("kind") != "PersistentVolumeClaim":
        why = "without apiGroup only a PersistentVolumeClaim can be meant"
        yield fields.invalid(path, value.get("kind", ""), why)
    yield from rules.errors(_DATA_SOURCE_PLACE, value, path)


# Updates. A claim stays what it was, so that quotas and limits cannot be talked around; a bound one may grow.


def _changes(obj: Object, old: Object) -> Errors:
    new_spec, old_spec = obj["spec"], old["spec"]
    free = []
    if not old_spec.get("volumeName"):
        free.append("volumeName")
    new_class, old_class = new_spec.get("storageClassName"), old_spec.get("storageClassName")
    old_annotation = old["metadata"].get("annotations", {}).get(well_known.BETA_STORAGE_CLASS)
    new_annotation = obj["metadata"].get("annotations", {}).get(well_known.BETA_STORAGE_CLASS)
    if old_class is None and new_class is not None and old_annotation in (None, new_class):
        free.append("storageClassName")
    moved_to_field = old_annotation is not None and old_class is None and new_class == old_annotation
    if (new_annotation or "") != (old_annotation or "") and not (moved_to_field and new_annotation is None):
        where = f"metadata.annotations.{well_known.BETA_STORAGE_CLASS}"
        yield fields.invalid(where, new_annotation or "", "field is immutable")

    after = checks.without(new_spec, *free)
    before = checks.without(old_spec, *free)
    bound = obj.get("status", {}).get("phase") == "Bound"
    if bound:
        after, before = _without_growth(after), _without_growth(before)
    if not checks.same(after, before):
        why = "cannot change after creation, except resources.requests.storage and volumeAttributesClassName once bound"
        yield fields.forbidden("spec", why)

    yield from _size_change(obj, old)
    if new_spec.get("volumeMode") != old_spec.get("volumeMode"):
        yield fields.invalid("volumeMode", new_spec.get("volumeMode"), "field is immutable")
    applied = old.get("status", {}).get("currentVolumeAttributesClassName") is not None
    if applied and old_spec.get("volumeAttributesClassName") and not new_spec.get("volumeAttributesClassName"):
        why = "the class has been applied: it can change to another one, but not be taken away"
        yield fields.forbidden("spec.volumeAttributesClassName", why)


def _without_growth(spec: Object) -> Object:
    smaller = checks.without(spec, "volumeAttributesClassName")
    smaller["resources"] = dict(spec.get("resources") or {})
    smaller["resources"]["requests"] = checks.without(requests(spec), "storage")
    return smaller


def _size_change(obj: Object, old: Object) -> Errors:
    after, before = requests(obj["spec"]).get("storage", "0"), requests(old["spec"]).get("storage", "0")
    if after == before:
        return
    size = read_amount(after)
    if size >= read_amount(before):
        return
    # Less than before is allowed only to take back a growth that failed: never below what the volume has.
    capacity = old.get("status", {}).get("capacity", {}).get("storage")
    if size <= (read_amount(capacity) if capacity is not None else ZERO):
        yield fields.forbidden(
            "spec.resources.requests.storage", "must stay above status.capacity: volumes do not shrink"
        )


def _status_errors(obj: Object) -> Errors:
    status = obj.get("status", {})
    if not obj["spec"].get("accessModes"):
        yield fields.required("Spec.accessModes")
    for resource, amount in status.get("capacity", {}).items():
        if read_amount(amount) < ZERO:
            yield fields.invalid(f"status.capacity[{resource}]", amount, "must not be negative")
    for resource, state in status.get("allocatedResourceStatuses", {}).items():
        yield from _resource_name(resource, "status.allocatedResourceStatuses")
        if state not in RESIZE_STATES:
            yield fields.not_supported("status.allocatedResourceStatuses", resource, RESIZE_STATES)
    for resource, amount in status.get("allocatedResources", {}).items():
        wrong = list(_resource_name(resource, "status.allocatedResources"))
        yield from wrong
        if not wrong and read_amount(amount) < ZERO:
            yield fields.invalid(f"status.allocatedResources[{resource}]", amount, "must not be negative")


def _resource_name(resource: str, path: str) -> Errors:
    wrong = names.qualified_name(resource)
    yield from fields.malformed(path, resource, wrong)
    domain = resource.rpartition("/")[0]
    if not wrong and resource != "storage" and (not domain or domain.endswith("kubernetes.io")):
        yield fields.not_supported(path, resource, ("storage",))


def spec_warnings(spec: Object, path: str) -> Iterator[str]:
    resources = spec.get("resources") or {}
    for kind in ("requests", "limits"):
        amount = (resources.get(kind) or {}).get("storage")
        if amount is not None and read_amount(amount).nanos % quantity.NANO:
            yield f"{path}.resources.{kind}[storage]: {amount} is not a whole number of bytes"
