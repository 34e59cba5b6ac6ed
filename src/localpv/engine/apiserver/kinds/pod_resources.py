"""What containers ask for and are limited to, and the class of service that follows from it."""

from __future__ import annotations

from collections.abc import Iterator

from localpv.api import fields, names, quantity
from localpv.api.fields import FieldError
from localpv.api.objects import Object
from localpv.api.quantity import Quantity
from localpv.engine.apiserver.kinds.checks import ZERO, read_amount

Errors = Iterator[FieldError]

STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})
POD_LEVEL = ("cpu", "memory")
_OF_OTHERS = frozenset({"ephemeral-storage", "pods", "services", "secrets", "configmaps", "storage"})
_HUGE_PAGES = "hugepages-"


def errors(resources: Object, path: str, *, claims: frozenset[str], of_pod: bool = False) -> Errors:
    """What is wrong with the resources of a container or a pod. `claims`: the resource claims that the pod has."""
    check_name = _pod_resource if of_pod else _container_resource
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for list_name, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            at = f"{path}.{list_name}[{name}]"
            if name not in POD_LEVEL:
                yield from check_name(name, at)
            yield from _amount_errors(name, amount, at)
    for name, amount in requests.items():
        yield from _within(name, amount, limits.get(name), path)
    wanted = limits.keys() | requests.keys()
    if any(name.startswith(_HUGE_PAGES) for name in wanted) and not wanted & {"cpu", "memory"}:
        yield fields.forbidden(path, "huge pages go with cpu or memory only")
    yield from _claims(resources.get("claims") or [], f"{path}.claims", claims)


def _container_resource(name: str, path: str) -> Errors:
    wrong = names.qualified_name(name)
    yield from fields.malformed(path, name, wrong)
    if not wrong and "/" not in name and name not in STANDARD and not name.startswith(_HUGE_PAGES):
        yield fields.invalid(path, name, "is no resource of containers; resources of your own need a domain in front")
    elif not wrong and not is_native(name) and not is_extended(name):
        yield fields.invalid(path, name, "is no name for an extended resource")


def _pod_resource(name: str, path: str) -> Errors:
    wrong = names.qualified_name(name)
    yield from fields.malformed(path, name, wrong)
    if wrong or name.startswith(_HUGE_PAGES):
        return
    if "/" in name or name in _OF_OTHERS:
        yield fields.not_supported(path, name, POD_LEVEL)
    else:
        yield fields.invalid(path, name, "is no resource; resources of your own need a domain in front")


def _amount_errors(name: str, amount: str, path: str) -> Errors:
    value = read_amount(amount)
    if value < ZERO:
        yield fields.invalid(path, amount, "must be greater than or equal to 0")
    if not is_native(name) and not is_whole(value):
        yield fields.invalid(path, amount, "must be a whole number: this resource cannot be split")
    if name.startswith(_HUGE_PAGES) and not _divides(name, value):
        yield fields.invalid(path, amount, "must be a multiple of the page size")


def _within(name: str, amount: str, limit: str | None, path: str) -> Errors:
    may_overcommit = is_native(name) and not name.startswith(_HUGE_PAGES)
    if limit is None:
        if not may_overcommit:
            yield fields.required(f"{path}.limits", f"{name} needs a limit, which is also the request")
        return
    if amount == limit:
        return
    asked, most = read_amount(amount), read_amount(limit)
    if asked != most and not may_overcommit:
        yield fields.invalid(f"{path}.requests", amount, f"must be equal to the {name} limit of {limit}")
    elif asked > most:
        yield fields.invalid(f"{path}.requests", amount, f"must be less than or equal to the {name} limit of {limit}")


def is_native(name: str) -> bool:
    """Resources that Kubernetes itself knows: without a domain, or with its own."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Resources of device plugins and the like."""
    if is_native(name) or name.startswith("requests."):
        return False
    return not names.qualified_name(f"requests.{name}")


def is_whole(value: Quantity) -> bool:
    return value.nanos % quantity.NANO == 0


