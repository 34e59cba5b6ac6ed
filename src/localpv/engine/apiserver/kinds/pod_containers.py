"""The containers of a pod: ordinary ones, those that run first, and those that are added for a look inside; with their
probes and lifecycle hooks, and how they use volumes: mounted as a directory, or mapped as a block device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from localpv.api import fields, names
from localpv.api.fields import FieldError
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import checks, pod_env, pod_resources, pod_security, rules
from localpv.engine.apiserver.kinds.checks import has_backstep, inside
from localpv.engine.apiserver.kinds.pod_volumes import PULL_POLICIES
from localpv.engine.apiserver.kinds.rules import Field

Errors = Iterator[FieldError]

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_COUNTS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_PROBE = (
    *(Field(name, least=0) for name in _COUNTS),
    Field("terminationGracePeriodSeconds", least=1, said="must be greater than 0"),
)
_HTTP = (Field("scheme", enum=("HTTP", "HTTPS"), unset=""),)
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def probe_errors(container: Object, path: str, *, grace: int | None) -> Errors:
    for name in PROBES:
        if (probe := container.get(name)) is not None:
            yield from _probe(probe, f"{path}.{name}", name)
    lifecycle = container.get("lifecycle") or {}
    for hook in ("postStart", "preStop"):
        if hook in lifecycle:
            yield from _handler(lifecycle[hook], f"{path}.lifecycle.{hook}", grace=grace)


def _probe(probe: Object, path: str, name: str) -> Errors:
    yield from _handler(probe, path, grace=None)
    yield from rules.errors(_PROBE, probe, path)
    grace = probe.get("terminationGracePeriodSeconds")
    if name == "readinessProbe":
        if grace is not None:
            why = "means nothing for readiness: nothing is ended"
            yield fields.invalid(f"{path}.terminationGracePeriodSeconds", grace, why)
    elif probe.get("successThreshold") != 1:
        yield fields.invalid(f"{path}.successThreshold", probe.get("successThreshold"), "must be 1 for this probe")


def _handler(handler: Object, path: str, *, grace: int | None) -> Errors:
    present = [name for name in _HANDLERS if name in handler]
    if not present:
        yield fields.required(path, f"needs one of {', '.join(_HANDLERS)}")
        return
    for name in present[1:]:
        yield fields.forbidden(f"{path}.{name}", f"there is {present[0]} already, and one is all")
    name = present[0]
    yield from _action(name, handler[name], f"{path}.{name}", grace=grace)


def _action(name: str, action: Object, path: str, *, grace: int | None) -> Errors:
    if name == "exec":
        if not action.get("command"):
            yield fields.required(f"{path}.command")
    elif name == "sleep":
        seconds = action.get("seconds", 0)
        if grace is not None and not 0 <= seconds <= grace:
            yield fields.invalid(path, seconds, f"must be from 0 to terminationGracePeriodSeconds, which is {grace}")
    else:
        if name == "httpGet":
            yield from _http(action, path)
        yield from checks.port(action.get("port", 0), f"{path}.port")


def _http(action: Object, path: str) -> Errors:
    yield from rules.errors(_HTTP, action, path)
    for header in action.get("httpHeaders") or ():
        yield from fields.malformed(
            f"{path}.httpHeaders", header.get("name", ""), checks.header(header.get("name", ""))
        )


PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
RECURSIVE = ("Disabled", "Enabled", "IfPossible")
FOR_BLOCK = frozenset({"ephemeral", "persistentVolumeClaim"})
"""Sources that can be a block device: only a claim says so."""


def mount_errors(container: Object, path: str, volumes: Mapping[str, Object]) -> Errors:
    """What is wrong with volumeMounts and volumeDevices, by themselves and with each other."""
    mounts, devices = container.get("volumeMounts") or [], container.get("volumeDevices") or []
    if mounts:
        mapped = {device.get("name", ""): device.get("devicePath", "") for device in devices}
        privileged = bool((container.get("securityContext") or {}).get("privileged"))
        yield from _mounts(mounts, f"{path}.volumeMounts", volumes, mapped, privileged=privileged)
    if devices:
        mounted = {mount.get("name", ""): mount.get("mountPath", "") for mount in mounts}
        yield from _devices(devices, f"{path}.volumeDevices", volumes, mounted)


def _mounts(
    mounts: list[Object], path: str, volumes: Mapping[str, Object], mapped: Mapping[str, str], *, privileged: bool
) -> Errors:
    places: set[str] = set()
    for index, mount in enumerate(mounts):
        at, name, place = f"{path}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield fields.required(f"{at}.name")
        if name not in volumes:
            yield fields.not_found(f"{at}.name", name)
        if not place:
            yield fields.required(f"{at}.mountPath")
        if place in places:
            yield fields.invalid(f"{at}.mountPath", place, "another volume is mounted here already")
        places.add(place)
        if name in mapped:
            yield fields.invalid(
                f"{at}.name", name, "the same volume is in volumeDevices: it is a device or a directory"
            )
        if place in mapped.values():
            yield fields.invalid(f"{at}.mountPath", place, "volumeDevices puts a device here")
        yield from _details(mount, at, path, privileged=privileged)


def _details(mount: Object, at: str, path: str, *, privileged: bool) -> Errors:
    # Kubernetes names the list and not the element for these fields.
    sub, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    if sub:
        yield from inside(sub, f"{path}.subPath")
    if expression:
        if sub:
            yield fields.invalid(f"{at}.subPathExpr", expression, "subPath and subPathExpr exclude each other")
        yield from inside(expression, f"{path}.subPathExpr")
    propagation = mount.get("mountPropagation")
    if propagation is not None and propagation not in PROPAGATIONS:
        yield fields.not_supported(f"{path}.mountPropagation", propagation, PROPAGATIONS)
    if propagation == "Bidirectional" and not privileged:
        yield fields.forbidden(f"{path}.mountPropagation", "only a privileged container may mount things for the host")
    recursive = mount.get("recursiveReadOnly")
    if recursive is None or recursive == "Disabled":
        return
    if recursive not in RECURSIVE:
        yield fields.not_supported(f"{path}.recursiveReadOnly", recursive, RECURSIVE)
        return
    if not mount.get("readOnly"):
        yield fields.forbidden(f"{path}.recursiveReadOnly", "goes with readOnly only")
    if propagation not in (None, "None"):
        yield fields.forbidden(f"{path}.recursiveReadOnly", "does not go with mountPropagation")


def _devices(devices: list[Object], path: str, volumes: Mapping[str, Object], mounted: Mapping[str, str]) -> Errors:
    names: set[str] = set()
    places: set[str] = set()
    for index, device in enumerate(devices):
        at, name, place = f"{path}[{index}]", device.get("name", ""), device.get("devicePath", "")
        if not name:
            yield fields.required(f"{at}.name")
        elif name in names:
            yield fields.invalid(f"{at}.name", name, "the same volume is in this list already")
        names.add(name)
        if name not in volumes:
            yield fields.not_found(f"{at}.name", name)
        elif not FOR_BLOCK & volumes[name].keys():
            why = "only a persistentVolumeClaim or an ephemeral volume can be a block device"
            yield fields.invalid(f"{at}.name", name, why)
        if not place:
            yield fields.required(f"{at}.devicePath")
        if place in places:
            yield fields.invalid(f"{at}.devicePath", place, "another device is here already")
        if has_backstep(place):
            yield fields.invalid(f"{at}.devicePath", place, "must not contain '..' as a component")
        else:
            places.add(place)
        if name in mounted:
            yield fields.invalid(
                f"{at}.name", name, "the same volume is in volumeMounts: it is a device or a directory"
            )
        if place in mounted.values():
            yield fields.invalid(f"{at}.devicePath", place, "volumeMounts mounts a volume here")


_CONTAINER = (
    Field("name", required=True, form=names.dns_label),
    Field("image", required=True),
    Field("terminationMessagePolicy", enum=("File", "FallbackToLogsOnError"), unset=""),
    Field("imagePullPolicy", enum=PULL_POLICIES, unset=""),
)
_PORT = (
    Field("containerPort", required=True, least=1, most=65535),
    Field("hostPort", least=1, most=65535, may_be_empty=True),
    Field("protocol", enum=("SCTP", "TCP", "UDP")),
)
_RESTART = (Field("restartPolicy", enum=("Always", "Never", "OnFailure")),)
_RESTART_RULE = (Field("action", enum=("Restart",), unset=""),)
_EXIT_CODES = (Field("operator", enum=("In", "NotIn"), unset=""),)
RESIZE_POLICIES = ("NotRequired", "RestartContainer")
_NOT_EPHEMERAL = (
    "lifecycle",
    "livenessProbe",
    "ports",
    "readinessProbe",
    "resizePolicy",
    "resources",
    "restartPolicy",
    "restartPolicyRules",
    "startupProbe",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a container needs to know of its pod."""

    volumes: dict[str, Object]
    claims: frozenset[str]
    restart_policy: str
    grace: int | None
    host_users: bool


