"""The status of a pod: what the node may report, and what stays."""

from __future__ import annotations

from collections.abc import Iterator

from localpv.api import fields, names
from localpv.api.fields import FieldError
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import pod_names, pod_update

Errors = Iterator[FieldError]

_STATUS_LISTS = (
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
)
_ADDRESSES = (("podIP", "podIPs"), ("hostIP", "hostIPs"))


def default(status: Object) -> None:
    """podIP is the first of podIPs; where they disagree the older field wins."""
    one, many = status.get("podIP"), status.get("podIPs")
    if one and (not many or many[0].get("ip") != one):
        status["podIPs"] = [{"ip": one}]
    elif many and not one:
        status["podIP"] = many[0].get("ip", "")


def carry_over(status: Object, old: Object) -> None:
    """What a report leaves out and still holds."""
    if not status.get("qosClass") and "qosClass" in old:
        status["qosClass"] = old["qosClass"]
    if not status.get("observedGeneration") and "observedGeneration" in old:
        status["observedGeneration"] = old["observedGeneration"]
    seen = {
        each.get("type"): each["observedGeneration"]
        for each in old.get("conditions") or ()
        if "observedGeneration" in each
    }
    for condition in status.get("conditions") or ():
        if not condition.get("observedGeneration") and condition.get("type") in seen:
            condition["observedGeneration"] = seen[condition["type"]]


def errors(pod: Object, old: Object) -> Errors:
    yield from pod_update.annotation_errors(pod, old)
    status, before, spec = pod.get("status") or {}, old.get("status") or {}, old["spec"]
    for index, condition in enumerate(status.get("conditions") or ()):
        kind = condition.get("type", "")
        if condition.get("observedGeneration", 0) < 0:
            where = f"status.conditions[{index}].observedGeneration"
            yield fields.invalid(where, condition["observedGeneration"], "must not be negative")
        for sentence in names.qualified_name(kind):
            yield fields.invalid(f"status.conditions[{index}].Type", kind, sentence)
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != before.get("nominatedNodeName", ""):
        for sentence in names.dns_subdomain(nominated):
            yield fields.invalid("status.nominatedNodeName", nominated, sentence)
        if spec.get("nodeName"):
            yield fields.forbidden("status.nominatedNodeName", "the pod has a node already")
    if status.get("observedGeneration", 0) < 0:
        yield fields.invalid("status.observedGeneration", status["observedGeneration"], "must not be negative")
    if status.get("qosClass") != before.get("qosClass"):
        yield fields.invalid("status.qosClass", status.get("qosClass"), "field is immutable")
    for name, holder in _STATUS_LISTS:
        yield from _states(status.get(name) or [], before.get(name) or [], f"status.{name}", spec, holder)
    for one, many in _ADDRESSES:
        yield from _addresses(status, before, one, many)


def _states(new: list[Object], old: list[Object], path: str, spec: Object, holder: str) -> Errors:
    """A container that has ended and will not be restarted does not come back to life."""
    running = {each.get("name") for each in new if "terminated" not in (each.get("state") or {})}
    for index, each in enumerate(old):
        ended = (each.get("state") or {}).get("terminated")
        if ended is None or each.get("name") not in running:
            continue
        container = next((one for one in spec.get(holder) or () if one.get("name") == each.get("name")), None)
        if holder == "ephemeralContainers" or not _restarts(container, spec, ended.get("exitCode", 0)):
            yield fields.forbidden(f"{path}[{index}].state", "the container has ended and is not restarted")


def _restarts(container: Object | None, spec: Object, code: int) -> bool:
    if container is None:
        return False
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        if (code in (codes.get("values") or ())) == (codes.get("operator") == "In"):
            return bool(rule.get("action") == "Restart")
    policy = container.get("restartPolicy") or spec.get("restartPolicy")
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def _addresses(status: Object, before: Object, one: str, many: str) -> Errors:
    given = [each.get("ip", "") for each in status.get(many) or ()]
    known = [each.get("ip", "") for each in before.get(many) or ()]
    if one == "hostIP" and given and given[0] != status.get(one, ""):
        yield fields.invalid(f"status.{many}[0].ip", given[0], f"must be the same as {one}")
    for index, ip in enumerate(given):
        if ip not in known:
            yield from pod_names.address(ip, f"status.{many}[{index}]")
    if len(given) > 1 and (len(given) > 2 or len({pod_names.family(ip) for ip in given}) != 2):
        yield fields.invalid(f"status.{many}", status[many], "may have one address for each of IPv4 and IPv6")
