"""Cluster addresses of Services: one IPv4 network, nothing behind it.

The embedded engine routes nothing, but clients expect a Service to have an address and to keep it. Two addresses
(dual stack) are only possible where no address is given at all: headless, without a selector.
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Callable, Container
from typing import Any

from localpv.api import fields
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object

NETWORK = "10.96.0.0/16"
NODE_PORTS = range(30000, 32768)

_FAMILIES = ("IPv4", "IPv6")
_IPV4_ONLY = "there is only an IPv4 network here"
_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")


def free_address(used: Container[str], *, network: str = NETWORK) -> str:
    """An address of the network that no Service has; the first few stay free for the system."""
    net = ipaddress.IPv4Network(network)
    base, last = int(net.network_address), net.num_addresses - 2
    for _ in range(64):
        address = str(ipaddress.IPv4Address(base + random.randint(16, last)))
        if address not in used:
            return address
    for offset in range(16, last + 1):
        address = str(ipaddress.IPv4Address(base + offset))
        if address not in used:
            return address
    return ""


def free_port(used: Container[int]) -> int:
    """A node port that no Service has; 0 when all are taken."""
    for _ in range(64):
        port = random.choice(NODE_PORTS)
        if port not in used:
            return port
    return next((port for port in NODE_PORTS if port not in used), 0)


def is_headless(spec: Object) -> bool:
    return bool(spec.get("clusterIPs") == ["None"])


def needs_address(spec: Object) -> bool:
    return bool(spec["type"] != "ExternalName")


def assign(spec: Object, allocate: Callable[[], str]) -> None:
    """Give a new Service, or one that was an ExternalName before, its families and its address."""
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    if not needs_address(spec):
        return
    for_all = spec.get("clusterIP") == "None" and not spec.get("selector")
    if spec.get("ipFamilyPolicy") is None:
        spec["ipFamilyPolicy"] = "RequireDualStack" if for_all else "SingleStack"
    families: list[str] = spec.setdefault("ipFamilies", [])
    given = spec.get("clusterIPs", ())
    for address in given[len(families) :]:
        if "." not in address:
            break
        families.append("IPv4")
    if not families and (not given or given[0] == "None"):
        families.append("IPv4")
    if for_all and len(families) < 2 and spec["ipFamilyPolicy"] != "SingleStack":
        families.append("IPv6" if families[0] == "IPv4" else "IPv4")
    if not spec.get("clusterIP") and not given and families[0] == "IPv4":
        address = allocate()
        if address:
            spec["clusterIP"], spec["clusterIPs"] = address, [address]


def carry_over(spec: Object, old: Object) -> None:
    """An update that leaves out what was assigned means to keep it."""
    if not (needs_address(old) and needs_address(spec)):
        return
    if not spec.get("clusterIP") and old.get("clusterIP"):
        spec["clusterIP"] = old["clusterIP"]
    if not spec.get("clusterIPs") and old.get("clusterIPs"):
        spec["clusterIPs"] = list(old["clusterIPs"])
    if spec.get("clusterIP") != old.get("clusterIP") and spec.get("clusterIPs") == old.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    if spec.get("ipFamilyPolicy") is None and old.get("ipFamilyPolicy"):
        spec["ipFamilyPolicy"] = old["ipFamilyPolicy"]
    if not spec.get("ipFamilies") and is_headless(old) == is_headless(spec) and old.get("ipFamilies"):
        spec["ipFamilies"] = list(old["ipFamilies"])


def validate(spec: Object) -> FieldErrors:
    if not needs_address(spec):
        return _external(spec)
    errors: FieldErrors = []
    addresses: list[str] = spec.get("clusterIPs", [])
    families: list[str] = spec.get("ipFamilies", [])
    if spec.get("clusterIP"):
        if not addresses:
            errors.append(fields.required("spec.clusterIPs"))
        elif addresses[0] != spec["clusterIP"]:
            errors.append(fields.invalid("spec.clusterIPs", addresses, "the first one must be the clusterIP"))
    elif addresses:
        errors.append(fields.invalid("spec.clusterIPs", addresses, "must be empty as long as clusterIP is"))
    again = fields.repeated(families)
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            errors.append(fields.not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES))
        if index in again:
            errors.append(fields.duplicate(f"spec.ipFamilies[{index}]", family))
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _POLICIES:
        errors.append(fields.not_supported("spec.ipFamilyPolicy", policy, _POLICIES))
    wrong = _wrong_addresses(addresses)
    if len(addresses) > 2:
        wrong.append(fields.invalid("spec.clusterIPs", addresses, "may have at most 2 values"))
    return errors + wrong or _wrong_families(spec, addresses, families)


def _external(spec: Object) -> FieldErrors:
    return [
        fields.forbidden(f"spec.{key}", "an ExternalName Service has no address")
        for key in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
        if spec.get(key)
    ]


def _wrong_addresses(addresses: list[str]) -> FieldErrors:
    errors = []
    for index, address in enumerate(addresses):
        if index == 0 and address == "None":
            if len(addresses) > 1:
                errors.append(fields.invalid("spec.clusterIPs", addresses, "'None' must be the only value"))
        elif not is_address(address):
            errors.append(fields.invalid(f"spec.clusterIPs[{index}]", address, NO_ADDRESS))
    return errors


NO_ADDRESS = "must be an IP address, such as 10.9.8.7 or 2001:db8::ffff"


def is_address(text: Any) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _wrong_families(spec: Object, addresses: list[str], families: list[str]) -> FieldErrors:
    errors: FieldErrors = []
    headless = is_headless(spec)
    if len(addresses) == 2 and (":" in addresses[0]) == (":" in addresses[1]):
        errors.append(fields.invalid("spec.clusterIPs", addresses, "may have one address of each family"))
    if not headless:
        for index, (address, family) in enumerate(zip(addresses, families, strict=False)):
            if (family == "IPv6") != (":" in address):
                why = f"must be an {family} address, as ipFamilies says"
                errors.append(fields.invalid(f"spec.clusterIPs[{index}]", address, why))
    policy = spec.get("ipFamilyPolicy")
    if policy == "SingleStack":
        for key, values in (("addresses", addresses), ("families", families)):
            if len(values) == 2:
                why = f"must be RequireDualStack or PreferDualStack with two {key}"
                errors.append(fields.invalid("spec.ipFamilyPolicy", policy, why))
    errors += [
        fields.invalid(f"spec.clusterIPs[{index}]", addresses, _IPV4_ONLY)
        for index, address in enumerate(addresses)
        if ":" in address and index >= len(families)
    ]
    if errors or (headless and not spec.get("selector")):
        return errors
    if policy == "RequireDualStack":
        errors.append(fields.invalid("spec.ipFamilyPolicy", policy, _IPV4_ONLY))
    errors += [
        fields.invalid(f"spec.ipFamilies[{index}]", family, _IPV4_ONLY)
        for index, family in enumerate(families)
        if family == "IPv6"
    ]
    return errors


def validate_update(spec: Object, old: Object) -> FieldErrors:
    if not (needs_address(old) and needs_address(spec)) or (is_headless(old) and is_headless(spec)):
        return []
    errors: FieldErrors = []
    before: list[str] = old.get("clusterIPs", [])
    after: list[str] = spec.get("clusterIPs", [])
    once = "may not change once set"
    if before and not after:
        errors.append(fields.invalid("spec.clusterIPs[0]", after, "the primary clusterIP cannot be taken away"))
    elif before and before[0] != after[0]:
        errors.append(fields.invalid("spec.clusterIPs[0]", after, once))
    if is_headless(old) == is_headless(spec):
        families: list[str] = spec.get("ipFamilies", [])
        if families and families[0] != old.get("ipFamilies", families)[0]:
            errors.append(fields.invalid("spec.ipFamilies[0]", families, once))
    return errors
