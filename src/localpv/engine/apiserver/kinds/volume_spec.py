"""The spec of a PersistentVolume, by itself or written into a VolumeAttachment."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from localpv.api import fields, names, volume_affinity
from localpv.api.fields import FieldError
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import volume_access, volume_sources

Errors = Iterator[FieldError]

RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")


def default(spec: Object) -> None:
    if not spec.get("persistentVolumeReclaimPolicy"):
        spec["persistentVolumeReclaimPolicy"] = "Retain"
    if "volumeMode" not in spec:
        spec["volumeMode"] = "Filesystem"
    if spec.get("storageClassName") == "":
        del spec["storageClassName"]
    if capacity := spec.get("capacity"):
        volume_access.round_up(capacity)
    volume_sources.default(spec)


def errors(spec: Object, path: str, *, volume_name: str, has_affinity: bool) -> Errors:
    """`has_affinity`: the volume is tied to nodes, in the spec or in the annotation of old."""
    yield from _access(spec, path)
    capacity = spec.get("capacity") or {}
    if not capacity:
        yield fields.required(f"{path}.capacity")
    if capacity.keys() != {"storage"}:
        yield fields.not_supported(f"{path}.capacity", capacity, ("storage",))
    for resource, amount in capacity.items():
        yield from volume_access.positive(amount, f"{path}.capacity[{resource}]")

    policy = spec.get("persistentVolumeReclaimPolicy", "")
    if policy and policy not in RECLAIM_POLICIES:
        yield fields.not_supported(f"{path}.persistentVolumeReclaimPolicy", policy, RECLAIM_POLICIES)
    if (affinity := spec.get("nodeAffinity")) is not None:
        yield from volume_affinity.field_errors(affinity, f"{path}.nodeAffinity")

    yield from _source(spec, path, volume_name=volume_name)
    if not has_affinity and "local" in spec and volume_sources.of_volume(spec) == "local":
        why = "a local volume is on one node: say which with required node affinity"
        yield fields.required(f"{path}.nodeAffinity", why)
    if policy == "Recycle" and _is_root(spec.get("hostPath")):
        why = "recycling a hostPath of '/' would delete the node's own files"
        yield fields.forbidden(f"{path}.persistentVolumeReclaimPolicy", why)

    if storage_class := spec.get("storageClassName"):
        for sentence in names.dns_subdomain(storage_class):
            yield fields.invalid(f"{path}.storageClassName", storage_class, sentence)
    yield from volume_access.volume_mode(spec.get("volumeMode"), f"{path}.volumeMode")
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
        yield from volume_access.access_modes(modes, f"{path}.accessModes")


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
    for sentence in names.dns_subdomain(name) if name else ():
        yield fields.invalid(f"{path}.volumeAttributesClassName", name, sentence)
    if "csi" not in spec:
        yield fields.required(f"{path}.csi", "only CSI volumes have an attributes class")
