"""Kinds that are only stored. Read with the first table of one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from localpv.api import selectors
from localpv.api.objects import Object
from localpv.engine.apiserver.tables import layout
from localpv.engine.apiserver.tables.layout import AGE, NAME, NONE, PLAIN, UNSET, Layout, column, wide

_Cell = Callable[[Object], Any]
_Column = tuple[Object, _Cell]

_FEW = 3
_FEW_METRICS = 2
_ADDRESS_WIDTH = 16


def _layout(*columns: _Column, after_age: tuple[_Column, ...] = ()) -> Layout:
    """Name, some columns, age, more columns."""

    def cells(obj: Object, now: float) -> list[Any]:
        return [
            obj["metadata"]["name"],
            *(cell(obj) for _, cell in columns),
            layout.age(obj, now),
            *(cell(obj) for _, cell in after_age),
        ]

    return Layout([NAME, *(each for each, _ in columns), AGE, *(each for each, _ in after_age)], cells)


def _at(path: str, default: Any = "") -> _Cell:
    """What stands at a path of the object."""
    keys = path.split(".")

    def cell(obj: Object) -> Any:
        value: Any = obj
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return default if value is None else value

    return cell


def _few(texts: Iterable[str], *, empty: str) -> str:
    found = list(texts)
    shown = ",".join(found[:_FEW])
    return f"{shown} + {len(found) - _FEW} more..." if len(found) > _FEW else shown or empty


def _endpoints(obj: Object) -> str:
    subsets = obj.get("subsets") or ()
    # Only the few that are shown are made: there are as many as ports times addresses.
    shown = list(islice(_reached(subsets), _FEW))
    count = sum(max(len(each.get("ports") or ()), 1) * len(each.get("addresses") or ()) for each in subsets)
    return ",".join(shown) + (f" + {count - _FEW} more..." if count > _FEW else "") or NONE


def _reached(subsets: Iterable[Object]) -> Iterator[str]:
    for subset in subsets:
        for port in [f":{port['port']}" for port in subset.get("ports") or ()] or [""]:
            for address in subset.get("addresses") or ():
                ip = address["ip"]
                yield f"[{ip}]{port}" if port and ":" in ip else f"{ip}{port}"


def _slice_ports(obj: Object) -> str:
    ports = obj.get("ports") or ()
    return _few((str(port.get("port") or port.get("name") or "*") for port in ports), empty=UNSET)


def _slice_addresses(obj: Object) -> str:
    endpoints = obj.get("endpoints") or ()
    return _few((address for each in endpoints for address in each.get("addresses") or ()), empty=UNSET)


def _quota(limits: bool) -> _Cell:
    def cell(obj: Object) -> str:
        status = obj.get("status") or {}
        used, hard = status.get("used") or {}, status.get("hard") or {}
        chosen = [name for name in sorted(hard) if name.startswith("limits.") == limits]
        return ", ".join(f"{name}: {used.get(name, 0)}/{hard[name]}" for name in chosen)

    return cell


def _metrics(obj: Object) -> str:
    now = (obj.get("status") or {}).get("currentMetrics") or []
    wanted = obj["spec"].get("metrics") or []
    found = [_metric(metric, now[index] if index < len(now) else {}) for index, metric in enumerate(wanted)]
    shown = ", ".join(found[:_FEW_METRICS])
    if len(found) > _FEW_METRICS:
        return f"{shown} + {len(found) - _FEW_METRICS} more..."
    return shown or NONE


def _metric(metric: Object, status: Object) -> str:
    kind = metric.get("type", "")
    member = kind[:1].lower() + kind[1:]
    source = metric.get(member)
    if not source:
        return "<unknown type>"
    target, current = source.get("target") or {}, (status.get(member) or {}).get("current") or {}
    name = f"{source['name']}: " if "name" in source else ""
    if "averageValue" in target:
        average = " (avg)" if kind in ("External", "Object") else ""
        return f"{name}{current.get('averageValue', layout.UNKNOWN)}/{target['averageValue']}{average}"
    if not name:
        return f"{current.get('value', layout.UNKNOWN)}/{target.get('value', '')}"
    share = f"{current['averageUtilization']}%" if "averageUtilization" in current else layout.UNKNOWN
    wanted = f"{target['averageUtilization']}%" if "averageUtilization" in target else "<auto>"
    return f"{name}{share}/{wanted}"


def _reference(obj: Object) -> str:
    target = obj["spec"].get("scaleTargetRef") or {}
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _cron_job(obj: Object, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    containers = ((job.get("template") or {}).get("spec") or {}).get("containers") or ()
    last = status.get("lastScheduleTime")
    return [
        obj["metadata"]["name"],
        spec.get("schedule", ""),
        spec.get("timeZone", NONE),
        str(spec["suspend"]) if "suspend" in spec else UNSET,
        len(status.get("active") or ()),
        layout.since(last, now) if last else NONE,
        layout.age(obj, now),
        ",".join(each["name"] for each in containers),
        ",".join(each.get("image", "") for each in containers),
        str(selectors.from_object(job.get("selector"))) or NONE,
    ]


def _hosts(obj: Object) -> str:
    rules = obj["spec"].get("rules") or ()
    return _few((rule["host"] for rule in rules if rule.get("host")), empty="*")


def _addresses(obj: Object) -> str:
    points = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    found = ",".join(sorted({point.get("ip") or point.get("hostname") or "" for point in points} - {""}))
    return found if len(found) <= _ADDRESS_WIDTH else f"{found[: _ADDRESS_WIDTH - 3]}..."


def _parameters(obj: Object) -> str:
    given = obj["spec"].get("parameters")
    if given is None:
        return NONE
    group = f".{given['apiGroup']}" if "apiGroup" in given else ""
    return f"{given.get('kind', '')}{group}/{given.get('name', '')}"


def _parent(obj: Object) -> str:
    parent = obj["spec"].get("parentRef")
    if parent is None:
        return NONE
    group = f".{parent['group']}" if parent.get("group") else ""
    parts = (f"{parent.get('resource', '')}{group}".lower(), parent.get("namespace"), parent.get("name"))
    return "/".join(part for part in parts if part)


def _selector(obj: Object) -> str:
    return str(selectors.from_object(obj["spec"].get("podSelector"))) or NONE


def _missing_level(obj: Object) -> str:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((each.get("status", "") for each in conditions if each.get("type") == "Dangling"), "?")


def _claim_state(obj: Object) -> str:
    status, deleting = obj.get("status") or {}, bool(obj["metadata"].get("deletionTimestamp"))
    states = ["deleted"] if deleting else []
    if "allocation" in status:
        states += ["allocated", *(["reserved"] if status.get("reservedFor") else [])]
    elif not deleting:
        states.append("pending")
    return ",".join(states)


def _integer(name: str, description: str) -> Object:
    return column(name, description, type="integer")


LAYOUTS = {
    "Endpoints": _layout((column("Endpoints", "Addresses and ports behind the service"), _endpoints)),
    "LimitRange": PLAIN,
    "ResourceQuota": _layout(
        (column("Request", "What is asked for, of what may be"), _quota(limits=False)),
        (column("Limit", "What may be used, of what may be"), _quota(limits=True)),
    ),
    "HorizontalPodAutoscaler": _layout(
        (column("Reference", "What is scaled"), _reference),
        (column("Targets", "Measured and wanted"), _metrics),
        (column("MinPods", "Pods that there are at least"), lambda obj: str(obj["spec"].get("minReplicas", UNSET))),
        (column("MaxPods", "Pods that there are at most"), _at("spec.maxReplicas", 0)),
        (column("Replicas", "Pods that there are"), _at("status.currentReplicas", 0)),
    ),
    "CronJob": Layout(
        [
            NAME,
            column("Schedule", "When Jobs are to be made"),
            column("Timezone", "Whose time that is"),
            column("Suspend", "Whether none is made for now", type="boolean"),
            _integer("Active", "Jobs that run"),
            column("Last Schedule", "How long ago the last one was made"),
            AGE,
            wide("Containers", "Names of the containers in the template"),
            wide("Images", "Images of the containers in the template"),
            wide("Selector", "Labels of the pods of its Jobs"),
        ],
        _cron_job,
    ),
    "EndpointSlice": _layout(
        (column("AddressType", "What the addresses are"), _at("addressType")),
        (column("Ports", "Ports of every address"), _slice_ports),
        (column("Endpoints", "The addresses"), _slice_addresses),
    ),
    "FlowSchema": _layout(
        (column("PriorityLevel", "Level of the requests"), _at("spec.priorityLevelConfiguration.name")),
        (column("MatchingPrecedence", "The smallest that fits counts"), _at("spec.matchingPrecedence", 0)),
        (column("DistinguisherMethod", "What tells two flows apart"), _at("spec.distinguisherMethod.type", NONE)),
        after_age=((column("MissingPL", "Whether the level does not exist"), _missing_level),),
    ),
    "PriorityLevelConfiguration": _layout(
        (column("Type", "Whether requests are limited"), _at("spec.type")),
        (column("NominalConcurrencyShares", "Its share"), _at("spec.limited.nominalConcurrencyShares", NONE)),
        (column("Queues", "How many queues there are"), _at("spec.limited.limitResponse.queuing.queues", NONE)),
        (column("HandSize", "Queues that one flow uses"), _at("spec.limited.limitResponse.queuing.handSize", NONE)),
        (
            column("QueueLengthLimit", "How long a queue may get"),
            _at("spec.limited.limitResponse.queuing.queueLengthLimit", NONE),
        ),
    ),
    "Ingress": _layout(
        (column("Class", "Who is to route"), _at("spec.ingressClassName", NONE)),
        (column("Hosts", "Names that it is about"), _hosts),
        (column("Address", "Where it can be reached"), _addresses),
        (column("Ports", "Ports that it listens on"), lambda obj: "80, 443" if obj["spec"].get("tls") else "80"),
    ),
    "IngressClass": _layout(
        (column("Controller", "Who looks after the class"), _at("spec.controller")),
        (column("Parameters", "More for that controller"), _parameters),
    ),
    # Kubernetes has no column for the age here.
    "IPAddress": Layout(
        [NAME, column("ParentRef", "What has the address")], lambda obj, now: [obj["metadata"]["name"], _parent(obj)]
    ),
    "NetworkPolicy": _layout((column("Pod-Selector", "Labels of the pods that it is about"), _selector)),
    "ServiceCIDR": _layout(
        (column("CIDRs", "Networks for services"), lambda obj: ",".join(obj["spec"].get("cidrs") or ()))
    ),
    "RuntimeClass": _layout((column("Handler", "What nodes call the runtime"), _at("handler"))),
    "PodDisruptionBudget": _layout(
        (column("Min Available", "Pods that must stay"), lambda obj: str(obj["spec"].get("minAvailable", "N/A"))),
        (column("Max Unavailable", "Pods that may go"), lambda obj: str(obj["spec"].get("maxUnavailable", "N/A"))),
        (_integer("Allowed Disruptions", "Pods that may be evicted now"), _at("status.disruptionsAllowed", 0)),
    ),
    "DeviceClass": _layout(),
    "ResourceClaim": _layout((column("State", "Whether devices were found"), _claim_state)),
    "ResourceClaimTemplate": _layout(),
    "ResourceSlice": _layout(
        (column("Node", "Node that has the devices"), _at("spec.nodeName")),
        (column("Driver", "Who looks after the devices"), _at("spec.driver")),
        (column("Pool", "The slices that belong together"), _at("spec.pool.name")),
    ),
    "PriorityClass": _layout(
        (_integer("Value", "Priority of the pods"), _at("value", 0)),
        (column("Global-Default", "Whether it is that of all others", type="boolean"), _at("globalDefault", False)),
        after_age=((column("PreemptionPolicy", "Whether others make room"), _at("preemptionPolicy")),),
    ),
    "VolumeAttributesClass": _layout((column("DriverName", "Driver whose volumes can have it"), _at("driverName"))),
}  # fmt: skip
"""By kind: none of these names is used twice."""
