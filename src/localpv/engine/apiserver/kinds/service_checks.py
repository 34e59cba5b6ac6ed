"""Whether the parts of a Service are right: ports, affinity, load balancer, traffic policies."""

from __future__ import annotations

import ipaddress

from localpv.api import fields, names, networks
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import pod_names
from localpv.engine.apiserver.kinds import service_addresses as addresses

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_SOURCE_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_HINTS = "service.kubernetes.io/topology-aware-hints"
_MAX_AFFINITY_SECONDS = 86400


def reachable_from_outside(spec: Object) -> bool:
    return spec["type"] in ("LoadBalancer", "NodePort") or bool(spec["type"] == "ClusterIP" and spec.get("externalIPs"))


def needs_node_ports(spec: Object) -> bool:
    return spec["type"] == "NodePort" or bool(
        spec["type"] == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True)
    )


def needs_health_port(spec: Object) -> bool:
    return bool(spec["type"] == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local")


def wrong_external_name(name: str) -> FieldErrors:
    # A dot at the end says that the name is complete.
    host = name.removesuffix(".")
    if not host:
        return [fields.required("spec.externalName")]
    return [fields.invalid("spec.externalName", host, problem) for problem in names.dns_subdomain(host)]


def wrong_ports(ports: list[Object], kind: str) -> FieldErrors:
    errors: FieldErrors = []
    seen_names: set[str] = set()
    seen_ports: set[tuple[str, int]] = set()
    seen_node_ports: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name", "")
        if name:
            errors += [fields.invalid(f"{path}.name", name, problem) for problem in names.dns_label(name)]
            if name in seen_names:
                errors.append(fields.duplicate(f"{path}.name", name))
            seen_names.add(name)
        elif len(ports) > 1:
            errors.append(fields.required(f"{path}.name", "with more than one port each needs a name"))
        number, protocol = port.get("port", 0), port["protocol"]
        if not 1 <= number <= 65535:
            errors.append(fields.invalid(f"{path}.port", number, "must be between 1 and 65535, inclusive"))
        if protocol not in _PROTOCOLS:
            errors.append(fields.not_supported(f"{path}.protocol", protocol, _PROTOCOLS))
        errors += _wrong_target(port["targetPort"], f"{path}.targetPort")
        if (app := port.get("appProtocol")) is not None:
            errors += [fields.invalid(f"{path}.appProtocol", app, problem) for problem in names.qualified_name(app)]
        if (protocol, number) in seen_ports:
            errors.append(fields.duplicate(path, {"port": number, "protocol": protocol}))
        seen_ports.add((protocol, number))
        if node_port := port.get("nodePort"):
            if kind == "ClusterIP":
                errors.append(fields.forbidden(f"{path}.nodePort", "a Service of type ClusterIP has no node ports"))
            if (protocol, node_port) in seen_node_ports:
                errors.append(fields.invalid(f"{path}.nodePort", node_port, "two ports cannot share a node port"))
            seen_node_ports.add((protocol, node_port))
            if needs_node_ports({"type": kind}) and node_port not in addresses.NODE_PORTS:
                low, high = addresses.NODE_PORTS.start, addresses.NODE_PORTS.stop - 1
                errors.append(fields.invalid(f"{path}.nodePort", node_port, f"node ports are {low} to {high}"))
    return errors


def _wrong_target(target: int | str, path: str) -> FieldErrors:
    if isinstance(target, int):
        if 1 <= target <= 65535:
            return []
        return [fields.invalid(path, target, "must be between 1 and 65535, inclusive")]
    return [fields.invalid(path, target, problem) for problem in pod_names.port_name(target)]


def wrong_affinity(spec: Object) -> FieldErrors:
    kind = spec["sessionAffinity"]
    if kind == "None":
        return []
    if kind != "ClientIP":
        return [fields.not_supported("spec.sessionAffinity", kind, ("ClientIP", "None"))]
    seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
    if 1 <= seconds <= _MAX_AFFINITY_SECONDS:
        return []
    path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
    return [fields.invalid(path, seconds, f"must be between 1 and {_MAX_AFFINITY_SECONDS}")]


def wrong_external_address(text: str, path: str) -> FieldErrors:
    if not addresses.is_address(text):
        return [fields.invalid(path, text, addresses.NO_ADDRESS)]
    address = ipaddress.ip_address(text)
    if address.is_unspecified or address.is_loopback or address.is_link_local or _is_local_multicast(address):
        return [fields.invalid(path, text, "must not be an unspecified, loopback or link-local address")]
    return []


def _is_local_multicast(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    text = address.exploded
    return text.startswith("224.0.0.") if address.version == 4 else text.startswith("ff02:")


def wrong_load_balancer(obj: Object) -> FieldErrors:
    spec = obj["spec"]
    balanced = spec["type"] == "LoadBalancer"
    only = "only a Service of type LoadBalancer may have it"
    errors: FieldErrors = []
    annotation = (obj["metadata"].get("annotations") or {}).get(_SOURCE_RANGES)
    if ranges := spec.get("loadBalancerSourceRanges"):
        # The capital letter is part of the API's answer.
        path = "spec.LoadBalancerSourceRanges"
        if not balanced:
            errors.append(fields.forbidden(path, only))
        for index, text in enumerate(ranges):
            errors += _wrong_range(text.strip(), f"{path}[{index}]")
    elif annotation is not None:
        path = f"metadata.annotations[{_SOURCE_RANGES}]"
        if not balanced:
            errors.append(fields.forbidden(path, only))
        for text in annotation.split(",") if annotation.strip() else ():
            errors += _wrong_range(text.strip(), path)
    if not balanced:
        keys = ("allocateLoadBalancerNodePorts", "loadBalancerClass")
        return errors + [fields.forbidden(f"spec.{key}", only) for key in keys if spec.get(key) is not None]
    if (name := spec.get("loadBalancerClass")) is not None:
        errors += [fields.invalid("spec.loadBalancerClass", name, problem) for problem in names.qualified_name(name)]
    return errors


def _wrong_range(text: str, path: str) -> FieldErrors:
    if networks.read(text):
        return []
    return [fields.invalid(path, text, "must be a network, such as 10.9.8.0/24 or 2001:db8::/64")]


def wrong_policies(spec: Object) -> FieldErrors:
    errors = []
    values = ("Cluster", "Local")
    external = spec.get("externalTrafficPolicy", "")
    if not reachable_from_outside(spec):
        if external:
            why = "only a Service that can be reached from outside may have it"
            errors.append(fields.invalid("spec.externalTrafficPolicy", external, why))
    elif external not in values:
        errors.append(fields.not_supported("spec.externalTrafficPolicy", external, values))
    if (port := spec.get("healthCheckNodePort")) and not needs_health_port(spec):
        why = "needs type LoadBalancer and externalTrafficPolicy Local"
        errors.append(fields.invalid("spec.healthCheckNodePort", port, why))
    internal = spec.get("internalTrafficPolicy")
    if internal is not None and internal not in values:
        errors.append(fields.not_supported("spec.internalTrafficPolicy", internal, values))
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        errors.append(fields.not_supported("spec.trafficDistribution", distribution, _DISTRIBUTIONS))
    return errors


def wrong_ingress(entry: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    address, mode, host = entry.get("ip"), entry.get("ipMode"), entry.get("hostname")
    if address and not addresses.is_address(address):
        errors.append(fields.invalid(f"{path}.ip", address, addresses.NO_ADDRESS))
    if mode is None:
        if address:
            errors.append(fields.required(f"{path}.ipMode", "an address needs it"))
    elif not address:
        errors.append(fields.forbidden(f"{path}.ipMode", "makes no sense without an address"))
    elif mode not in ("Proxy", "VIP"):
        errors.append(fields.not_supported(f"{path}.ipMode", mode, ("Proxy", "VIP")))
    if host:
        errors += [fields.invalid(f"{path}.hostname", host, problem) for problem in names.dns_subdomain(host)]
        if addresses.is_address(host):
            errors.append(fields.invalid(f"{path}.hostname", host, "must be a name, not an address"))
    return errors


def warnings(obj: Object) -> list[str]:
    spec = obj["spec"]
    found = []
    if _HINTS in (obj["metadata"].get("annotations") or {}):
        found.append(f"metadata.annotations[{_HINTS}]: deprecated; use service.kubernetes.io/topology-mode")
    if addresses.is_headless(spec):
        ignored = [key for key in ("loadBalancerIP", "externalIPs") if spec.get(key)]
        ignored += ["sessionAffinity"] if spec["sessionAffinity"] != "None" else []
        found += [f"spec.{key}: has no effect on a headless Service" for key in ignored]
    if spec["type"] == "ExternalName" and spec.get("externalIPs"):
        found.append("spec.externalIPs: has no effect with type ExternalName")
    if spec["type"] != "ExternalName" and spec.get("externalName"):
        found.append("spec.externalName: only has an effect with type ExternalName")
    if spec.get("trafficDistribution") == "PreferClose":
        found.append("spec.trafficDistribution: PreferClose is deprecated; use PreferSameZone")
    return found
