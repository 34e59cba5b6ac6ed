"""What a pod or a pod template means where it says nothing."""

from __future__ import annotations

from collections.abc import Iterator

from localpv.api.objects import Object
from localpv.api.translate import inline
from localpv.engine.apiserver.kinds import pod_names, pod_volumes
from localpv.engine.apiserver.kinds.volume_access import round_up

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
        container["imagePullPolicy"] = pod_names.pull_policy(container.get("image", ""))
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
