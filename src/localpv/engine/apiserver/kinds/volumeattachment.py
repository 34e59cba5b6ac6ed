"""VolumeAttachment: the order to attach a volume to a node, and how that went."""

from __future__ import annotations

from collections.abc import Iterator

from localpv.api import fields, names
from localpv.api.fields import FieldError, FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import volume_equality, volume_sources, volume_spec
from localpv.engine.apiserver.kinds.base import StatusStrategy

Errors = Iterator[FieldError]

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
        if volume_equality.same(obj["spec"], old["spec"]):
            return []
        return [fields.invalid("spec", obj["spec"], "field is immutable")]

    def validate_status_update(self, obj: Object, old: Object) -> FieldErrors:
        return list(_status_errors(obj.get("status", {})))


def _spec_errors(spec: Object) -> Errors:
    yield from volume_sources.csi_driver_name(spec.get("attacher", ""), "spec.attacher")
    node = spec.get("nodeName", "")
    for sentence in names.dns_subdomain(node):
        yield fields.invalid("spec.nodeName", node, sentence)

    source = spec.get("source") or {}
    volume, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    either = "name a volume in persistentVolumeName or describe one in inlineVolumeSpec"
    if volume is None and inline is None:
        yield fields.required("spec.source", either)
    elif volume is not None and inline is not None:
        yield fields.forbidden("spec.source", f"{either}, not both")
    elif inline is not None:
        yield from volume_spec.inline_errors(inline, "spec.source.inlineVolumeSpec")
    elif not volume:
        yield fields.required("spec.source.persistentVolumeName", "must not be empty")
    for sentence in names.dns_subdomain(volume) if volume is not None else ():
        yield fields.invalid("spec.source.persistentVolumeName", volume, sentence)


def _status_errors(status: Object) -> Errors:
    metadata = status.get("attachmentMetadata") or {}
    if sum(len(key.encode()) + len(value.encode()) for key, value in metadata.items()) > MAX_METADATA_BYTES:
        yield fields.too_long("status.attachmentMetadata", MAX_METADATA_BYTES)
    for name in ("attachError", "detachError"):
        error = status.get(name) or {}
        if len(error.get("message", "").encode()) > MAX_MESSAGE:
            yield fields.too_long(f"status.{name}.message", MAX_MESSAGE)
        if error.get("errorCode", 0) < 0:
            yield fields.invalid(f"status.{name}.errorCode", error["errorCode"], "must be greater than or equal to 0")
