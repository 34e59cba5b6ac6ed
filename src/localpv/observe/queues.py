"""Work queues and the loops behind them, under the names that controllers of Kubernetes use."""

from __future__ import annotations

from localpv.observe.registry import Registry
from localpv.runtime.queue import Observer


class Queues:
    """Gives each queue of a process its observer: `queues("look")`."""

    def __init__(self, registry: Registry) -> None:
        label = ("name",)
        self.depth = registry.gauge("workqueue_depth", "Keys that wait to be looked at.", label)
        self.waited = registry.histogram("workqueue_queue_duration_seconds", "How long keys waited.", label)
        self.worked = registry.histogram("workqueue_work_duration_seconds", "How long a look at a key took.", label)
        self.retries = registry.counter("workqueue_retries_total", "Looks that are tried again after a wait.", label)
        self.errors = registry.counter(
            "localpv_reconcile_errors_total",
            "Looks that failed: conflict (somebody else wrote first), error, timeout, or unexpected (our defect).",
            ("controller", "kind"),
        )

    def __call__(self, name: str) -> Observer:
        self.retries.begin(name)
        for kind in ("conflict", "error", "timeout", "unexpected"):
            self.errors.begin(name, kind)
        return _Queue(name, self)


class _Queue:
    def __init__(self, name: str, all_queues: Queues) -> None:
        self._name = name
        self._all = all_queues

    def depth(self, waiting: int) -> None:
        self._all.depth.set(waiting, self._name)

    def taken(self, waited_seconds: float) -> None:
        self._all.waited.observe(waited_seconds, self._name)

    def done(self, worked_seconds: float) -> None:
        self._all.worked.observe(worked_seconds, self._name)

    def retried(self, why: str) -> None:
        self._all.retries.add(self._name)
        self._all.errors.add(self._name, why)
