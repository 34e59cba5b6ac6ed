"""PersistentVolume: a piece of storage, offered to claims."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any

from localpv.api import fields, names, objects, volume_affinity, well_known
from localpv.api.fields import FieldError, FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import checks, node, rules, volume_sources
from localpv.engine.apiserver.kinds.base import Gates, StatusStrategy
from localpv.engine.apiserver.kinds.rules import Field

Errors = Iterator[FieldError]

_RECLAIM = (Field("persistentVolumeReclaimPolicy", enum=("Delete", "Recycle", "Retain"), may_be_empty=True),)
_CLASS_AND_MODE = (
    Field("storageClassName", form=names.dns_subdomain, may_be_empty=True),
    Field("volumeMode", enum=checks.VOLUME_MODES),
)


def default_spec(spec: Object) -> None:
    if not spec.get("persistentVolumeReclaimPolicy"):
        spec["persistentVolumeReclaimPolicy"] = "Retain"
    if "volumeMode" not in spec:
        spec["volumeMode"] = "Filesystem"
    if spec.get("storageClassName") == "":
        del spec["storageClassName"]
    if capacity := spec.get("capacity"):
        checks.round_up(capacity)
    volume_sources.default(spec)


def spec_errors(spec: Object, path: str, *, volume_name: str, has_affinity: bool) -> Errors:
    """`has_affinity`: the volume is tied to nodes, in the spec or in the annotation of old."""
    yield from _access(spec, path)
    capacity = spec.get("capacity") or {}
    if not capacity:
        yield fields.required(f"{path}.capacity")
    if capacity.keys() != {"storage"}:
        yield fields.not_supported(f"{path}.capacity", capacity, ("storage",))
    for resource, amount in capacity.items():
        yield from checks.positive(amount, f"{path}.capacity[{resource}]")

    yield from rules.errors(_RECLAIM, spec, path)
    if (affinity := spec.get("nodeAffinity")) is not None:
        yield from volume_affinity.field_errors(affinity, f"{path}.nodeAffinity")

    yield from _source(spec, path, volume_name=volume_name)
    if not has_affinity and "local" in spec and volume_sources.of_volume(spec) == "local":
        why = "a local volume is on one node: say which with required node affinity"
        yield fields.required(f"{path}.nodeAffinity", why)
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle" and _is_root(spec.get("hostPath")):
        why = "recycling a hostPath of '/' would delete the node's own files"
        yield fields.forbidden(f"{path}.persistentVolumeReclaimPolicy", why)

    yield from rules.errors(_CLASS_AND_MODE, spec, path)
    yield from _attributes_class(spec, path)


def inline_errors(spec: Object, path: str) -> Errors:
    """A spec written into a VolumeAttachment: a CSI source and how to reach it, nothing about claims."""
    for name in ("claimRef", "capacity", "nodeAffinity", "storageClassName"):
        if spec.get(name):
            yield fields.forbidden(f"{path}.{name}", "means nothing for a volume that no claim can find")
    if "csi" not in spec:
        yield fields.required(f"{path}.csi", "only CSI volumes are attached this way")
    yield from _access(spec, path)
    if spec.get("persistentVolumeReclaimPolicy") not in (None, "", "Retain"):
        yield fields.forbidden(f"{path}.persistentVolumeReclaimPolicy", "must be Retain here")
    yield from _source(spec, path, volume_name="")
    if spec.get("volumeMode") not in (None, "Filesystem"):
        yield fields.forbidden(f"{path}.volumeMode", "must be Filesystem here")


def _access(spec: Object, path: str) -> Errors:
    modes = spec.get("accessModes")
    if not modes:
        yield fields.required(f"{path}.accessModes")
    else:
        yield from checks.access_modes(modes, f"{path}.accessModes")


def _source(spec: Object, path: str, *, volume_name: str) -> Errors:
    yield from volume_sources.exactly_one(spec, path, volume_sources.OF_VOLUMES)
    iscsi = spec.get("iscsi")
    if iscsi and "initiatorName" in iscsi and len(f"{volume_name}:{iscsi.get('targetPortal', '')}") > 64:
        why = "name of the volume, ':' and portal together may have 64 characters where initiatorName is set"
        yield fields.invalid(f"{path}.iscsi.targetportal", iscsi.get("targetPortal", ""), why)


def _is_root(host_path: Object | None) -> bool:
    return host_path is not None and posixpath.normpath(host_path.get("path") or ".") in ("/", "//")


def _attributes_class(spec: Object, path: str) -> Errors:
    name = spec.get("volumeAttributesClassName")
    if name is None:
        return
    if not name:
        yield fields.required(f"{path}.volumeAttributesClassName", "leave it out, or name a class")
    if name:
        yield from fields.malformed(f"{path}.volumeAttributesClassName", name, names.dns_subdomain(name))
    if "csi" not in spec:
        yield fields.required(f"{path}.csi", "only CSI volumes have an attributes class")


MOUNT_OPTIONS_ANNOTATION = "volume.beta.kubernetes.io/mount-options"
_WITH_MOUNT_OPTIONS = frozenset(
    {
        "awsElasticBlockStore",
        "azureDisk",
        "azureFile",
        "cephfs",
        "cinder",
        "gcePersistentDisk",
        "glusterfs",
        "iscsi",
        "nfs",
        "photonPersistentDisk",
        "quobyte",
        "rbd",
        "vsphereVolume",
    }
)
"""Sources for which the old annotation with mount options may be used; `local` was never one of them."""

_GONE_SOURCES = {
    "cephfs": "since 1.31",
    "glusterfs": "since 1.26",
    "photonPersistentDisk": "since 1.16",
    "rbd": "since 1.31",
    "scaleIO": "since 1.22",
    "storageos": "since 1.25",
}


class PersistentVolume(StatusStrategy):
    generation = False
    returns_deleted = True

    def __init__(self, *, gates: Gates) -> None:
        self._gates = gates

    def raw_errors(self, body: Object) -> FieldErrors:
        """What the schema would drop without a word and what must not be dropped so: preferred node affinity.

        Takes the body as it was decoded, before the schema has looked at it.
        """
        spec = body.get("spec")
        affinity = spec.get("nodeAffinity") if isinstance(spec, dict) else None
        if not isinstance(affinity, dict):
            return []
        why = "a volume cannot prefer nodes: it can be reached from a node or not, so use required"
        return [
            fields.forbidden(f"spec.nodeAffinity.{key}", why)
            for key in affinity
            if key in ("preferred", "preferredDuringSchedulingIgnoredDuringExecution")
        ]

    def default(self, obj: Object) -> None:
        default_spec(obj.setdefault("spec", {}))
        status = obj.setdefault("status", {})
        if not status.get("phase"):
            status["phase"] = "Pending"

    def prepare_for_create(self, obj: Object) -> None:
        # Pending until the binder has looked at the volume: only then is it Available.
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": objects.now()}

    def prepare_for_status_update(self, obj: Object, old: Object) -> None:
        super().prepare_for_status_update(obj, old)
        status, before = obj.setdefault("status", {}), old.get("status", {})
        sent, kept = status.get("lastPhaseTransitionTime"), before.get("lastPhaseTransitionTime")
        if status.get("phase") != before.get("phase"):
            if sent is None or sent == kept:
                status["lastPhaseTransitionTime"] = objects.now()
        elif sent is None and kept is not None:
            status["lastPhaseTransitionTime"] = kept

    def validate(self, obj: Object) -> FieldErrors:
        return list(_errors(obj))

    def validate_create(self, obj: Object) -> FieldErrors:
        # Asked of new volumes only: one that is there must still be able to lose its finalizers and go.
        if "local" in obj["spec"] and not self._gates.persistent_local_volumes:
            return [fields.forbidden("spec.local", "local volumes are turned off: PersistentLocalVolumes is false")]
        return []

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        return list(_changes(obj, old))

    def warnings(self, obj: Object) -> list[str]:
        return list(_warnings(obj))


def _errors(obj: Object) -> Errors:
    spec, metadata = obj["spec"], obj["metadata"]
    annotation = volume_affinity.annotated(obj)
    if annotation:
        yield from volume_affinity.annotation_errors(annotation)
    yield from spec_errors(
        spec,
        "spec",
        volume_name=metadata.get("name", ""),
        has_affinity="nodeAffinity" in spec or bool(annotation),
    )
    annotations = metadata.get("annotations")
    if annotations and MOUNT_OPTIONS_ANNOTATION in annotations and not _WITH_MOUNT_OPTIONS & spec.keys():
        why = "this kind of volume takes mount options from spec.mountOptions only"
        yield fields.forbidden(f"metadata.annotations.{MOUNT_OPTIONS_ANNOTATION}", why)


def _changes(obj: Object, old: Object) -> Errors:
    new_spec, old_spec = obj["spec"], old["spec"]
    if not checks.same(_new_sources(new_spec, old_spec), _sources(old_spec)):
        yield fields.forbidden("spec.persistentvolumesource", "the source of a volume cannot change after creation")
    if new_spec.get("volumeMode") != old_spec.get("volumeMode"):
        yield fields.invalid("volumeMode", new_spec.get("volumeMode"), "field is immutable")
    before, after = old_spec.get("nodeAffinity"), new_spec.get("nodeAffinity")
    if before is not None and not checks.same(_with_ga_labels(after, before), before):
        why = "field is immutable, except that beta labels may become their general ones"
        yield fields.invalid("nodeAffinity", after, why)
    # The annotation of old says the same as nodeAffinity, so it stays too. It may go once the field is there.
    was, is_now = volume_affinity.annotated(old), volume_affinity.annotated(obj)
    if was and is_now and was != is_now:
        yield fields.invalid(volume_affinity.ANNOTATION_FIELD, is_now, "field is immutable")
    if old_spec.get("volumeAttributesClassName") is not None and "volumeAttributesClassName" not in new_spec:
        yield fields.forbidden("spec.volumeAttributesClassName", "can change to another class, but not be taken away")


def _sources(spec: Object) -> Object:
    return {name: spec[name] for name in volume_sources.OF_VOLUMES if name in spec}


def _new_sources(spec: Object, old: Object) -> Object:
    found = _sources(spec)
    csi = found.get("csi")
    if csi and "controllerExpandSecretRef" in csi and "controllerExpandSecretRef" not in old.get("csi", {}):
        # The secret for growing a volume may be given later, once.
        found["csi"] = checks.without(csi, "controllerExpandSecretRef")
    return found


def _with_ga_labels(affinity: Any, before: Any) -> Any:
    """`affinity` with each general label put back to the beta one that stands at its place in `before`."""
    if isinstance(affinity, list) and isinstance(before, list) and len(affinity) == len(before):
        return [_with_ga_labels(new, old) for new, old in zip(affinity, before, strict=True)]
    if isinstance(affinity, dict) and isinstance(before, dict):
        return {key: _with_ga_labels(value, before.get(key)) for key, value in affinity.items()}
    if isinstance(before, str) and affinity == node.GENERAL.get(before):
        return before
    return affinity


def _warnings(obj: Object) -> Iterator[str]:
    spec, annotations = obj["spec"], obj["metadata"].get("annotations", {})
    for key, instead in (
        (well_known.BETA_STORAGE_CLASS, "spec.storageClassName"),
        (MOUNT_OPTIONS_ANNOTATION, "spec.mountOptions"),
        (volume_affinity.ANNOTATION, "spec.nodeAffinity.required"),
    ):
        if key in annotations:
            yield f"metadata.annotations[{key}]: deprecated; use {instead} instead"
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        yield "spec.persistentVolumeReclaimPolicy: Recycle is deprecated; let a provisioner make volumes anew instead"
    for name, since in _GONE_SOURCES.items():
        if name in spec:
            yield f"spec.{name}: deprecated, and Kubernetes does not mount it {since}"
    affinity = spec.get("nodeAffinity") or {}
    yield from node.selector_warnings(affinity.get("required"), "spec.nodeAffinity.required")
