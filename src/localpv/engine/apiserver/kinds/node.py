"""Nodes and their Leases, and the labels of nodes that have been renamed, with warnings for the old names."""

from __future__ import annotations

from collections.abc import Iterator

from localpv.api import fields, names, well_known
from localpv.api.fields import FieldError, FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import checks, rules
from localpv.engine.apiserver.kinds.base import StatusStrategy, Strategy
from localpv.engine.apiserver.kinds.checks import ZERO, read_amount
from localpv.engine.apiserver.kinds.rules import Field

GENERAL = {
    "beta.kubernetes.io/arch": well_known.ARCHITECTURE,
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/os": well_known.OS,
    well_known.BETA_REGION: well_known.REGION,
    well_known.BETA_ZONE: well_known.ZONE,
}
"""Beta labels and what they are called now."""

_INSTEAD = GENERAL | {
    "app.kubernetes.io/created-by": "",
    "node-role.kubernetes.io/master": well_known.CONTROL_PLANE,
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "taints and tolerations",
}


def label_warning(label: str, path: str) -> Iterator[str]:
    """A warning if the label is one of those."""
    instead = _INSTEAD.get(label)
    if instead is not None:
        yield f"{path}: {label} is deprecated" + (f"; use {instead} instead" if instead else "")


def term_warnings(term: Object, path: str) -> Iterator[str]:
    for index, requirement in enumerate(term.get("matchExpressions", ())):
        yield from label_warning(requirement.get("key", ""), f"{path}.matchExpressions[{index}].key")


def selector_warnings(selector: Object | None, path: str) -> Iterator[str]:
    """For a node selector, which is a list of terms."""
    for index, term in enumerate((selector or {}).get("nodeSelectorTerms", ())):
        yield from term_warnings(term, f"{path}.nodeSelectorTerms[{index}]")


Errors = Iterator[FieldError]

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_TAINT = (Field("effect", required=True, enum=TAINT_EFFECTS),)
_LEASE = (
    Field("leaseDurationSeconds", least=1, said="must be more than 0"),
    Field("leaseTransitions", least=0, said="must not be negative"),
)


class Node(StatusStrategy):
    generation = False

    def default(self, obj: Object) -> None:
        spec, status = obj.setdefault("spec", {}), obj.setdefault("status", {})
        if "capacity" in status and "allocatable" not in status:
            status["allocatable"] = dict(status["capacity"])
        # The kubelet's port and the node's facts are there even when nothing is known yet.
        status.setdefault("daemonEndpoints", {}).setdefault("kubeletEndpoint", {}).setdefault("Port", 0)
        info = status.setdefault("nodeInfo", {})
        for name in _INFO:
            info.setdefault(name, "")
        _settle_pod_cidrs(spec)

    def prepare_for_create(self, obj: Object) -> None:
        # A node may bring its status along: the kubelet registers itself in one step.
        obj["spec"].pop("configSource", None)
        obj["status"].pop("config", None)

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        super().prepare_for_update(obj, old)
        if "configSource" not in old.get("spec", {}):
            obj["spec"].pop("configSource", None)

    def prepare_for_status_update(self, obj: Object, old: Object) -> None:
        super().prepare_for_status_update(obj, old)
        if "config" not in old.get("status", {}):
            obj.get("status", {}).pop("config", None)

    def validate(self, obj: Object) -> FieldErrors:
        return list(_errors(obj))

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        return list(_changes(obj, old))

    def validate_status_update(self, obj: Object, old: Object) -> FieldErrors:
        return [*_amounts(obj.get("status", {})), *_changes(obj, old)]

    def selectable(self, obj: Object) -> dict[str, str]:
        return {"spec.unschedulable": "true" if obj["spec"].get("unschedulable") else "false"}

    def warnings(self, obj: Object) -> list[str]:
        found = []
        if obj["spec"].get("externalID"):
            found.append("spec.externalID: deprecated, and nothing reads it")
        if obj["spec"].get("configSource"):
            found.append("spec.configSource: kubelets no longer take their configuration from here")
        return found


_INFO = (
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
)


def _settle_pod_cidrs(spec: Object) -> None:
    """podCIDR is the first of podCIDRs; where they disagree the older field wins."""
    one, many = spec.get("podCIDR"), spec.get("podCIDRs")
    if one and (not many or many[0] != one):
        spec["podCIDRs"] = [one]
    elif many and not one:
        spec["podCIDR"] = many[0]


def _errors(obj: Object) -> Errors:
    spec = obj["spec"]
    # Kubernetes looks for taints under metadata when it names the field.
    yield from taint_errors(spec.get("taints") or [], "metadata.taints")
    yield from _amounts(obj.get("status", {}))
    cidrs = spec.get("podCIDRs") or []
    families = []
    for index, cidr in enumerate(cidrs):
        known = checks.read_network(cidr)
        families.append(known.version if known else 0)
        if not known:
            yield fields.invalid(f"spec.podCIDRs[{index}]", cidr, "must be an address range such as 10.9.8.0/24")
    if len(cidrs) > 1 and (len(cidrs) > 2 or len(set(families)) != 2):
        yield fields.invalid("spec.podCIDRs", cidrs, "may have one range for each of IPv4 and IPv6")


def taint_errors(taints: list[Object], path: str) -> Errors:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        yield from fields.malformed(f"{path}[{index}].key", key, names.qualified_name(key))
        if wrong := names.label_value(value):
            yield fields.invalid(f"{path}[{index}].value", value, "; ".join(wrong))
        yield from rules.errors(_TAINT, taint, f"{path}[{index}]")
        if (key, effect) in seen:
            yield fields.duplicate(f"{path}[{index}]", taint)
        seen.add((key, effect))


def _amounts(status: Object) -> Errors:
    for name in ("capacity", "allocatable"):
        for resource, amount in (status.get(name) or {}).items():
            if read_amount(amount) < ZERO:
                yield fields.invalid(f"status.{name}.{resource}", amount, "must be greater than or equal to 0")


def _changes(obj: Object, old: Object) -> Errors:
    addresses: set[tuple[str, str]] = set()
    for index, address in enumerate(obj.get("status", {}).get("addresses") or ()):
        pair = (address.get("type", ""), address.get("address", ""))
        if pair in addresses:
            yield fields.duplicate(f"status.addresses[{index}]", address)
        addresses.add(pair)
    spec, before = obj["spec"], old.get("spec", {})
    if before.get("podCIDRs") and before["podCIDRs"] != spec.get("podCIDRs"):
        yield fields.forbidden("spec.podCIDRs", "cannot change once set")
    if before.get("providerID") and before["providerID"] != spec.get("providerID"):
        yield fields.forbidden("spec.providerID", "cannot change once set")
    if (before.get("externalID") or "") != (spec.get("externalID") or ""):
        yield fields.forbidden("spec.externalID", "cannot change")


class Lease(Strategy):
    generation = False
    allow_create_on_update = True
    unconditional_update = False

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def prepare_for_create(self, obj: Object) -> None:
        _without_coordination(obj)

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        _without_coordination(obj)

    def validate(self, obj: Object) -> FieldErrors:
        return list(rules.errors(_LEASE, obj["spec"], "spec"))


def _without_coordination(obj: Object) -> None:
    # Coordinated leader election is behind a gate that is off in this version: the fields are dropped, not refused.
    obj["spec"].pop("strategy", None)
    obj["spec"].pop("preferredHolder", None)
