"""What CSI drivers keep in the API: CSIDrivers, CSINodes, CSIStorageCapacities, VolumeAttachments."""

from __future__ import annotations

from collections.abc import Iterator

from localpv.api import fields, names, selectors
from localpv.api.fields import FieldError, FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import checks, node, persistentvolume, rules, volume_sources
from localpv.engine.apiserver.kinds.base import StatusStrategy, Strategy
from localpv.engine.apiserver.kinds.checks import ZERO, read_amount
from localpv.engine.apiserver.kinds.rules import Field

Errors = Iterator[FieldError]

GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
LIFECYCLE_MODES = ("Persistent", "Ephemeral")
MIN_TOKEN_SECONDS = 600
MAX_TOKEN_SECONDS = 2**32
MIN_UPDATE_PERIOD_SECONDS = 10
MAX_NODE_ID = 256

_DRIVER = (Field("fsGroupPolicy", enum=GROUP_POLICIES),)
_TOKEN_RANGE = "must be from 10 minutes to 2^32 seconds"
_TOKEN = (Field("expirationSeconds", least=MIN_TOKEN_SECONDS, most=MAX_TOKEN_SECONDS, said=_TOKEN_RANGE),)
_PERIOD = (Field("nodeAllocatableUpdatePeriodSeconds", least=MIN_UPDATE_PERIOD_SECONDS, said="must be 10 or more"),)
_ALLOCATABLE = (Field("count", least=0),)
_CAPACITY = (Field("storageClassName", form=names.dns_subdomain, unset=""),)
_ATTACHMENT = (Field("nodeName", form=names.dns_subdomain, unset=""),)
_ATTACH_ERROR = (Field("errorCode", least=0),)


class CSIDriver(Strategy):
    returns_deleted = True
    unconditional_update = False

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("attachRequired", True)
        spec.setdefault("podInfoOnMount", False)
        spec.setdefault("storageCapacity", False)
        spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
        spec.setdefault("requiresRepublish", False)
        spec.setdefault("seLinuxMount", False)
        if not spec.get("volumeLifecycleModes"):
            spec["volumeLifecycleModes"] = ["Persistent"]
        for token in spec.get("tokenRequests") or ():
            token.setdefault("audience", "")

    def validate(self, obj: Object) -> FieldErrors:
        return list(_driver_errors(obj["spec"]))

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        # Kubernetes spells the first field so.
        fixed = (("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes"))
        return [
            fields.invalid(f"spec.{shown}", obj["spec"].get(name), "field is immutable")
            for name, shown in fixed
            if obj["spec"].get(name) != old["spec"].get(name)
        ]

    def warnings(self, obj: Object) -> list[str]:
        spec = obj["spec"]
        if spec.get("tokenRequests") and "serviceAccountTokenInSecrets" not in spec:
            return ["spec.tokenRequests: set serviceAccountTokenInSecrets too, so that tokens travel as secrets"]
        return []


def _driver_errors(spec: Object) -> Errors:
    yield from rules.errors(_DRIVER, spec, "spec")
    for mode in spec["volumeLifecycleModes"]:
        if mode not in LIFECYCLE_MODES:
            yield fields.not_supported("spec.volumeLifecycleModes", mode, LIFECYCLE_MODES)
    tokens = spec.get("tokenRequests") or []
    audiences: set[str] = set()
    for index, token in enumerate(tokens):
        path, audience = f"spec.tokenRequests[{index}]", token.get("audience", "")
        if audience in audiences:
            yield fields.duplicate(f"{path}.audience", audience)
            continue
        audiences.add(audience)
        yield from rules.errors(_TOKEN, token, path)
    yield from rules.errors(_PERIOD, spec, "spec")
    if "serviceAccountTokenInSecrets" in spec and not tokens:
        value = spec["serviceAccountTokenInSecrets"]
        yield fields.invalid("spec.serviceAccountTokenInSecrets", value, "means nothing without tokenRequests")


class CSINode(Strategy):
    returns_deleted = True
    unconditional_update = False
    generation = False

    def default(self, obj: Object) -> None:
        # The list is always there, so that drivers can be added to it by JSON patch.
        obj.setdefault("spec", {}).setdefault("drivers", [])

    def validate(self, obj: Object) -> FieldErrors:
        return list(_node_errors(obj["spec"]["drivers"]))

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        before = {driver.get("name"): driver for driver in old["spec"].get("drivers") or ()}
        return [
            fields.invalid("spec.drivers", driver, "field is immutable")
            for driver in obj["spec"]["drivers"]
            if driver.get("name") in before and not _same_driver(driver, before[driver.get("name")])
        ]


def _same_driver(new: Object, old: Object) -> bool:
    # How many volumes a node takes may change while it runs.
    return checks.same(checks.without(new, "allocatable"), checks.without(old, "allocatable"))


