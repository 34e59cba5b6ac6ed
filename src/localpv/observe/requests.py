"""Requests to an API server: under the names of Kubernetes' own clients, and for volumes under the classic ones."""

from __future__ import annotations

from urllib.parse import urlsplit

from localpv.observe.registry import Registry

VOLUMES = "/api/v1/persistentvolumes"
NO_ANSWER = "<error>"
_CLASSIC = {("POST", VOLUMES): "create", ("DELETE", VOLUMES): "delete"}


class Requests:
    """Is told every request that a client has sent."""

    def __init__(self, registry: Registry, *, server: str) -> None:
        self._host = urlsplit(server).netloc
        self.total = registry.counter(
            "rest_client_requests_total", "Requests by code; <error> when no answer came.", ("code", "method", "host")
        )
        self.duration = registry.histogram(
            "rest_client_request_duration_seconds",
            "How long answers took; of watches, until they began.",
            ("verb", "host"),
        )
        prefix, label = "local_volume_provisioner_apiserver_requests", ("method",)
        self.classic = registry.counter(f"{prefix}_total", "Volumes asked to be created or deleted.", label)
        self.classic_failed = registry.counter(f"{prefix}_failed_total", "Those of them that were refused.", label)
        self.classic_duration = registry.histogram(f"{prefix}_duration_seconds", "How long they took.", label)
        for method in _CLASSIC.values():
            self.classic.begin(method)
            self.classic_failed.begin(method)

    def answered(self, method: str, path: str, *, code: int, seconds: float) -> None:
        """The code is 0 when there was no answer."""
        self.total.add(str(code) if code else NO_ANSWER, method, self._host)
        self.duration.observe(seconds, method, self._host)
        if not path.startswith(VOLUMES):
            return
        kind = _CLASSIC.get((method, path if method == "POST" else path.rpartition("/")[0]))
        if kind is not None:
            self.classic.add(kind)
            self.classic_duration.observe(seconds, kind)
            if not 200 <= code < 300:
                self.classic_failed.add(kind)
