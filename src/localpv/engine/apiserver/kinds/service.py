"""Services: ports and names for a set of pods. Headless ones are what StatefulSets need; others get an address."""

from __future__ import annotations

from collections.abc import Callable

from localpv.api import fields, names
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import service_addresses as addresses
from localpv.engine.apiserver.kinds import service_checks as checks
from localpv.engine.apiserver.kinds.base import Strategy

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
        if checks.reachable_from_outside(spec) and not spec.get("externalTrafficPolicy"):
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
        if checks.needs_node_ports(spec):
            by_number: dict[int, int] = {}
            for port in spec.get("ports", ()):
                # The same number over TCP and UDP shares one node port.
                number = port.get("nodePort") or by_number.get(port.get("port", 0)) or self._allocate_port()
                if number:
                    port["nodePort"] = by_number[port.get("port", 0)] = number
        if checks.needs_health_port(spec) and not spec.get("healthCheckNodePort") and (number := self._allocate_port()):
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
            errors += checks.wrong_external_name(spec.get("externalName", ""))
        errors += checks.wrong_ports(ports, kind)
        errors += names.validate_labels(spec.get("selector", {}), "spec.selector")
        errors += checks.wrong_affinity(spec)
        errors += addresses.validate(spec)
        for index, address in enumerate(spec.get("externalIPs", ())):
            errors += checks.wrong_external_address(address, f"spec.externalIPs[{index}]")
        if kind not in _TYPES:
            errors.append(fields.not_supported("spec.type", kind, _TYPES))
        errors += checks.wrong_load_balancer(obj)
        return errors + checks.wrong_policies(spec)

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        spec, before = obj["spec"], old["spec"]
        errors = addresses.validate_update(spec, before)
        if spec["type"] == before["type"] == "LoadBalancer":
            if spec.get("loadBalancerClass") != before.get("loadBalancerClass"):
                why = "may not change once set"
                errors.append(fields.invalid("spec.loadBalancerClass", spec.get("loadBalancerClass"), why))
            both = checks.needs_health_port(spec) and checks.needs_health_port(before)
            if both and spec.get("healthCheckNodePort") != before.get("healthCheckNodePort"):
                errors.append(fields.forbidden("spec.healthCheckNodePort", "field is immutable"))
        return errors

    def validate_status_update(self, obj: Object, old: Object) -> FieldErrors:
        ingress = obj.get("status", {}).get("loadBalancer", {}).get("ingress", ())
        path = "status.loadBalancer.ingress"
        if ingress and obj["spec"]["type"] != "LoadBalancer":
            return [fields.forbidden(path, "only a Service of type LoadBalancer has it")]
        return [
            error for index, entry in enumerate(ingress) for error in checks.wrong_ingress(entry, f"{path}[{index}]")
        ]

    def warnings(self, obj: Object) -> list[str]:
        return checks.warnings(obj)

    def validate_name(self, name: str) -> list[str]:
        return names.dns1035_label(name)

    def selectable(self, obj: Object) -> dict[str, str]:
        spec = obj.get("spec", {})
        return {"spec.clusterIP": spec.get("clusterIP", ""), "spec.type": spec.get("type", "")}


def _carry_over_ports(spec: Object, old: Object) -> None:
    if checks.needs_node_ports(old) and checks.needs_node_ports(spec):
        asked = {port.get("nodePort") for port in spec.get("ports", ())}
        known = {port.get("name", ""): port.get("nodePort") for port in old.get("ports", ())}
        for port in spec.get("ports", ()):
            number = known.get(port.get("name", ""))
            if not port.get("nodePort") and number and number not in asked:
                port["nodePort"] = number
    if checks.needs_health_port(old) and checks.needs_health_port(spec) and not spec.get("healthCheckNodePort"):
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
    if checks.needs_health_port(old) and not checks.needs_health_port(spec):
        gone.append("healthCheckNodePort")
    if old["type"] == "LoadBalancer" and spec["type"] != "LoadBalancer":
        gone += ["allocateLoadBalancerNodePorts", "loadBalancerClass"]
    if checks.reachable_from_outside(old) and not checks.reachable_from_outside(spec):
        gone.append("externalTrafficPolicy")
    for key in gone:
        if spec.get(key) == old.get(key):
            spec.pop(key, None)
