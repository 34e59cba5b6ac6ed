"""Probes and lifecycle hooks: what the kubelet runs or calls to learn how a container is."""

from __future__ import annotations

from collections.abc import Iterator

from localpv.api import fields
from localpv.api.fields import FieldError
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import pod_names

Errors = Iterator[FieldError]

NAMES = ("livenessProbe", "readinessProbe", "startupProbe")
_COUNTS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def errors(container: Object, path: str, *, grace: int | None) -> Errors:
    for name in NAMES:
        if (probe := container.get(name)) is not None:
            yield from _probe(probe, f"{path}.{name}", name)
    lifecycle = container.get("lifecycle") or {}
    for hook in ("postStart", "preStop"):
        if hook in lifecycle:
            yield from _handler(lifecycle[hook], f"{path}.lifecycle.{hook}", grace=grace)


def _probe(probe: Object, path: str, name: str) -> Errors:
    yield from _handler(probe, path, grace=None)
    for count in _COUNTS:
        if probe.get(count, 0) < 0:
            yield fields.invalid(f"{path}.{count}", probe[count], "must be greater than or equal to 0")
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        yield fields.invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")
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
        yield from pod_names.port(action.get("port", 0), f"{path}.port")


def _http(action: Object, path: str) -> Errors:
    if action.get("scheme") not in ("HTTP", "HTTPS"):
        yield fields.not_supported(f"{path}.scheme", action.get("scheme"), ("HTTP", "HTTPS"))
    for header in action.get("httpHeaders") or ():
        for sentence in pod_names.header(header.get("name", "")):
            yield fields.invalid(f"{path}.httpHeaders", header.get("name", ""), sentence)