def errors(spec: Object, path: str, around: Surroundings) -> Errors:
    containers = spec.get("containers") or []
    if not containers:
        yield fields.required(f"{path}.containers")
    taken: set[str] = set()
    host_ports: set[tuple[str, str, int]] = set()
    for index, container in enumerate(containers):
        at = f"{path}.containers[{index}]"
        yield from _common(container, at, around)
        yield from _unique(container, at, taken)
        yield from probe_errors(container, at, grace=around.grace)
        yield from _restart(container, at)
        yield from _host_ports(container, at, host_ports)
    for index, container in enumerate(spec.get("initContainers") or ()):
        at = f"{path}.initContainers[{index}]"
        yield from _common(container, at, around)
        yield from _init(container, at, around)
        yield from _unique(container, at, taken)
        # They run one after the other, so a port is taken only within each.
        yield from _host_ports(container, at, set())
    targets = frozenset(taken)
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        at = f"{path}.ephemeralContainers[{index}]"
        yield from _common(container, at, around)
        yield from _ephemeral(container, at, targets)
        yield from _unique(container, at, taken)


def _common(container: Object, path: str, around: Surroundings) -> Errors:
    yield from rules.errors(_CONTAINER, container, path)
    if "ports" in container:
        yield from _ports(container["ports"], f"{path}.ports")
    if "env" in container or "envFrom" in container:
        yield from pod_env.errors(container, path)
    yield from mount_errors(container, path, around.volumes)
    if resources := container.get("resources"):
        yield from pod_resources.errors(resources, f"{path}.resources", claims=around.claims)
    if "resizePolicy" in container:
        yield from _resize(container["resizePolicy"], f"{path}.resizePolicy", around.restart_policy)
    if context := container.get("securityContext"):
        yield from pod_security.container_errors(context, f"{path}.securityContext", host_users=around.host_users)


