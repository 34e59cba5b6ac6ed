"""The spec of a pod, in a pod or in a template: what it means where it says nothing, and its parts put together."""

from __future__ import annotations

from collections.abc import Iterator

from localpv.api import fields, names
from localpv.api.fields import FieldError, FieldErrors
from localpv.api.objects import Object
from localpv.api.translate import inline
from localpv.engine.apiserver.kinds import (
    checks,
    pod_containers,
    pod_env,
    pod_resources,
    pod_scheduling,
    pod_security,
    pod_volumes,
    rules,
)
from localpv.engine.apiserver.kinds.checks import ZERO, read_amount, round_up
from localpv.engine.apiserver.kinds.rules import Field

CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")

GRACE_SECONDS = 30
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def default_spec(spec: Object) -> None:
    """Defaults that pods and pod templates share."""
    spec.setdefault("containers", [])
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", GRACE_SECONDS)
    for name, value in (
        ("dnsPolicy", "ClusterFirst"),
        ("restartPolicy", "Always"),
        ("schedulerName", "default-scheduler"),
    ):
        if not spec.get(name):
            spec[name] = value
    # serviceAccount is what the field was called first; clients of any age find what they look for.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    inline.translate_spec(spec)
    for volume in spec.get("volumes") or ():
        pod_volumes.default(volume)
    for container in containers(spec):
        _default_container(container)


def default_pod(pod: Object) -> None:
    """Defaults of a pod that its template does not have, so that a template stays what was written."""
    spec = pod["spec"]
    spec.setdefault("enableServiceLinks", True)
    for name in ("containers", "initContainers"):
        for container in spec.get(name) or ():
            resources = container["resources"]
            if limits := resources.get("limits"):
                resources["requests"] = limits | resources.get("requests", {})
            if spec.get("hostNetwork"):
                for port in container.get("ports") or ():
                    if not port.get("hostPort") and "containerPort" in port:
                        port["hostPort"] = port["containerPort"]


def containers(spec: Object) -> Iterator[Object]:
    """Every container of a pod, whatever its sort."""
    for name in CONTAINER_LISTS:
        yield from spec.get(name) or ()


def _default_container(container: Object) -> None:
    resources = container.setdefault("resources", {})
    for name in ("limits", "requests"):
        if amounts := resources.get(name):
            round_up(amounts)
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = checks.pull_policy(container.get("image", ""))
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    for port in container.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for variable in container.get("env") or ():
        if "valueFrom" in variable:
            _default_value_from(variable["valueFrom"])
    for name in _PROBES:
        if (probe := container.get(name)) is not None:
            for key, value in _PROBE_DEFAULTS.items():
                if not probe.get(key):
                    probe[key] = value
            _default_handler(probe)
    lifecycle = container.get("lifecycle")
    if lifecycle:
        for handler in (lifecycle.get("postStart"), lifecycle.get("preStop")):
            if handler is not None:
                _default_handler(handler)


def _default_value_from(source: Object) -> None:
    if (field := source.get("fieldRef")) is not None and not field.get("apiVersion"):
        field["apiVersion"] = "v1"
    if (resource := source.get("resourceFieldRef")) is not None:
        resource.setdefault("divisor", "0")
    if (file := source.get("fileKeyRef")) is not None:
        file.setdefault("optional", False)


def _default_handler(handler: Object) -> None:
    if (http := handler.get("httpGet")) is not None:
        if not http.get("path"):
            http["path"] = "/"
        if not http.get("scheme"):
            http["scheme"] = "HTTP"
    if (grpc := handler.get("grpc")) is not None:
        grpc.setdefault("service", "")


Errors = Iterator[FieldError]

SYSTEMS = ("linux", "windows")
MAX_DEADLINE = 2**31 - 1
MAX_NAMESERVERS = 3
MAX_SEARCHES = 32
MAX_SEARCH_CHARACTERS = 2048
MAX_HOSTNAME = 64

_NETWORK = (Field("dnsPolicy", enum=("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"), unset=""),)
_REST = (
    Field("restartPolicy", enum=("Always", "OnFailure", "Never"), unset=""),
    Field("preemptionPolicy", enum=("PreemptLowerPriority", "Never")),
    Field("serviceAccountName", form=names.dns_subdomain, may_be_empty=True),
    Field("nodeName", form=names.dns_subdomain, may_be_empty=True),
    Field("hostname", form=names.dns_label, may_be_empty=True),
    Field("subdomain", form=names.dns_label, may_be_empty=True),
    Field("priorityClassName", form=names.dns_subdomain, may_be_empty=True),
    Field("runtimeClassName", form=names.dns_subdomain),
    Field("activeDeadlineSeconds", least=1, most=MAX_DEADLINE),
)


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
            yield from fields.malformed(f"{at}.name", name, names.dns_label(name))
            taken.add(name)
        given = [key for key in ("resourceClaimName", "resourceClaimTemplateName") if key in claim]
        if len(given) != 1:
            yield fields.invalid(at, claim, "needs one of resourceClaimName and resourceClaimTemplateName")
        for key in given:
            yield from fields.malformed(f"{at}.{key}", claim[key], names.dns_subdomain(claim[key]))


