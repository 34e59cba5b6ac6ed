"""Subresources that are no whole objects: scale, binding, eviction, and bodies that belong to no resource of their own.

What a client sends as Scale, Eviction, TokenRequest or DeleteOptions fits the schema of Kubernetes, or is refused
before anybody reads its fields.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from localpv.api import fields, media_types, status
from localpv.api.objects import Object, now
from localpv.api.patch import json_patch, merge_patch
from localpv.api.schema import walk
from localpv.api.schema.catalogue import Catalogue
from localpv.api.schema.node import Node
from localpv.engine.apiserver import body
from localpv.engine.apiserver.call import Call, Reply
from localpv.engine.apiserver.kinds import workload_common
from localpv.engine.apiserver.storage import Storage, decode, encode
from localpv.engine.apiserver.verbs import delete as deleting
from localpv.engine.apiserver.verbs import patch as patching
from localpv.engine.apiserver.verbs.delete import Deletion, check_preconditions, delete_object
from localpv.engine.apiserver.verbs.update import Transform, update_object
from localpv.errors import BadRequest, Invalid, UnsupportedMediaType

_DEFINITIONS = {
    "Scale": "io.k8s.api.autoscaling.v1.Scale",
    "Eviction": "io.k8s.api.policy.v1.Eviction",
    "TokenRequest": "io.k8s.api.authentication.v1.TokenRequest",
    "DeleteOptions": "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
}
_VERSIONS = {
    "Scale": ("autoscaling/v1",),
    "Eviction": ("policy/v1", "policy/v1beta1"),
    "TokenRequest": ("authentication.k8s.io/v1",),
}
"""DeleteOptions go with the version of any kind."""


class Shapes:
    """Knows what such bodies look like."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def options(self, value: Any) -> Object:
        """What the body of a DELETE asks for. Nobody is told of fields in it that are unknown."""
        options, taken, _ = self._taken(value, "DeleteOptions")
        if taken.type_errors:
            detail = "; ".join(str(error) for error in taken.type_errors)
            raise BadRequest(f"the body of the request cannot be handled as a DeleteOptions: {detail}")
        return options

    def take_in(self, value: Any, kind: str, call: Call, raw: bytes) -> Object:
        """The body, of the right kind and with every field of the right type; unknown fields are gone, and told as the
        call asks for it."""
        obj, taken, node = self._taken(value, kind)
        body.refuse(kind, "v1", body.problem(call, taken, node, raw))
        return obj

    def take_in_patched(self, value: Any, kind: str, call: Call, findings: list[str], *, patch: bytes) -> Object:
        """The same for what a patch has led to."""
        obj, taken, node = self._taken(value, kind)
        body.refuse_patch(body.patched_problem(call, taken, node, findings), patch)
        return obj

    def _taken(self, value: Any, kind: str) -> tuple[Object, walk.Taken, Node]:
        if not isinstance(value, dict):
            raise BadRequest(f"the body of the request must be a JSON object, of kind {kind}")
        said, version = value.get("kind") or kind, value.get("apiVersion") or ""
        if said != kind:
            raise BadRequest(f"the body of the request must be of kind {kind}, not {str(said)[:100]}")
        versions = _VERSIONS.get(kind)
        if version and versions and version not in versions:
            raise BadRequest(f"the body of the request must be {kind} of {versions[0]}, not of {str(version)[:100]}")
        node = self._catalogue.node(_DEFINITIONS[kind])
        return value, walk.take_in(value, node), node


def read_scale(call: Call, parent: Reply) -> Reply:
    """The Scale of a workload."""
    scale = workload_common.to_scale(parent.obj or decode(parent.value), call.kind.scale)
    return Reply(encode(scale), parent.status, scale)


async def update_scale(call: Call, value: Any, raw: bytes, *, storage: Storage, shapes: Shapes) -> Reply:
    """PUT of a Scale: changes the number of replicas in the workload."""
    scale = shapes.take_in(value, "Scale", call, raw)
    if (scale.get("metadata") or {}).get("name") != call.name:
        raise BadRequest(f"metadata.name of the Scale must be {call.name}, as on the URL")
    return await _change_scale(call, lambda _: scale, storage=storage)


async def patch_scale(call: Call, raw: bytes, media_type: str, *, storage: Storage, shapes: Shapes) -> Reply:
    value = body.decode_json(raw)
    if media_type not in (media_types.JSON_PATCH, media_types.MERGE_PATCH, media_types.STRATEGIC_MERGE_PATCH):
        raise UnsupportedMediaType(
            f"a Scale takes {media_types.JSON_PATCH} and {media_types.MERGE_PATCH}, not {media_type}"
        )
    if media_type == media_types.JSON_PATCH:
        value = patching.operations(value)
    apply = json_patch.apply if media_type == media_types.JSON_PATCH else merge_patch.apply
    findings = patching.strict_findings(value, raw, media_type) if call.field_validation != "Ignore" else []

    def change(scale: Object) -> Object:
        patched = apply(scale, value)
        try:
            return shapes.take_in_patched(patched, "Scale", call, findings, patch=raw)
        except BadRequest as error:
            # The patch was well formed; it is the Scale that it leads to which is none.
            raise Invalid(error.message) from error

    return await _change_scale(call, change, storage=storage)


