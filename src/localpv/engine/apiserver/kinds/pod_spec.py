"""The spec of a pod, in a pod or in a template: the parts put together, and the rest."""

from __future__ import annotations

from collections.abc import Iterator

from localpv.api import fields, names
from localpv.api.fields import FieldError
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import (
    pod_containers,
    pod_env,
    pod_names,
    pod_resources,
    pod_scheduling,
    pod_security,
    pod_volumes,
)
from localpv.engine.apiserver.kinds.volume_access import ZERO, read_amount

Errors = Iterator[FieldError]

RESTART_POLICIES = ("Always", "OnFailure", "Never")
DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
SYSTEMS = ("linux", "windows")
MAX_DEADLINE = 2**31 - 1
MAX_NAMESERVERS = 3
MAX_SEARCHES = 32
MAX_SEARCH_CHARACTERS = 2048
MAX_HOSTNAME = 64


def errors(spec: Object, path: str, *, pod_name: str = "", is_pod: bool) -> Errors:
    """`pod_name` is known for a pod that has one already; `is_pod` is false in templates."""
    volumes: dict[str, Object] = {}
    if spec.get("volumes"):
        yield from pod_volumes.errors(spec["volumes"], f"{path}.volumes", pod_name=pod_name, usable=volumes)
    claims = spec.get("resourceClaims") or []
    yield from _resource_claims(claims, f"{path}.resourceClaims")
    around = pod_containers.Surroundings(
        volumes=volumes,
        claims=frozenset(claim.get("name", "") for claim in claims),
        restart_policy=spec.get("restartPolicy", ""),
        grace=spec.get("terminationGracePeriodSeconds"),
        host_users=spec.get("hostUsers", True),
    )
    yield from pod_containers.errors(spec, path, around)
    yield from pod_resources.pod_errors(spec, path, claims=around.claims)
    yield from pod_security.pod_errors(spec, path)
    yield from pod_security.namespace_errors(spec, path)
    yield from pod_scheduling.errors(spec, path)
    yield from _network(spec, path, is_pod=is_pod)
    yield from _rest(spec, path)
    yield from _file_variables(spec, path)


def _resource_claims(claims: list[Object], path: str) -> Errors:
    taken: set[str] = set()
    for index, claim in enumerate(claims):
        at, name = f"{path}[{index}]", claim.get("name", "")
        if not name:
            yield fields.required(f"{at}.name")
        elif name in taken:
            yield fields.duplicate(f"{at}.name", name)
        else:
            for sentence in names.dns_label(name):
                yield fields.invalid(f"{at}.name", name, sentence)
            taken.add(name)
        given = [key for key in ("resourceClaimName", "resourceClaimTemplateName") if key in claim]
        if len(given) != 1:
            yield fields.invalid(at, claim, "needs one of resourceClaimName and resourceClaimTemplateName")
        for key in given:
            for sentence in names.dns_subdomain(claim[key]):
                yield fields.invalid(f"{at}.{key}", claim[key], sentence)


def _network(spec: Object, path: str, *, is_pod: bool) -> Errors:
    if spec.get("hostNetwork"):
        for index, container in enumerate(spec.get("containers") or ()):
            for place, port in enumerate(container.get("ports") or ()):
                host = port.get("hostPort", 0)
                if (is_pod or host) and host != port.get("containerPort", 0):
                    where = f"{path}.containers[{index}].ports[{place}].hostPort"
                    yield fields.invalid(where, host, "must be the containerPort where hostNetwork is set")
    policy = spec.get("dnsPolicy", "")
    if policy not in DNS_POLICIES:
        yield fields.not_supported(f"{path}.dnsPolicy", policy, DNS_POLICIES)
    config = spec.get("dnsConfig")
    if config is not None:
        yield from _dns(config, f"{path}.dnsConfig", needs_server=policy == "None")
    elif policy == "None":
        yield fields.required(f"{path}.dnsConfig", "dnsPolicy None leaves everything to dnsConfig")
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        yield from pod_names.address(alias.get("ip", ""), f"{path}.hostAliases[{index}].ip")
        for place, hostname in enumerate(alias.get("hostnames") or ()):
            for sentence in names.dns_subdomain(hostname):
                yield fields.invalid(f"{path}.hostAliases[{index}].hostnames[{place}]", hostname, sentence)