def _divides(name: str, value: Quantity) -> bool:
    try:
        page = read_amount(name.removeprefix(_HUGE_PAGES))
    except ValueError:
        return False
    return page > ZERO and value.nanos % page.nanos == 0


def _claims(entries: list[Object], path: str, known: frozenset[str]) -> Errors:
    seen: dict[str, set[str]] = {}
    for index, entry in enumerate(entries):
        at, name, request = f"{path}[{index}]", entry.get("name", ""), entry.get("request", "")
        if not name:
            yield fields.required(at)
            continue
        if request:
            yield from fields.malformed(f"{at}.request", request, names.dns_label(request))
        # All of a claim overlaps with each part of it.
        parts = seen.setdefault(name, set())
        if (parts and not request) or not parts.isdisjoint(("", request)):
            yield fields.duplicate(at, f"{name}/{request}" if request else name)
        parts.add(request)
        if name not in known:
            yield fields.not_found(at, name)


def pod_errors(spec: Object, path: str, *, claims: frozenset[str]) -> Errors:
    """Resources given for the pod as a whole."""
    resources = spec.get("resources")
    if resources is None:
        return
    at = f"{path}.resources"
    if "claims" in resources:
        yield fields.forbidden(f"{at}.claims", "claims belong to containers")
    yield from errors(resources, at, claims=claims, of_pod=True)
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, amount in requests.items():
        total = container_total(spec, name)
        if total > read_amount(amount):
            yield fields.invalid(f"{at}.requests[{name}]", amount, f"is less than the containers ask for: {total}")
    for index, container in enumerate(spec.get("containers") or ()):
        for name, amount in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and read_amount(amount) > read_amount(limits[name]):
                # Kubernetes builds this path so.
                where = f"{at}.containers[{index}][{name}].limits"
                yield fields.invalid(where, amount, f"must be less than or equal to the pod's limit of {limits[name]}")


def default_pod(spec: Object) -> None:
    """Requests of the pod as a whole, where it has limits: what its containers ask for, else the limits."""
    resources = spec.get("resources")
    if not resources or not resources.get("limits"):
        return
    requests = dict(resources.get("requests") or {})
    for name in POD_LEVEL:
        if name not in requests and any(name in _requests(each) for each in _all_containers(spec)):
            requests[name] = str(container_total(spec, name))
    for name, amount in resources["limits"].items():
        if name in POD_LEVEL or name.startswith(_HUGE_PAGES):
            requests.setdefault(name, amount)
    resources["requests"] = requests


def container_total(spec: Object, name: str) -> Quantity:
    """What the containers of a pod need together at the moment when they need most.

    Init containers run one after the other and before the rest, except those that are restarted
    always: they keep running beside everything that comes after them.
    """
    running, peak = ZERO, ZERO
    for container in spec.get("initContainers") or ():
        amount = read_amount(_requests(container).get(name, "0"))
        if container.get("restartPolicy") == "Always":
            running = running + amount
            peak = max(peak, running)
        else:
            peak = max(peak, running + amount)
    for container in spec.get("containers") or ():
        running = running + read_amount(_requests(container).get(name, "0"))
    return max(peak, running)


def _requests(container: Object) -> Object:
    found: Object = (container.get("resources") or {}).get("requests") or {}
    return found


def _all_containers(spec: Object) -> Iterator[Object]:
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def quality_of_service(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort: in which order pods go when a node runs out of memory."""
    if (whole := spec.get("resources")) and (whole.get("requests") or whole.get("limits")):
        holders = [whole]
    else:
        holders = [container.get("resources") or {} for container in _all_containers(spec)]
    guaranteed, asked = True, False
    for resources in holders:
        for name in POD_LEVEL:
            request, limit = (_amount(resources, kind, name) for kind in ("requests", "limits"))
            asked = asked or request is not None or limit is not None
            guaranteed = guaranteed and limit is not None and (request is None or request == limit)
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _amount(resources: Object, kind: str, name: str) -> Quantity | None:
    given = (resources.get(kind) or {}).get(name)
    value = read_amount(given) if given is not None else ZERO
    return value if value > ZERO else None
