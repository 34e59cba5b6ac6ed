"""Kinds that are only stored: the rules of theirs that are more than a table."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from typing import Any

from localpv.api import fields, names, node_selector
from localpv.api.fields import FieldError
from localpv.api.objects import Object
from localpv.api.quantity import Quantity
from localpv.apiserver.kinds import cron, job, pod_names, pod_resources, pod_scheduling, pod_template, storageclass
from localpv.apiserver.kinds import workload_common as common
from localpv.apiserver.kinds.volume_access import ZERO, read_amount
from localpv.apiserver.kinds.volume_sources import csi_driver_name

Errors = Iterator[FieldError]

LONGEST_CONTROLLER = 250
HIGHEST_PRIORITY = 1_000_000_000
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
LONGEST_CRON_NAME = 52
"""A Job gets the name and eleven more characters, and its pods have at most 63."""

QUOTA_RESOURCES = frozenset(
    {
        *("cpu", "memory", "ephemeral-storage", "pods", "services", "replicationcontrollers", "resourcequotas"),
        *("secrets", "configmaps", "persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
        *("requests.cpu", "requests.memory", "requests.storage", "requests.ephemeral-storage"),
        *("limits.cpu", "limits.memory", "limits.ephemeral-storage"),
    }
)
COUNTED = frozenset(
    {
        *("pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps"),
        *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
    }
)
SCOPES = (
    *("BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating"),
    "VolumeAttributesClass",
)

# -- forms ---------------------------------------------------------------------------------------------------------


def address(text: str) -> list[str]:
    try:
        normal = str(ipaddress.ip_address(text))
    except ValueError:
        return ["must be an IP address, such as 10.9.8.7 or 2001:db8::ffff"]
    return [] if normal == text else [f"must be in its shortest form: {normal}"]


def network(text: str) -> list[str]:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return ["must be a network, such as 10.9.8.0/24 or 2001:db8::/64"]
    return [] if "/" in text else ["must be a network, such as 10.9.8.0/24"]


def host(text: str) -> list[str]:
    """A DNS name, or one with a star in front."""
    return names.dns_subdomain(f"star.{text[2:]}" if text.startswith("*.") else text)


def host_of_rule(text: str) -> list[str]:
    found = ["must be a DNS name, not an IP address"] if pod_names.family(text) else []
    return found + host(text)


def driver(text: str) -> list[str]:
    return [error.message for error in csi_driver_name(text, "")]


def controller(text: str) -> list[str]:
    domain, slash, rest = text.partition("/")
    if not domain or not slash or not rest:
        return ["must be a domain, a slash and a path, such as example.com/controller"]
    return names.dns_subdomain(domain)


def controller_length(spec: Object, path: str) -> Errors:
    if len(spec.get("controller", "")) > LONGEST_CONTROLLER:
        yield fields.too_long(f"{path}.controller", LONGEST_CONTROLLER)


def pool(text: str) -> list[str]:
    return [sentence for part in text.split("/") for sentence in names.dns_subdomain(part)]


# -- rules that look at several fields --------------------------------------------------------------------------------


def budget(spec: Object, path: str) -> Errors:
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield fields.invalid(path, spec, "minAvailable and maxUnavailable exclude each other")
    for key in ("minAvailable", "maxUnavailable"):
        if key in spec:
            yield from common.wrong_share(spec[key], f"{path}.{key}")


def peer(peer: Object, path: str) -> Errors:
    if not any(key in peer for key in ("podSelector", "namespaceSelector", "ipBlock")):
        yield fields.required(path, "one of podSelector, namespaceSelector and ipBlock is needed")
    elif "ipBlock" in peer and len(peer) > 1:
        yield fields.forbidden(path, "ipBlock stands alone")


def block(block: Object, path: str) -> Errors:
    cidr = block.get("cidr", "")
    if not cidr or network(cidr):
        return
    whole = ipaddress.ip_network(cidr, strict=False)
    for index, text in enumerate(block.get("except") or ()):
        if network(text):
            continue
        part: Any = ipaddress.ip_network(text, strict=False)
        if part.version != whole.version or part.prefixlen <= whole.prefixlen or not part.subnet_of(whole):
            yield fields.invalid(f"{path}.except[{index}]", text, "must be a part of cidr, and smaller")


def policy_port(port: Object, path: str) -> Errors:
    number, end = port.get("port"), port.get("endPort")
    if number is not None:
        yield from pod_names.port(number, f"{path}.port")
    if end is None:
        return
    if not isinstance(number, int):
        yield fields.invalid(f"{path}.endPort", end, "needs port to be a number")
        return
    if end < number:
        yield fields.invalid(f"{path}.endPort", end, "must be greater than or equal to port")
    yield from pod_names.port_number(end, f"{path}.endPort")


def policy_types(spec: Object) -> None:
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]


def ingress(spec: Object, path: str) -> Errors:
    if not spec.get("rules") and "defaultBackend" not in spec:
        yield fields.invalid(path, spec.get("rules"), "defaultBackend or rules are needed")


def backend(backend: Object, path: str) -> Errors:
    service, resource = backend.get("service"), backend.get("resource")
    if (service is None) == (resource is None):
        yield fields.invalid(path, "", "exactly one of service and resource is needed")
        return
    if service is None:
        yield from _reference(resource or {}, f"{path}.resource")
        return
    port = service.get("port") or {}
    name, number = port.get("name"), port.get("number")
    if name and number:
        yield fields.invalid(path, "", "a port has a name or a number, not both")
    elif name:
        for sentence in pod_names.port_name(name):
            yield fields.invalid(f"{path}.service.port.name", name, sentence)
    elif number:
        yield from pod_names.port_number(number, f"{path}.service.port.number")
    else:
        yield fields.required(path, "the name or the number of a port is needed")


def _reference(reference: Object, path: str) -> Errors:
    if group := reference.get("apiGroup"):
        for sentence in names.dns_subdomain(group):
            yield fields.invalid(f"{path}.apiGroup", group, sentence)
    for key in ("kind", "name"):
        if not reference.get(key):
            yield fields.required(f"{path}.{key}")
            continue
        for sentence in names.path_segment(reference[key]):
            yield fields.invalid(f"{path}.{key}", reference[key], sentence)


_IN_PATHS = ("//", "/./", "/../", "%2f", "%2F")
_AT_THE_END = ("/..", "/.")


def http_path(entry: Object, path: str) -> Errors:
    text, kind = entry.get("path", ""), entry.get("pathType")
    if kind in ("Exact", "Prefix"):
        if not text.startswith("/"):
            yield fields.invalid(f"{path}.path", text, "must begin with /")
        for part in _IN_PATHS:
            if part in text:
                yield fields.invalid(f"{path}.path", text, f"must not contain {part}")
        for end in _AT_THE_END:
            if text.endswith(end):
                yield fields.invalid(f"{path}.path", text, f"must not end with {end}")
    elif text and not text.startswith("/"):
        yield fields.invalid(f"{path}.path", text, "must begin with /")


def parameters(parameters: Object, path: str) -> Errors:
    yield from _reference(parameters, path)
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    if scope == "Namespace" and namespace is None:
        yield fields.required(f"{path}.namespace", "scope Namespace needs it")
    elif scope == "Cluster" and namespace is not None:
        yield fields.forbidden(f"{path}.namespace", "goes with scope Namespace only")


def ranges(spec: Object, path: str) -> Errors:
    cidrs = spec.get("cidrs") or []
    if len(cidrs) > 2:
        yield fields.invalid(f"{path}.cidrs", cidrs, "two are the most: one of each family")
    elif len(cidrs) == 2 and (":" in cidrs[0]) == (":" in cidrs[1]):
        yield fields.invalid(f"{path}.cidrs", cidrs, "must be one of each family")


def _replicas(spec: Object, path: str) -> Errors:
    least, most = spec.get("minReplicas", 1), spec.get("maxReplicas", 0)
    if most < 1:
        yield fields.invalid(f"{path}.maxReplicas", most, "must be greater than or equal to 1")
    if most < least:
        yield fields.invalid(f"{path}.maxReplicas", most, "must be greater than or equal to minReplicas")


def scaled(spec: Object, path: str) -> Errors:
    yield from _replicas(spec, path)
    version = (spec.get("scaleTargetRef") or {}).get("apiVersion", "")
    if "/" not in version:
        yield fields.invalid(f"{path}.scaleTargetRef.apiVersion", version, "must name a group and a version")
    measured = {metric.get("type") for metric in spec.get("metrics") or ()}
    if spec.get("minReplicas") == 0 and not measured & {"External", "Object"}:
        yield fields.forbidden(f"{path}.metrics", "to scale to 0 takes a metric of something other than the pods")


def complete_scaling(spec: Object) -> None:
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    if (behavior := spec.get("behavior")) is None:
        return
    percent, pods = ({"type": kind, "value": value, "periodSeconds": 15} for kind, value in _STEPS)
    up, down = behavior.setdefault("scaleUp", {}), behavior.setdefault("scaleDown", {})
    up.setdefault("stabilizationWindowSeconds", 0)
    up.setdefault("policies", [pods, percent])
    down.setdefault("policies", [dict(percent)])
    for direction in (up, down):
        direction.setdefault("selectPolicy", "Max")


_STEPS = (("Percent", 100), ("Pods", 4))


def target(target: Object, path: str) -> Errors:
    kind = target.get("type", "")
    if not kind:
        yield fields.required(f"{path}.type")
    if kind not in ("Utilization", "Value", "AverageValue"):
        yield fields.invalid(f"{path}.type", kind, "must be Utilization, Value or AverageValue")
    for key in ("value", "averageValue"):
        if key in target and read_amount(target[key]) <= ZERO:
            yield fields.invalid(f"{path}.{key}", target[key], "must be positive")


def measured(*choices: str) -> Callable[[Object, str], Errors]:
    """One of several measures in the target; the last is what is missing when there is none."""

    def check(source: Object, path: str) -> Errors:
        target = source.get("target") or {}
        present = [key for key in choices if key in target]
        if not present:
            yield fields.required(f"{path}.target.{choices[-1]}", f"one of {', '.join(choices)} is needed")

    return check


def queuing(queuing: Object, path: str) -> Errors:
    hand, queues = queuing.get("handSize", 0), queuing.get("queues", 0)
    if hand > queues:
        yield fields.invalid(f"{path}.handSize", hand, "cannot be more than queues")


def flow_rule(rule: Object, path: str) -> Errors:
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        yield fields.required(path, "resourceRules or nonResourceRules are needed")


def flow_resources(rule: Object, path: str) -> Errors:
    if not rule.get("namespaces") and not rule.get("clusterScope"):
        yield fields.required(f"{path}.namespaces", "needed unless clusterScope is true")
    for key in ("verbs", "apiGroups", "resources", "namespaces"):
        yield from _alone(rule, key, path)


def flow_paths(rule: Object, path: str) -> Errors:
    for key in ("verbs", "nonResourceURLs"):
        yield from _alone(rule, key, path)


def _alone(rule: Object, key: str, path: str) -> Errors:
    values = rule.get(key) or []
    if "*" in values and len(values) > 1:
        yield fields.invalid(f"{path}.{key}", values, "* stands alone")


def endpoint_address(address: Object, path: str) -> Errors:
    text = address.get("ip", "")
    yield from pod_names.address(text, f"{path}.ip")
    yield from _not_reachable(text, f"{path}.ip")


def _not_reachable(text: str, path: str) -> Errors:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return
    if address.is_unspecified or address.is_loopback or address.is_link_local:
        yield fields.invalid(path, text, "must be an address that others can reach")


def subset(subset: Object, path: str) -> Errors:
    if not subset.get("addresses") and not subset.get("notReadyAddresses"):
        yield fields.required(path, "addresses or notReadyAddresses are needed")
    ports = subset.get("ports") or []
    for index, port in enumerate(ports):
        if len(ports) > 1 and not port.get("name"):
            yield fields.required(f"{path}.ports[{index}].name")
        yield from pod_names.port_number(port.get("port", 0), f"{path}.ports[{index}].port")


def slice(obj: Object) -> Errors:
    kind = obj.get("addressType")
    for index, endpoint in enumerate(obj.get("endpoints") or ()):
        path = f"endpoints[{index}].addresses"
        for place, text in enumerate(endpoint.get("addresses") or ()):
            here = f"{path}[{place}]"
            if kind == "FQDN":
                if problems := names.dns_subdomain(text):
                    yield fields.invalid(here, text, problems[0])
                elif "." not in text:
                    yield fields.invalid(here, text, "must be a name with a domain")
            elif not pod_names.family(text):
                yield fields.invalid(here, text, "must be an IP address")
            elif pod_names.family(text) != (6 if kind == "IPv6" else 4):
                yield fields.invalid(path, text, f"must be an {kind} address")
            else:
                yield from _not_reachable(text, here)


def limit_types(item: Object, path: str) -> Errors:
    kind = item.get("type", "")
    if kind not in ("Container", "Pod", "PersistentVolumeClaim") and ("/" not in kind or names.qualified_name(kind)):
        yield fields.invalid(f"{path}.type", kind, "must be Container, Pod, PersistentVolumeClaim or have a domain")
    if kind == "Pod":
        for key in ("default", "defaultRequest"):
            if item.get(key):
                yield fields.forbidden(f"{path}.{key}", "does not go with type Pod")
    if kind == "PersistentVolumeClaim" and not any("storage" in (item.get(key) or {}) for key in ("min", "max")):
        yield fields.required(f"{path}.limits", "min or max of storage is needed")
    for low, high, told in _ORDER:
        for name, amount in (item.get(low) or {}).items():
            limit = (item.get(high) or {}).get(name)
            if limit is not None and read_amount(amount) > read_amount(limit):
                yield fields.invalid(f"{path}.{told}[{name}]", amount, f"{low} cannot be more than {high}")
    for name, ratio in (item.get("maxLimitRequestRatio") or {}).items():
        if read_amount(ratio) < _ONE:
            yield fields.invalid(f"{path}.maxLimitRequestRatio[{name}]", ratio, "must be 1 or more")


_ONE = Quantity.parse(1)
_ORDER = (
    ("min", "max", "min"),
    ("min", "defaultRequest", "defaultRequest"),
    ("min", "default", "default"),
    ("defaultRequest", "max", "defaultRequest"),
    ("defaultRequest", "default", "defaultRequest"),
    ("default", "max", "default"),
)
"""What may not be more than what, and where that is told."""


def complete_limits(item: Object) -> None:
    """Limits of containers follow from each other: the default from the largest, the request from the default."""
    if item.get("type") != "Container":
        return
    limits = {**(item.get("max") or {}), **(item.get("default") or {})}
    requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
    for key, amounts in (("default", limits), ("defaultRequest", requests)):
        if amounts:
            item[key] = amounts


def quota(spec: Object, path: str) -> Errors:
    yield from _amounts(spec.get("hard") or {}, f"{path}.hard")
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in SCOPES:
            yield fields.invalid(f"{path}.scopes", scopes, f"{scope} is no scope")
    for one in ("BestEffort", "Terminating"):
        if one in scopes and f"Not{one}" in scopes:
            yield fields.invalid(f"{path}.scopes", scopes, f"{one} and Not{one} exclude each other")


def quota_status(status: Object, path: str) -> Errors:
    for key in ("hard", "used"):
        yield from _amounts(status.get(key) or {}, f"{path}.{key}")


def _amounts(amounts: Object, path: str) -> Errors:
    for name, amount in amounts.items():
        here = f"{path}[{name}]"
        for sentence in names.qualified_name(name):
            yield fields.invalid(here, name, sentence)
        if (
            "/" not in name
            and name not in QUOTA_RESOURCES
            and not name.startswith(("hugepages-", "requests.hugepages-"))
        ):
            yield fields.invalid(here, name, "is no resource that a quota can be about, and has no domain")
        value = read_amount(amount)
        if value < ZERO:
            yield fields.invalid(here, amount, "must be greater than or equal to 0")
        if name in COUNTED and not pod_resources.is_whole(value):
            yield fields.invalid(here, amount, "must be a whole number")


def count(request: Object, path: str) -> Errors:
    mode, count = request.get("allocationMode"), request.get("count", 0)
    if mode == "All" and count:
        yield fields.invalid(f"{path}.count", count, "does not go with allocationMode All")
    elif mode == "ExactCount" and count < 1:
        yield fields.invalid(f"{path}.count", count, "must be greater than or equal to 1")


def named(entry: Object, path: str) -> Errors:
    for sentence in names.dns_label(entry.get("name", "")):
        yield fields.invalid(f"{path}.name", entry.get("name", ""), sentence)


def named_request(request: Object, path: str) -> Errors:
    yield from named(request, path)
    yield from count(request, path)


def complete_request(request: Object) -> None:
    if request.get("allocationMode") == "ExactCount" and not request.get("count"):
        request["count"] = 1


def on_nodes(spec: Object, path: str) -> Errors:
    choices = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
    present = [key for key in choices if spec.get(key) not in (None, "", False)]
    if not present:
        yield fields.required(path, f"exactly one of {', '.join(choices)} is needed")
    elif len(present) > 1:
        yield fields.invalid(path, present, f"only one of {', '.join(choices)} can be there")
    if "devices" in spec and "sharedCounters" in spec:
        yield fields.invalid(path, "", "devices and sharedCounters exclude each other")
    if (selector := spec.get("nodeSelector")) is not None:
        yield from node_selector.validate(selector, f"{path}.nodeSelector")
        if len(terms := selector.get("nodeSelectorTerms") or ()) != 1:
            yield fields.invalid(f"{path}.nodeSelector.nodeSelectorTerms", terms, "must be exactly one")


def cron_spec(spec: Object, path: str) -> Errors:
    schedule = spec.get("schedule", "")
    if schedule and (problem := cron.wrong(schedule)):
        yield fields.invalid(f"{path}.schedule", schedule, problem)
    if "timeZone" in spec and (problem := cron.wrong_zone(spec["timeZone"])):
        yield fields.invalid(f"{path}.timeZone", spec["timeZone"], problem)
    wanted: Object = {"metadata": {}, "spec": dict((spec.get("jobTemplate") or {}).get("spec") or {})}
    job.Job().default(wanted)
    for error in job.wrong_spec(wanted["spec"]):
        yield FieldError(f"{path}.jobTemplate.{error.field}", error.reason, error.message)


def complete_cron(spec: Object) -> None:
    template = spec.setdefault("jobTemplate", {})
    template.setdefault("metadata", {})
    inner = template.setdefault("spec", {})
    pod_template.default_template(inner.setdefault("template", {}))


def cron_job(obj: Object) -> Errors:
    name = obj["metadata"].get("name", "")
    if len(name) > LONGEST_CRON_NAME:
        yield fields.invalid("metadata.name", name, f"must be no more than {LONGEST_CRON_NAME} characters")


def ingress_class_of(obj: Object) -> Errors:
    told = (obj["metadata"].get("annotations") or {}).get(_CLASS)
    wanted = obj["spec"].get("ingressClassName")
    if told is not None and wanted is not None and told != wanted:
        yield fields.invalid(f"annotations.{_CLASS}", told, "must be the same as ingressClassName")


_CLASS = "kubernetes.io/ingress.class"


def priority_class(obj: Object) -> Errors:
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    if name.startswith("system-"):
        if SYSTEM_PRIORITIES.get(name) != value or obj.get("globalDefault"):
            yield fields.forbidden("metadata.name", "names that begin with system- are those of Kubernetes")
    elif value > HIGHEST_PRIORITY:
        yield fields.forbidden("value", f"can be at most {HIGHEST_PRIORITY}")


def runtime_class(obj: Object) -> Errors:
    for sentence in names.dns_label(obj.get("handler", "")):
        yield fields.invalid("handler", obj.get("handler", ""), sentence)
    scheduling = obj.get("scheduling") or {}
    yield from names.validate_labels(scheduling.get("nodeSelector") or {}, "scheduling.nodeSelector")
    yield from pod_scheduling.toleration_errors(scheduling.get("tolerations") or [], "scheduling.tolerations")


def attributes(obj: Object) -> Errors:
    for sentence in names.qualified_name(obj.get("driverName", "").lower()) if obj.get("driverName") else ():
        yield fields.invalid("driverName", obj["driverName"], sentence)
    if not obj.get("parameters"):
        yield fields.required("parameters")
    yield from storageclass.wrong_parameters(obj.get("parameters") or {})


def flow_schema(obj: Object) -> Errors:
    if obj["spec"].get("matchingPrecedence") == 1 and obj["metadata"].get("name") != "exempt":
        yield fields.invalid("spec.matchingPrecedence", 1, "is that of the schema exempt")


def level(obj: Object) -> Errors:
    kind = obj["spec"].get("type")
    if (obj["metadata"].get("name") == "exempt") != (kind == "Exempt"):
        yield fields.invalid("spec.type", kind, "is Exempt for the level exempt, and for no other")


def changed_ranges(obj: Object, old: Object) -> Errors:
    """A second range may be added; the first stays."""
    new, before = obj["spec"].get("cidrs") or [], old["spec"].get("cidrs") or []
    if len(new) < len(before) or len(new) > 2:
        yield fields.invalid("spec.cidrs", new, "field is immutable")
        return
    for index, cidr in enumerate(before):
        if new[index] != cidr:
            yield fields.invalid(f"spec.cidrs[{index}]", new[index], "field is immutable")