async def _change_scale(call: Call, change: Transform, *, storage: Storage) -> Reply:
    def transform(obj: Object) -> Object:
        scale = change(workload_common.to_scale(obj, call.kind.scale))
        version = (scale.get("metadata") or {}).get("resourceVersion")
        if version and version != obj["metadata"]["resourceVersion"]:
            resource = call.kind.resource
            raise status.modified(resource.plural, resource.group, call.name)
        workload_common.apply_scale(obj, scale, call.kind.scale)
        return obj

    reply = await update_object(call, transform, storage=storage)
    return read_scale(call, reply)


async def bind(call: Call, binding: Object, *, storage: Storage) -> Reply:
    """POST to pods/binding: the scheduler's word on where a pod runs. The Binding fits its schema."""
    target = binding.get("target") or {}
    if not target.get("name"):
        problem = fields.required("target.name", "the node that the pod goes to")
        raise status.invalid("Binding", "", call.name, [problem])
    if target.get("kind", "Node") not in ("", "Node"):
        raise BadRequest(f'target.kind of the binding must be Node, not "{target["kind"]}"')
    wanted = binding.get("metadata") or {}

    def transform(pod: Object) -> Object:
        resource, metadata, spec = call.kind.resource, pod["metadata"], pod["spec"]
        if wanted.get("uid") and wanted["uid"] != metadata["uid"]:
            raise status.conflict(
                "pods/binding",
                resource.group,
                call.name,
                f"Precondition failed: UID in precondition: {wanted['uid']}, UID in object meta: {metadata['uid']}",
            )
        if metadata.get("deletionTimestamp"):
            why = f"pod {call.name} is being deleted, cannot be assigned to a host"
            raise status.conflict("pods/binding", resource.group, call.name, why)
        if spec.get("nodeName"):
            why = f'pod {call.name} is already assigned to node "{spec["nodeName"]}"'
            raise status.conflict("pods/binding", resource.group, call.name, why)
        if spec.get("schedulingGates"):
            why = f"pod {call.name} has non-empty .spec.schedulingGates"
            raise status.conflict("pods/binding", resource.group, call.name, why)
        spec["nodeName"] = target["name"]
        if version := wanted.get("resourceVersion"):
            metadata["resourceVersion"] = version  # it is compared with what is stored
        for part in ("annotations", "labels"):
            if wanted.get(part):
                metadata.setdefault(part, {}).update(wanted[part])
        conditions = pod.setdefault("status", {}).setdefault("conditions", [])
        conditions[:] = [entry for entry in conditions if entry.get("type") != "PodScheduled"]
        conditions.append(
            {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now()}
        )
        return pod

    await update_object(call, transform, storage=storage)
    answer = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return Reply(encode(answer), 201)


def _tell_eviction(call: Call, pod: Object, wish: Deletion) -> Object:
    check_preconditions(call, pod, wish)
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    if not any((one.get("type"), one.get("status")) == ("DisruptionTarget", "True") for one in conditions):
        conditions[:] = [one for one in conditions if one.get("type") != "DisruptionTarget"]
        conditions.append(
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
                "lastProbeTime": None,
                "lastTransitionTime": now(),
            }
        )
    return pod


async def evict(call: Call, value: Any, raw: bytes, *, storage: Storage, shapes: Shapes) -> Reply:
    """POST to pods/eviction: a deletion that a disruption budget could refuse; this server has no budgets."""
    value = shapes.take_in(value, "Eviction", call, raw)
    metadata = value.get("metadata") or {}
    if metadata.get("name", call.name) != call.name:
        raise BadRequest("name in URL does not match name in Eviction object")
    wish, dry_run = deleting.options(value.get("deleteOptions") or {}, {})
    call.dry_run = call.dry_run or dry_run
    if not call.dry_run:
        # Says to whoever counts failures of pods that this was none.
        told = await update_object(call, lambda pod: _tell_eviction(call, pod, wish), ending=True, storage=storage)
        if wish.resource_version and told.obj is not None:
            wish = dataclasses.replace(wish, resource_version=told.obj["metadata"]["resourceVersion"])
    await delete_object(call, wish, storage=storage)
    answer = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return Reply(encode(answer), 201)