def _node_errors(drivers: list[Object]) -> Errors:
    seen: set[str] = set()
    for index, driver in enumerate(drivers):
        path, name, node_id = f"spec.drivers[{index}]", driver.get("name", ""), driver.get("nodeID", "")
        yield from volume_sources.csi_driver_name(name, f"{path}.name")
        if not node_id:
            yield fields.required(f"{path}.nodeID")
        elif len(node_id.encode()) > MAX_NODE_ID:
            yield fields.invalid(f"{path}.nodeID", node_id, f"must be no more than {MAX_NODE_ID} characters")
        yield from rules.errors(_ALLOCATABLE, driver.get("allocatable") or {}, f"{path}.allocatable")
        if name in seen:
            yield fields.duplicate(f"{path}.name", name)
        seen.add(name)
        keys = driver.get("topologyKeys") or []
        again = fields.repeated(keys)
        for position, key in enumerate(keys):
            if not key:
                yield fields.required(path, "a topology key must not be empty")
            if position in again:
                yield fields.duplicate(path, key)
            yield from fields.malformed(path, key, names.qualified_name(key))


class CSIStorageCapacity(Strategy):
    unconditional_update = False
    generation = False

    def validate(self, obj: Object) -> FieldErrors:
        return list(_capacity_errors(obj))

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        return [
            fields.invalid(name, obj.get(name), "field is immutable")
            for name in ("nodeTopology", "storageClassName")
            if not checks.same(obj.get(name), old.get(name))
        ]

    def warnings(self, obj: Object) -> list[str]:
        topology = obj.get("nodeTopology") or {}
        found = list(node.term_warnings(topology, "nodeTopology"))
        for key in topology.get("matchLabels") or ():
            found.extend(node.label_warning(key, f"nodeTopology.matchLabels.{key}"))
        return found


def _capacity_errors(obj: Object) -> Errors:
    if (topology := obj.get("nodeTopology")) is not None:
        yield from selectors.validate(topology, "nodeTopology")
    yield from rules.errors(_CAPACITY, obj, "")
    capacity = obj.get("capacity")
    if capacity is not None and read_amount(capacity) < ZERO:
        yield fields.invalid("capacity", capacity, "must be greater than or equal to 0")


MAX_METADATA_BYTES = 256 * 1024
MAX_MESSAGE = 1024


class VolumeAttachment(StatusStrategy):
    returns_deleted = True
    unconditional_update = False
    generation = False

    def default(self, obj: Object) -> None:
        source = obj.setdefault("spec", {}).setdefault("source", {})
        if (inline := source.get("inlineVolumeSpec")) is not None:
            volume_sources.default(inline)
        obj.setdefault("status", {}).setdefault("attached", False)

    def prepare_for_create(self, obj: Object) -> None:
        obj["status"] = {"attached": False}

    def validate(self, obj: Object) -> FieldErrors:
        return [*_spec_errors(obj["spec"]), *_status_errors(obj.get("status", {}))]

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        if checks.same(obj["spec"], old["spec"]):
            return []
        return [fields.invalid("spec", obj["spec"], "field is immutable")]

    def validate_status_update(self, obj: Object, old: Object) -> FieldErrors:
        return list(_status_errors(obj.get("status", {})))


def _spec_errors(spec: Object) -> Errors:
    yield from volume_sources.csi_driver_name(spec.get("attacher", ""), "spec.attacher")
    yield from rules.errors(_ATTACHMENT, spec, "spec")

    source = spec.get("source") or {}
    volume, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    either = "name a volume in persistentVolumeName or describe one in inlineVolumeSpec"
    if volume is None and inline is None:
        yield fields.required("spec.source", either)
    elif volume is not None and inline is not None:
        yield fields.forbidden("spec.source", f"{either}, not both")
    elif inline is not None:
        yield from persistentvolume.inline_errors(inline, "spec.source.inlineVolumeSpec")
    elif not volume:
        yield fields.required("spec.source.persistentVolumeName", "must not be empty")
    if volume is not None:
        yield from fields.malformed("spec.source.persistentVolumeName", volume, names.dns_subdomain(volume))


def _status_errors(status: Object) -> Errors:
    metadata = status.get("attachmentMetadata") or {}
    if sum(len(key.encode()) + len(value.encode()) for key, value in metadata.items()) > MAX_METADATA_BYTES:
        yield fields.too_long("status.attachmentMetadata", MAX_METADATA_BYTES)
    for name in ("attachError", "detachError"):
        error = status.get(name) or {}
        if len(error.get("message", "").encode()) > MAX_MESSAGE:
            yield fields.too_long(f"status.{name}.message", MAX_MESSAGE)
        yield from rules.errors(_ATTACH_ERROR, error, f"status.{name}")