def _unique(container: Object, path: str, taken: set[str]) -> Errors:
    name = container.get("name", "")
    if name in taken:
        yield fields.duplicate(f"{path}.name", name)
    taken.add(name)


def _ports(ports: list[Object], path: str) -> Errors:
    taken: set[str] = set()
    for index, port in enumerate(ports):
        at, name = f"{path}[{index}]", port.get("name", "")
        if name:
            wrong = checks.port_name(name)
            yield from fields.malformed(f"{at}.name", name, wrong)
            if not wrong and name in taken:
                yield fields.duplicate(f"{at}.name", name)
            taken.add(name)
        yield from rules.errors(_PORT, port, at)


def _host_ports(container: Object, path: str, taken: set[tuple[str, str, int]]) -> Errors:
    for index, port in enumerate(container.get("ports") or ()):
        number = port.get("hostPort")
        if not number:
            continue
        place = (port.get("protocol", ""), port.get("hostIP", ""), number)
        if place in taken:
            yield fields.duplicate(f"{path}.ports[{index}].hostPort", "/".join(map(str, place)))
        taken.add(place)


def _resize(policies: list[Object], path: str, restart_policy: str) -> Errors:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        resource, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if resource in seen:
            yield fields.duplicate(f"{path}[{index}]", resource)
        seen.add(resource)
        for value, choices in ((resource, pod_resources.POD_LEVEL), (restart, RESIZE_POLICIES)):
            if not value:
                yield fields.required(path)
            elif value not in choices:
                yield fields.not_supported(path, value, choices)
        if restart_policy == "Never" and restart != "NotRequired":
            yield fields.invalid(path, restart, "must be NotRequired where the pod never restarts a container")


def _restart(container: Object, path: str) -> Errors:
    restart_rules = container.get("restartPolicyRules") or []
    if restart_rules and container.get("restartPolicy") is None:
        yield fields.required(f"{path}.restartPolicy", "rules need a policy to fall back on")
    yield from rules.errors(_RESTART, container, path)
    for index, rule in enumerate(restart_rules):
        at, codes = f"{path}.restartPolicyRules[{index}]", rule.get("exitCodes")
        yield from rules.errors(_RESTART_RULE, rule, at)
        if codes is None:
            yield fields.required(f"{at}.exitCodes")
        else:
            yield from rules.errors(_EXIT_CODES, codes, f"{at}.exitCodes")


def _init(container: Object, path: str, around: Surroundings) -> Errors:
    if container.get("restartPolicy") == "Always":
        # It keeps running beside the others, so it is looked after like them.
        if container.get("restartPolicyRules"):
            yield fields.forbidden(f"{path}.restartPolicyRules", "means nothing where the policy is Always")
        yield from probe_errors(container, path, grace=around.grace)
        return
    if "restartPolicy" in container:
        yield from _restart(container, path)
    elif container.get("restartPolicyRules"):
        yield fields.required(f"{path}.restartPolicy", "rules need a policy to fall back on")
    for name in ("lifecycle", *PROBES):
        if name in container:
            why = "an init container ends before it could matter, unless its restartPolicy is Always"
            yield fields.forbidden(f"{path}.{name}", why)


def _ephemeral(container: Object, path: str, targets: frozenset[str]) -> Errors:
    target = container.get("targetContainerName", "")
    if target and target not in targets:
        yield fields.not_found(f"{path}.targetContainerName", target)
    for name in _NOT_EPHEMERAL:
        if container.get(name) or (name in container and name not in ("resources", "ports")):
            yield fields.forbidden(f"{path}.{name}", "ephemeral containers do not have this")
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        for name in ("subPath", "subPathExpr"):
            if mount.get(name):
                why = "ephemeral containers do not have this"
                yield fields.forbidden(f"{path}.volumeMounts[{index}].{name}", why)


def image_errors(spec: Object, path: str) -> Errors:
    """Asked of pods only: templates with a blank image were allowed once and are filled by others later."""
    for list_name in ("containers", "initContainers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(list_name) or ()):
            image = container.get("image", "")
            if image != image.strip():
                why = "must not begin or end with white space"
                yield fields.invalid(f"{path}.{list_name}[{index}].image", image, why)