def _network(spec: Object, path: str, *, is_pod: bool) -> Errors:
    if spec.get("hostNetwork"):
        for index, container in enumerate(spec.get("containers") or ()):
            for place, port in enumerate(container.get("ports") or ()):
                host = port.get("hostPort", 0)
                if (is_pod or host) and host != port.get("containerPort", 0):
                    where = f"{path}.containers[{index}].ports[{place}].hostPort"
                    yield fields.invalid(where, host, "must be the containerPort where hostNetwork is set")
    yield from rules.errors(_NETWORK, spec, path)
    policy = spec.get("dnsPolicy", "")
    config = spec.get("dnsConfig")
    if config is not None:
        yield from _dns(config, f"{path}.dnsConfig", needs_server=policy == "None")
    elif policy == "None":
        yield fields.required(f"{path}.dnsConfig", "dnsPolicy None leaves everything to dnsConfig")
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        yield from checks.address(alias.get("ip", ""), f"{path}.hostAliases[{index}].ip")
        for place, hostname in enumerate(alias.get("hostnames") or ()):
            yield from fields.malformed(
                f"{path}.hostAliases[{index}].hostnames[{place}]", hostname, names.dns_subdomain(hostname)
            )


def _dns(config: Object, path: str, *, needs_server: bool) -> Errors:
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if needs_server and not servers:
        yield fields.required(f"{path}.nameservers", "dnsPolicy None needs at least one")
        return
    if len(servers) > MAX_NAMESERVERS:
        yield fields.invalid(f"{path}.nameservers", servers, f"must be no more than {MAX_NAMESERVERS}")
    for index, server in enumerate(servers):
        yield from checks.address(server, f"{path}.nameservers[{index}]")
    if len(searches) > MAX_SEARCHES:
        yield fields.invalid(f"{path}.searches", searches, f"must be no more than {MAX_SEARCHES}")
    if len(" ".join(searches)) > MAX_SEARCH_CHARACTERS:
        why = f"must have no more than {MAX_SEARCH_CHARACTERS} characters together, with blanks between"
        yield fields.invalid(f"{path}.searches", searches, why)
    for index, search in enumerate(searches):
        # Services of systems that are not Kubernetes have underscores in their names, as in _sip._tcp.
        if search != ".":
            yield from fields.malformed(
                f"{path}.searches[{index}]", search, names.dns_subdomain(search.removesuffix(".").replace("_", "a"))
            )
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            yield fields.required(f"{path}.options[{index}]", "an option needs a name")


def _rest(spec: Object, path: str) -> Errors:
    yield from rules.errors(_REST, spec, path)
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
    yield from fields.malformed(at, override, names.dns_subdomain(override))


def _file_variables(spec: Object, path: str) -> Errors:
    every = {volume.get("name", ""): volume for volume in spec.get("volumes") or ()}
    for list_name in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(list_name) or ()):
            if "env" in container:
                yield from pod_env.file_volume_errors(container, f"{path}.{list_name}[{index}]", every)


def default_template(template: Object) -> None:
    """Fill in what a pod template leaves out, in place."""
    template.setdefault("metadata", {})
    default_spec(template.setdefault("spec", {}))


def validate_template(template: Object, path: str) -> FieldErrors:
    """What is wrong with a pod template found at `path`, such as `spec.template`."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    wrong = names.validate_labels(metadata.get("labels") or {}, f"{path}.labels")
    wrong += names.validate_annotations(metadata.get("annotations") or {}, f"{path}.annotations")
    wrong.extend(errors(spec, f"{path}.spec", is_pod=False))
    if spec.get("ephemeralContainers"):
        wrong.append(fields.forbidden(f"{path}.spec.ephemeralContainers", "they are added to pods that run"))
    return wrong


def raw_template_errors(template: object, path: str) -> FieldErrors:
    """For `Strategy.raw_errors` of workloads: a `local` volume, which the schema would drop without a word."""
    spec = template.get("spec") if isinstance(template, dict) else None
    return pod_volumes.raw_errors(spec.get("volumes"), f"{path}.spec.volumes") if isinstance(spec, dict) else []
