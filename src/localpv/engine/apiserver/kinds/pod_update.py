"""What may change in a pod that exists: little, because its containers were started from what it said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from localpv.api import fields, well_known
from localpv.api.fields import FieldError
from localpv.api.node_selector import REQUIRED
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds.pod_admission import MIRROR_ANNOTATION
from localpv.engine.apiserver.kinds.pod_scheduling import toleration_errors
from localpv.engine.apiserver.kinds.pod_spec import MAX_DEADLINE
from localpv.engine.apiserver.kinds.volume_equality import same, without

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
        fixed = key == MIRROR_ANNOTATION or key.startswith(well_known.APPARMOR_PREFIX)
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
