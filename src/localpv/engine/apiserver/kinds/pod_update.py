"""What may change in a pod that exists: little, because its containers were started from what it said; and its status:
what the node may report, and what stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from localpv.api import fields, names, well_known
from localpv.api.fields import FieldError
from localpv.api.node_selector import REQUIRED
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import checks
from localpv.engine.apiserver.kinds.checks import same, without
from localpv.engine.apiserver.kinds.pod_scheduling import toleration_errors
from localpv.engine.apiserver.kinds.pod_spec import MAX_DEADLINE

Errors = Iterator[FieldError]

_FREE = ("activeDeadlineSeconds", "schedulingGates", "tolerations", "containers", "initContainers")


def errors(pod: Object, old: Object) -> Errors:
    yield from annotation_errors(pod, old)
    spec, before = pod["spec"], old["spec"]
    for name in ("containers", "initContainers"):
        if len(spec.get(name) or ()) != len(before.get(name) or ()):
            yield fields.forbidden(f"spec.{name}", "containers cannot be added to a pod or taken out of it")
            return
    if not _deadline_may_change(spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")):
        why = "may be set once, and later only become shorter"
        yield fields.invalid("spec.activeDeadlineSeconds", spec.get("activeDeadlineSeconds"), why)
        if "activeDeadlineSeconds" in spec:
            return
    yield from _tolerations(spec.get("tolerations") or [], before.get("tolerations") or [])
    yield from _gates(spec.get("schedulingGates") or [], before.get("schedulingGates") or [])
    if same(spec, before):
        return

    free = list(_FREE)
    grace = before.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        free.append("terminationGracePeriodSeconds")
    after, until_now = spec, before
    if before.get("schedulingGates"):
        # Nobody has looked for a node yet, so the choice may still be narrowed.
        free.append("nodeSelector")
        yield from _node_selector(spec.get("nodeSelector") or {}, before.get("nodeSelector") or {})
        yield from _node_affinity(_affinity(spec), _affinity(before))
        after, until_now = _without_node_affinity(spec), _without_node_affinity(before)
    same_rest = same(without(after, *free), without(until_now, *free))
    if not same_rest or not all(_same_but_image(spec, before, name) for name in ("containers", "initContainers")):
        why = (
            "cannot change after creation, except: images of containers and initContainers, activeDeadlineSeconds, "
            "more tolerations, fewer schedulingGates, and terminationGracePeriodSeconds from a negative value to 1"
        )
        yield fields.forbidden("spec", why)


def annotation_errors(pod: Object, old: Object) -> Errors:
    """Annotations that are facts about the pod's start."""
    new_ones, old_ones = (each["metadata"].get("annotations") or {} for each in (pod, old))
    for key in new_ones.keys() | old_ones.keys():
        fixed = key == well_known.MIRROR or key.startswith(well_known.APPARMOR_PREFIX)
        if fixed and new_ones.get(key) != old_ones.get(key):
            yield fields.forbidden(f"metadata.annotations[{key}]", "cannot change in a pod that exists")


def _deadline_may_change(new: int | None, old: int | None) -> bool:
    if new is None:
        return old is None
    return 0 <= new <= MAX_DEADLINE and (old is None or new <= old)


def _tolerations(new: list[Object], old: list[Object]) -> Errors:
    kept, had = ({_named(toleration) for toleration in each} for each in (new, old))
    if not had <= kept:
        yield fields.forbidden("spec.tolerations", "can be added, and only their tolerationSeconds may change")
        return
    yield from toleration_errors(new, "spec.tolerations")


def _named(toleration: Object) -> frozenset[tuple[str, Any]]:
    """All that tells one toleration from another."""
    return frozenset(without(toleration, "tolerationSeconds").items())


def _gates(new: list[Object], old: list[Object]) -> Errors:
    known = {gate.get("name") for gate in old}
    for index, gate in enumerate(new):
        if gate.get("name") not in known:
            where = f"spec.schedulingGates[{index}].name"
            yield fields.forbidden(where, f"gates can only be removed, and {gate.get('name')} is new")


def _node_selector(new: Object, old: Object) -> Errors:
    if any(new.get(key) != value for key, value in old.items()):
        yield fields.invalid("spec.nodeSelector", new, "labels can be added, but not be changed or taken out")


def _affinity(spec: Object) -> Object:
    found: Object = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return found


def _without_node_affinity(spec: Object) -> Object:
    return {**spec, "affinity": without(spec.get("affinity") or {}, "nodeAffinity")}


def _node_affinity(new: Object, old: Object) -> Errors:
    before = (old.get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    after = (new.get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    path = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    if not before:
        return
    if len(before) != len(after):
        yield fields.invalid(path, after, "terms cannot be added or taken out")
        return
    for index, (term, was) in enumerate(zip(after, before, strict=True)):
        if not _narrows(term, was):
            yield fields.invalid(f"{path}[{index}]", term, "requirements can be added, but not be changed or taken out")


def _narrows(term: Object, was: Object) -> bool:
    if not any(was.get(name) for name in ("matchExpressions", "matchFields")):
        # A term without requirements matches no node; one requirement more would let some in.
        return not any(term.get(name) for name in ("matchExpressions", "matchFields"))
    for name in ("matchExpressions", "matchFields"):
        old, new = was.get(name) or [], term.get(name) or []
        if not same(new[: len(old)], old):
            return False
    return True


def _same_but_image(spec: Object, before: Object, name: str) -> bool:
    pairs = zip(spec.get(name) or (), before.get(name) or (), strict=True)
    return all(same(without(new, "image"), without(old, "image")) for new, old in pairs)


_STATUS_LISTS = (
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
)
_ADDRESSES = (("podIP", "podIPs"), ("hostIP", "hostIPs"))


def default_status(status: Object) -> None:
    """podIP is the first of podIPs; where they disagree the older field wins."""
    one, many = status.get("podIP"), status.get("podIPs")
    if one and (not many or many[0].get("ip") != one):
        status["podIPs"] = [{"ip": one}]
    elif many and not one:
        status["podIP"] = many[0].get("ip", "")


def carry_over_status(status: Object, old: Object) -> None:
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


def status_errors(pod: Object, old: Object) -> Errors:
    yield from annotation_errors(pod, old)
    status, before, spec = pod.get("status") or {}, old.get("status") or {}, old["spec"]
    for index, condition in enumerate(status.get("conditions") or ()):
        kind = condition.get("type", "")
        if condition.get("observedGeneration", 0) < 0:
            where = f"status.conditions[{index}].observedGeneration"
            yield fields.invalid(where, condition["observedGeneration"], "must not be negative")
        yield from fields.malformed(f"status.conditions[{index}].Type", kind, names.qualified_name(kind))
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != before.get("nominatedNodeName", ""):
        yield from fields.malformed("status.nominatedNodeName", nominated, names.dns_subdomain(nominated))
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
            yield from checks.address(ip, f"status.{many}[{index}]")
    if len(given) > 1 and (len(given) > 2 or len({checks.family(ip) for ip in given}) != 2):
        yield fields.invalid(f"status.{many}", status[many], "may have one address for each of IPv4 and IPv6")
