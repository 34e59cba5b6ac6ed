"""Services: ports and names for a set of pods. Headless ones are what StatefulSets need; others get an address."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from localpv.api import fields, names
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import checks, rules
from localpv.engine.apiserver.kinds import service_addresses as addresses
from localpv.engine.apiserver.kinds.base import Strategy
from localpv.engine.apiserver.kinds.rules import Field

_SOURCE_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_HINTS = "service.kubernetes.io/topology-aware-hints"
_MAX_AFFINITY_SECONDS = 86400
_PORT_RANGE = "must be between 1 and 65535, inclusive"
_PORT = (
    Field("port", least=1, most=65535, said=_PORT_RANGE, unset=0),
    Field("protocol", enum=("SCTP", "TCP", "UDP")),
)
_APP_PROTOCOL = (Field("appProtocol", form=names.qualified_name),)
_BALANCED = (Field("loadBalancerClass", form=names.qualified_name),)
_EXTERNAL_TRAFFIC = (Field("externalTrafficPolicy", enum=("Cluster", "Local"), unset=""),)
_TRAFFIC = (
    Field("internalTrafficPolicy", enum=("Cluster", "Local")),
    Field("trafficDistribution", enum=("PreferClose", "PreferSameZone", "PreferSameNode")),
)
_CLIENT_IP_RANGE = f"must be between 1 and {_MAX_AFFINITY_SECONDS}"
_CLIENT_IP = (Field("timeoutSeconds", least=1, most=_MAX_AFFINITY_SECONDS, said=_CLIENT_IP_RANGE),)


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
    return fields.malformed("spec.externalName", host, names.dns_subdomain(host))


def wrong_ports(ports: list[Object], kind: str) -> FieldErrors:
    errors: FieldErrors = []
    seen_names: set[str] = set()
    seen_ports: set[tuple[str, int]] = set()
    seen_node_ports: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name", "")
        if name:
            errors += fields.malformed(f"{path}.name", name, names.dns_label(name))
            if name in seen_names:
                errors.append(fields.duplicate(f"{path}.name", name))
            seen_names.add(name)
        elif len(ports) > 1:
            errors.append(fields.required(f"{path}.name", "with more than one port each needs a name"))
        number, protocol = port.get("port", 0), port["protocol"]
        errors += rules.errors(_PORT, port, path)
        errors += _wrong_target(port["targetPort"], f"{path}.targetPort")
        errors += rules.errors(_APP_PROTOCOL, port, path)
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
        return [] if 1 <= target <= 65535 else [fields.invalid(path, target, _PORT_RANGE)]
    return fields.malformed(path, target, checks.port_name(target))


def wrong_affinity(spec: Object) -> FieldErrors:
    kind = spec["sessionAffinity"]
    if kind == "None":
        return []
    if kind != "ClientIP":
        return [fields.not_supported("spec.sessionAffinity", kind, ("ClientIP", "None"))]
    return rules.errors(_CLIENT_IP, spec["sessionAffinityConfig"]["clientIP"], "spec.sessionAffinityConfig.clientIP")


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
    return errors + rules.errors(_BALANCED, spec, "spec")


def _wrong_range(text: str, path: str) -> FieldErrors:
    if checks.read_network(text):
        return []
    return [fields.invalid(path, text, "must be a network, such as 10.9.8.0/24 or 2001:db8::/64")]


def wrong_policies(spec: Object) -> FieldErrors:
    errors = []
    external = spec.get("externalTrafficPolicy", "")
    if not reachable_from_outside(spec):
        if external:
            why = "only a Service that can be reached from outside may have it"
            errors.append(fields.invalid("spec.externalTrafficPolicy", external, why))
    else:
        errors += rules.errors(_EXTERNAL_TRAFFIC, spec, "spec")
    if (port := spec.get("healthCheckNodePort")) and not needs_health_port(spec):
        why = "needs type LoadBalancer and externalTrafficPolicy Local"
        errors.append(fields.invalid("spec.healthCheckNodePort", port, why))
    return errors + rules.errors(_TRAFFIC, spec, "spec")


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
        errors += fields.malformed(f"{path}.hostname", host, names.dns_subdomain(host))
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


_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITY_SECONDS = 10800


class Service(Strategy):
    generation = False
    allow_create_on_update = True
    returns_deleted = True

    def __init__(self, *, allocate: Callable[[], str], allocate_port: Callable[[], int] = lambda: 0) -> None:
        """Both give something that no stored Service has; see `service_addresses.free_address` and `free_port`."""
        self._allocate = allocate
        self._allocate_port = allocate_port

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if not spec.get("type"):
            spec["type"] = "ClusterIP"
        if not spec.get("sessionAffinity"):
            spec["sessionAffinity"] = "None"
        if spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        elif spec["sessionAffinity"] == "ClientIP":
            client = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
            if client.get("timeoutSeconds") is None:
                spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
        for port in spec.get("ports", ()):
            if not port.get("protocol"):
                port["protocol"] = "TCP"
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port.get("port", 0)
        if reachable_from_outside(spec) and not spec.get("externalTrafficPolicy"):
            spec["externalTrafficPolicy"] = "Cluster"
        if spec["type"] in ("ClusterIP", "NodePort", "LoadBalancer"):
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
            for ingress in obj.get("status", {}).get("loadBalancer", {}).get("ingress", ()):
                if ingress.get("ip"):
                    ingress.setdefault("ipMode", "VIP")

    def prepare_for_create(self, obj: Object) -> None:
        obj["status"] = {"loadBalancer": {}}
        addresses.assign(obj["spec"], self._allocate)
        self._assign_ports(obj["spec"])

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        spec, before = obj["spec"], old["spec"]
        obj["status"] = old.get("status", {"loadBalancer": {}})
        addresses.carry_over(spec, before)
        _carry_over_ports(spec, before)
        _drop_what_the_old_type_needed(spec, before)
        addresses.assign(spec, self._allocate)
        self._assign_ports(spec)
        if spec["type"] != "LoadBalancer":
            obj["status"] = {**obj["status"], "loadBalancer": {}}

    def _assign_ports(self, spec: Object) -> None:
        if needs_node_ports(spec):
            by_number: dict[int, int] = {}
            for port in spec.get("ports", ()):
                # The same number over TCP and UDP shares one node port.
                number = port.get("nodePort") or by_number.get(port.get("port", 0)) or self._allocate_port()
                if number:
                    port["nodePort"] = by_number[port.get("port", 0)] = number
        if needs_health_port(spec) and not spec.get("healthCheckNodePort") and (number := self._allocate_port()):
            spec["healthCheckNodePort"] = number

    def validate(self, obj: Object) -> FieldErrors:
        spec = obj["spec"]
        errors: FieldErrors = []
        headless = addresses.is_headless(spec)
        ports: list[Object] = spec.get("ports", [])
        kind = spec["type"]
        if not ports and not headless and kind != "ExternalName":
            errors.append(fields.required("spec.ports"))
        if headless and kind in ("LoadBalancer", "NodePort"):
            errors.append(fields.invalid("spec.clusterIPs[0]", "None", f"a {kind} Service needs an address"))
        if kind == "ExternalName":
            errors += wrong_external_name(spec.get("externalName", ""))
        errors += wrong_ports(ports, kind)
        errors += names.validate_labels(spec.get("selector", {}), "spec.selector")
        errors += wrong_affinity(spec)
        errors += addresses.validate(spec)
        for index, address in enumerate(spec.get("externalIPs", ())):
            errors += wrong_external_address(address, f"spec.externalIPs[{index}]")
        if kind not in _TYPES:
            errors.append(fields.not_supported("spec.type", kind, _TYPES))
        errors += wrong_load_balancer(obj)
        return errors + wrong_policies(spec)

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        spec, before = obj["spec"], old["spec"]
        errors = addresses.validate_update(spec, before)
        if spec["type"] == before["type"] == "LoadBalancer":
            if spec.get("loadBalancerClass") != before.get("loadBalancerClass"):
                why = "may not change once set"
                errors.append(fields.invalid("spec.loadBalancerClass", spec.get("loadBalancerClass"), why))
            both = needs_health_port(spec) and needs_health_port(before)
            if both and spec.get("healthCheckNodePort") != before.get("healthCheckNodePort"):
                errors.append(fields.forbidden("spec.healthCheckNodePort", "field is immutable"))
        return errors

    def validate_status_update(self, obj: Object, old: Object) -> FieldErrors:
        ingress = obj.get("status", {}).get("loadBalancer", {}).get("ingress", ())
        path = "status.loadBalancer.ingress"
        if ingress and obj["spec"]["type"] != "LoadBalancer":
            return [fields.forbidden(path, "only a Service of type LoadBalancer has it")]
        return [error for index, entry in enumerate(ingress) for error in wrong_ingress(entry, f"{path}[{index}]")]

    def warnings(self, obj: Object) -> list[str]:
        return warnings(obj)

    def validate_name(self, name: str) -> list[str]:
        return names.dns1035_label(name)

    def selectable(self, obj: Object) -> dict[str, str]:
        spec = obj.get("spec", {})
        return {"spec.clusterIP": spec.get("clusterIP", ""), "spec.type": spec.get("type", "")}


def _carry_over_ports(spec: Object, old: Object) -> None:
    if needs_node_ports(old) and needs_node_ports(spec):
        asked = {port.get("nodePort") for port in spec.get("ports", ())}
        known = {port.get("name", ""): port.get("nodePort") for port in old.get("ports", ())}
        for port in spec.get("ports", ()):
            number = known.get(port.get("name", ""))
            if not port.get("nodePort") and number and number not in asked:
                port["nodePort"] = number
    if needs_health_port(old) and needs_health_port(spec) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = old.get("healthCheckNodePort", 0)


def _drop_what_the_old_type_needed(spec: Object, old: Object) -> None:
    """Somebody who changes only the type does not mean to keep what the server had added for the old one."""
    if addresses.needs_address(old) and not addresses.needs_address(spec):
        if spec.get("clusterIP") == old.get("clusterIP") and spec.get("clusterIPs") == old.get("clusterIPs"):
            spec.pop("clusterIP", None)
            spec.pop("clusterIPs", None)
        for key in ("ipFamilies", "ipFamilyPolicy"):
            if spec.get(key) == old.get(key):
                spec.pop(key, None)
        if spec.get("internalTrafficPolicy") == old.get("internalTrafficPolicy"):
            spec.pop("internalTrafficPolicy", None)
    external = ("LoadBalancer", "NodePort")
    if old["type"] in external and spec["type"] not in external:
        known = {port.get("nodePort") for port in old.get("ports", ())}
        if all(port.get("nodePort") in known for port in spec.get("ports", ()) if port.get("nodePort")):
            for port in spec.get("ports", ()):
                port.pop("nodePort", None)
    gone = []
    if needs_health_port(old) and not needs_health_port(spec):
        gone.append("healthCheckNodePort")
    if old["type"] == "LoadBalancer" and spec["type"] != "LoadBalancer":
        gone += ["allocateLoadBalancerNodePorts", "loadBalancerClass"]
    if reachable_from_outside(old) and not reachable_from_outside(spec):
        gone.append("externalTrafficPolicy")
    for key in gone:
        if spec.get(key) == old.get(key):
            spec.pop(key, None)