def _dns(config: Object, path: str, *, needs_server: bool) -> Errors:
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if needs_server and not servers:
        yield fields.required(f"{path}.nameservers", "dnsPolicy None needs at least one")
        return
    if len(servers) > MAX_NAMESERVERS:
        yield fields.invalid(f"{path}.nameservers", servers, f"must be no more than {MAX_NAMESERVERS}")
    for index, server in enumerate(servers):
        yield from pod_names.address(server, f"{path}.nameservers[{index}]")
    if len(searches) > MAX_SEARCHES:
        yield fields.invalid(f"{path}.searches", searches, f"must be no more than {MAX_SEARCHES}")
    if len(" ".join(searches)) > MAX_SEARCH_CHARACTERS:
        why = f"must have no more than {MAX_SEARCH_CHARACTERS} characters together, with blanks between"
        yield fields.invalid(f"{path}.searches", searches, why)
    for index, search in enumerate(searches):
        # Services of systems that are not Kubernetes have underscores in their names, as in _sip._tcp.
        for sentence in names.dns_subdomain(search.removesuffix(".").replace("_", "a")) if search != "." else ():
            yield fields.invalid(f"{path}.searches[{index}]", search, sentence)
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            yield fields.required(f"{path}.options[{index}]", "an option needs a name")


def _rest(spec: Object, path: str) -> Errors:
    restart = spec.get("restartPolicy", "")
    if restart not in RESTART_POLICIES:
        yield fields.not_supported(f"{path}.restartPolicy", restart, RESTART_POLICIES)
    preemption = spec.get("preemptionPolicy")
    if preemption is not None and preemption not in PREEMPTION_POLICIES:
        yield fields.not_supported(f"{path}.preemptionPolicy", preemption, PREEMPTION_POLICIES)
    for name, check in (
        ("serviceAccountName", names.dns_subdomain),
        ("nodeName", names.dns_subdomain),
        ("hostname", names.dns_label),
        ("subdomain", names.dns_label),
        ("priorityClassName", names.dns_subdomain),
    ):
        value = spec.get(name)
        for sentence in check(value) if value else ():
            yield fields.invalid(f"{path}.{name}", value, sentence)
    if (runtime := spec.get("runtimeClassName")) is not None:
        for sentence in names.dns_subdomain(runtime):
            yield fields.invalid(f"{path}.runtimeClassName", runtime, sentence)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= MAX_DEADLINE:
        yield fields.invalid(f"{path}.activeDeadlineSeconds", deadline, f"must be from 1 to {MAX_DEADLINE}")
    for resource, amount in (spec.get("overhead") or {}).items():
        if read_amount(amount) < ZERO:
            yield fields.invalid(f"{path}.overhead.limits[{resource}]", amount, "must be greater than or equal to 0")
    yield from _hostname(spec, path)
    if (system := spec.get("os")) is not None:
        if not system.get("name"):
            yield fields.required(f"{path}.os.name")
        elif system["name"] not in SYSTEMS:
            yield fields.not_supported(f"{path}.os", system["name"], SYSTEMS)


def _hostname(spec: Object, path: str) -> Errors:
    override = spec.get("hostnameOverride")
    if override is None:
        return
    at = f"{path}.hostnameOverride"
    for name in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(name):
            yield fields.forbidden(at, f"does not go with {name}")
    if len(override) > MAX_HOSTNAME:
        yield fields.too_long(at, MAX_HOSTNAME)
    for sentence in names.dns_subdomain(override):
        yield fields.invalid(at, override, sentence)


def _file_variables(spec: Object, path: str) -> Errors:
    every = {volume.get("name", ""): volume for volume in spec.get("volumes") or ()}
    for list_name in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(list_name) or ()):
            if "env" in container:
                yield from pod_env.file_volume_errors(container, f"{path}.{list_name}[{index}]", every)
