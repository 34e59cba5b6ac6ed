"""Endpoints, Ingresses and NetworkPolicies: rules that are more than a table."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from localpv.api import fields, names
from localpv.api.fields import FieldError
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import checks

Errors = Iterator[FieldError]

LONGEST_CONTROLLER = 250


def address(text: str) -> list[str]:
    try:
        normal = ipaddress.ip_address(text)
    except ValueError:
        return ["must be an IP address, such as 10.9.8.7 or 2001:db8::ffff"]
    if "%" in text:
        return ["must be an IP address without a zone"]
    return [] if str(normal) == text else [f"must be in its shortest form: {normal}"]


def network(text: str) -> list[str]:
    return [] if checks.read_network(text) else ["must be a network, such as 10.9.8.0/24 or 2001:db8::/64"]


def host(text: str) -> list[str]:
    """A DNS name, or one with a star in front."""
    return names.dns_subdomain(f"star.{text[2:]}" if text.startswith("*.") else text)


def host_of_rule(text: str) -> list[str]:
    found = ["must be a DNS name, not an IP address"] if checks.family(text) else []
    return found + host(text)


def controller(text: str) -> list[str]:
    domain, slash, rest = text.partition("/")
    if not domain or not slash or not rest:
        return ["must be a domain, a slash and a path, such as example.com/controller"]
    return names.dns_subdomain(domain)


def controller_length(spec: Object, path: str) -> Errors:
    if len(spec.get("controller", "")) > LONGEST_CONTROLLER:
        yield fields.too_long(f"{path}.controller", LONGEST_CONTROLLER)


def peer(peer: Object, path: str) -> Errors:
    if not any(key in peer for key in ("podSelector", "namespaceSelector", "ipBlock")):
        yield fields.required(path, "one of podSelector, namespaceSelector and ipBlock is needed")
    elif "ipBlock" in peer and len(peer) > 1:
        yield fields.forbidden(path, "ipBlock stands alone")


def block(block: Object, path: str) -> Errors:
    whole = checks.read_network(block.get("cidr", ""))
    if whole is None:
        return
    for index, text in enumerate(block.get("except") or ()):
        part: Any = checks.read_network(text)
        if part is None:
            continue
        if part.version != whole.version or part.prefixlen <= whole.prefixlen or not part.subnet_of(whole):
            yield fields.invalid(f"{path}.except[{index}]", text, "must be a part of cidr, and smaller")


def policy_port(port: Object, path: str) -> Errors:
    number, end = port.get("port"), port.get("endPort")
    if number is not None:
        yield from checks.port(number, f"{path}.port")
    if end is None:
        return
    if not isinstance(number, int):
        yield fields.invalid(f"{path}.endPort", end, "needs port to be a number")
        return
    if end < number:
        yield fields.invalid(f"{path}.endPort", end, "must be greater than or equal to port")
    yield from checks.port_number(end, f"{path}.endPort")


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
        yield from fields.malformed(f"{path}.service.port.name", name, checks.port_name(name))
    elif number:
        yield from checks.port_number(number, f"{path}.service.port.number")
    else:
        yield fields.required(path, "the name or the number of a port is needed")


def _reference(reference: Object, path: str) -> Errors:
    if group := reference.get("apiGroup"):
        yield from fields.malformed(f"{path}.apiGroup", group, names.dns_subdomain(group))
    for key in ("kind", "name"):
        if not reference.get(key):
            yield fields.required(f"{path}.{key}")
            continue
        yield from fields.malformed(f"{path}.{key}", reference[key], names.path_segment(reference[key]))


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


def endpoint_address(address: Object, path: str) -> Errors:
    text = address.get("ip", "")
    yield from checks.address(text, f"{path}.ip")
    yield from _not_reachable(text, f"{path}.ip")


def _not_reachable(text: str, path: str) -> Errors:
    address = checks.read_address(text)
    if address is None:
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
        yield from checks.port_number(port.get("port", 0), f"{path}.ports[{index}].port")


def endpoint_slice(obj: Object) -> Errors:
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
            elif not checks.family(text):
                yield fields.invalid(here, text, "must be an IP address")
            elif checks.family(text) != (6 if kind == "IPv6" else 4):
                yield fields.invalid(path, text, f"must be an {kind} address")
            else:
                yield from _not_reachable(text, here)


def ingress_class_of(obj: Object) -> Errors:
    told = (obj["metadata"].get("annotations") or {}).get(_CLASS)
    wanted = obj["spec"].get("ingressClassName")
    if told is not None and wanted is not None and told != wanted:
        yield fields.invalid(f"annotations.{_CLASS}", told, "must be the same as ingressClassName")


_CLASS = "kubernetes.io/ingress.class"


def changed_ranges(obj: Object, old: Object) -> Errors:
    """A second range may be added; the first stays."""
    new, before = obj["spec"].get("cidrs") or [], old["spec"].get("cidrs") or []
    if len(new) < len(before) or len(new) > 2:
        yield fields.invalid("spec.cidrs", new, "field is immutable")
        return
    for index, cidr in enumerate(before):
        if new[index] != cidr:
            yield fields.invalid(f"spec.cidrs[{index}]", new[index], "field is immutable")
