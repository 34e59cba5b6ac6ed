"""Kinds that are only stored: all they need is said by their schema and by tables (`stored_rules`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from localpv.api import fields, names
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.api.resources import Resource
from localpv.api.schema.node import Node
from localpv.engine.apiserver.kinds import checks
from localpv.engine.apiserver.kinds.base import StatusStrategy

WITHOUT_GENERATION = frozenset(
    {
        *("Endpoints", "HorizontalPodAutoscaler", "IPAddress", "LimitRange", "ResourceClaim", "ResourceClaimTemplate"),
        *("ResourceQuota", "RuntimeClass", "ServiceCIDR", "VolumeAttributesClass"),
    }
)
CREATED_BY_PUT = frozenset({"Endpoints", "LimitRange", "RuntimeClass"})
VERSION_DEMANDED = frozenset({"PodDisruptionBudget", "RuntimeClass"})
RETURNED_WHEN_DELETED = frozenset(
    {
        *("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceQuota", "ResourceSlice"),
        "VolumeAttributesClass",
    }
)

IMMUTABLE = {
    "EndpointSlice": ("addressType",),
    "IPAddress": ("spec.parentRef",),
    "IngressClass": ("spec.controller",),
    "PriorityClass": ("preemptionPolicy",),
    "ResourceClaim": ("spec",),
    "ResourceClaimTemplate": ("spec",),
    "ResourceQuota": ("spec.scopes",),
    "ResourceSlice": ("spec.driver", "spec.nodeName", "spec.pool.name"),
    "RuntimeClass": ("handler",),
}
FORBIDDEN_TO_CHANGE = {
    "PriorityClass": ("value",),
    "VolumeAttributesClass": ("driverName", "parameters"),
}
"""Immutable too; Kubernetes has two words for it."""

NOT_ENFORCED = {
    "CronJob": "no Jobs are made from CronJobs by this server: one is only stored",
    "FlowSchema": "requests are not classified by FlowSchemas here: one is only stored",
    "HorizontalPodAutoscaler": "nothing is scaled by this server: a HorizontalPodAutoscaler is only stored",
    "Ingress": "no traffic is routed by this server: an Ingress is only stored",
    "LimitRange": "LimitRanges are not enforced here: one is only stored, and neither limits nor fills in anything",
    "NetworkPolicy": "NetworkPolicies are not enforced here: one is only stored, and isolates nothing",
    "PodDisruptionBudget": "evictions are not held back here: a PodDisruptionBudget is only stored",
    "PriorityClass": "pods have no priority here: a PriorityClass is only stored, and pods that name it are refused",
    "PriorityLevelConfiguration": "requests have no priority levels here: one is only stored",
    "ResourceQuota": "ResourceQuotas are not enforced here: one is only stored, and limits nothing",
    "RuntimeClass": "there is one runtime here: a RuntimeClass is only stored, and pods that name it are refused",
}
"""What writers are told who would rely on what is not done."""


class Stored(StatusStrategy):
    """The tables are read with the first object of such a kind: a server that never sees one does not load them."""

    def __init__(self, resource: Resource, load_node: Callable[[], Node]) -> None:
        kind = resource.kind
        self._resource = resource
        self._load_node = load_node
        self._has_status = "status" in resource.subresources
        self.generation = kind not in WITHOUT_GENERATION
        self.allow_create_on_update = kind in CREATED_BY_PUT
        self.unconditional_update = kind not in VERSION_DEMANDED
        self.returns_deleted = kind in RETURNED_WHEN_DELETED

    def raw_errors(self, body: Object) -> FieldErrors:
        if self._resource.kind != "CronJob":
            return []
        from localpv.engine.apiserver.kinds import pod_spec

        path = "spec.jobTemplate.spec.template"
        return pod_spec.raw_template_errors(_at(body, path), path)

    def default(self, obj: Object) -> None:
        from localpv.engine.apiserver.kinds import rules, stored_rules

        node = self._load_node()
        if "spec" in node.fields:
            obj.setdefault("spec", {})
        rules.fill_in(obj, node, stored_rules.TABLES)

    def prepare_for_create(self, obj: Object) -> None:
        if self._has_status:
            super().prepare_for_create(obj)

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        if self._has_status:
            super().prepare_for_update(obj, old)

    def validate(self, obj: Object) -> FieldErrors:
        return self._wrong({key: value for key, value in obj.items() if key != "status" or not self._has_status})

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        from localpv.engine.apiserver.kinds import stored_rules

        kind = self._resource.kind
        changes = stored_rules.CHANGES.get(kind)
        found = [] if changes is None else list(changes(obj, old))
        found += [
            fields.invalid(path, _at(obj, path), "field is immutable")
            for path in IMMUTABLE.get(kind, ())
            if not checks.same(_at(obj, path), _at(old, path))
        ]
        return found + [
            fields.forbidden(path, "cannot be changed")
            for path in FORBIDDEN_TO_CHANGE.get(kind, ())
            if not checks.same(_at(obj, path), _at(old, path))
        ]

    def validate_status_update(self, obj: Object, old: Object) -> FieldErrors:
        return self._wrong({"status": obj.get("status") or {}})

    def validate_name(self, name: str) -> list[str]:
        from localpv.engine.apiserver.kinds import stored_rules

        return stored_rules.NAMES.get(self._resource.kind, names.dns_subdomain)(name)

    def selectable(self, obj: Object) -> dict[str, str]:
        return {path: str(_at(obj, path) or "") for path in self._resource.selectable_fields}

    def warnings(self, obj: Object) -> list[str]:
        return [NOT_ENFORCED[self._resource.kind]] if self._resource.kind in NOT_ENFORCED else []

    def _wrong(self, obj: Object) -> FieldErrors:
        from localpv.engine.apiserver.kinds import rules, stored_rules

        also = stored_rules.ALSO.get(self._resource.kind)
        found = rules.wrong(obj, self._load_node(), "", stored_rules.TABLES)
        return [*found, *(also(obj) if also is not None and "metadata" in obj else ())]


def _at(obj: Object, path: str) -> Any:
    value: Any = obj
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value
