"""The embedded API server, under the names of kube-apiserver where it has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from localpv.observe.registry import Registry


class Engine:
    """Is told every request that was answered, and asks the store how much there is."""

    def __init__(self, registry: Registry) -> None:
        self.requests = registry.counter(
            "apiserver_request_total", "Requests answered, by verb, resource and code.", ("verb", "resource", "code")
        )
        self.durations = registry.histogram(
            "apiserver_request_duration_seconds", "How long answers took; watches are not among them.", ("verb",)
        )
        self._objects = registry.gauge("apiserver_storage_objects", "Objects by resource.", ("resource",))
        self._revision = registry.gauge("localpv_store_revision", "Newest revision that is on disk.")
        self._registry = registry

    def answered(self, verb: str, resource: str, *, code: int, seconds: float) -> None:
        self.requests.add(verb, resource, str(code))
        if verb != "watch":
            self.durations.observe(seconds, verb)

    def text(self) -> str:
        return self._registry.text()

    def ask(self, *, objects: Callable[[], Mapping[str, int]], revision: Callable[[], int]) -> None:
        """Where to look when somebody reads the metrics."""

        def look() -> None:
            self._objects.become({(name,): count for name, count in objects().items()})
            self._revision.set(revision())

        self._registry.before_scrape(look)
