"""Watching over the containers that run: their end, their probes, their hooks, and the order to stop.

What is held in memory of a pod for that can all be found again from the disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from localpv.api.kinds.containers import Container, LifecycleHandler, Probe, StateWaiting
from localpv.api.kinds.pods import Pod
from localpv.engine.kubelet import probes, termination
from localpv.engine.kubelet.paths import KubeletPaths
from localpv.engine.kubelet.probes import Health, Prober
from localpv.engine.kubelet.records import Record, Records
from localpv.engine.kubelet.termination import Stop
from localpv.engine.kubelet.volumes.volume_spec import Prepared
from localpv.host.containers import Containers
from localpv.observe.recorder import Recorder
from localpv.runtime.clock import Clock

HOOK_SECONDS = 600.0
"""A hook after the start has no limit of its own; the container waits for it."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Watched:
    """A container that runs."""

    ended: asyncio.Event
    unwatch: Callable[[], None]
    health: Health
    probes: asyncio.Task[None] | None = None
    stop: Stop | None = None


@dataclass(slots=True)
class PodState:
    """One pod."""

    prepared: Mapping[str, Prepared] | None = None
    sandbox: bool = False
    waiting: dict[str, StateWaiting] = field(default_factory=dict)
    """Why containers could not be started at the last try."""

    watched: dict[str, Watched] = field(default_factory=dict)
    """By the id of the container."""

    taken_over: set[str] = field(default_factory=set)
    """Ids of containers whose start went on without us: nobody has run their hooks yet."""

    settled: bool = False
    """Nothing of the pod is left on the machine but its logs and records."""

    backed_off: set[str] = field(default_factory=set)
    """Containers whose waiting has been told in an event."""

    def let_go(self, id_: str) -> None:
        """The container has ended."""
        watched = self.watched.pop(id_, None)
        if watched is not None:
            watched.unwatch()
            if watched.probes is not None:
                watched.probes.cancel()


class Supervisor:
    """Holds on to running containers. `own` must give each task an owner."""

    def __init__(
        self,
        *,
        containers: Containers,
        prober: Prober,
        records: Records,
        paths: KubeletPaths,
        recorder: Recorder,
        clock: Clock,
        wake: Callable[[str], None],
        own: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._containers, self._prober = containers, prober
        self._records, self._paths = records, paths
        self._recorder, self._clock = recorder, clock
        self._wake, self._own = wake, own

    def watch_all(self, pod: Pod, live: PodState) -> None:
        """Watch every container of a pod that runs and is not watched yet: those from before a restart of ours."""
        by_name = {one.name: one for one in (*pod.spec.init_containers, *pod.spec.containers)}
        for record in self._records.latest(pod.metadata.uid).values():
            if record.running and record.id not in live.watched and record.container in by_name:
                self.watch(pod, by_name[record.container], record, live)

    def watch(self, pod: Pod, container: Container, record: Record, live: PodState) -> None:
        """Be told when a container ends, and probe it until then."""
        watched = self._watch(record, live, probes.fresh(container))
        if not probes.has_probes(container):
            return
        known = next((one for one in pod.status.container_statuses if one.container_id.endswith(record.id)), None)
        if known is not None and known.started:
            # From before a restart of ours: what was known of it still holds until a probe says otherwise.
            watched.health.started, watched.health.ready = True, known.ready
        lists = "initContainers" if container in pod.spec.init_containers else "containers"
        about = f"{pod.metadata.key} {lists} {container.name}"

        def unhealthy(probe: str, found: str) -> None:
            log.debug("probe failed container=%s probe=%s found=%s", about, probe, found)
            self._recorder.event(pod, "Unhealthy", f"{probe} probe failed: {found.strip()}", warning=True)

        work = self._prober.run(
            container,
            self._records.bundle(record),
            self._paths.sandbox(record.pod_uid),
            watched.health,
            changed=lambda: self._wake(record.pod_uid),
            unhealthy=unhealthy,
        )
        watched.probes = self._own(work)

    def watch_stranger(self, record: Record, live: PodState) -> None:
        """Watch a container whose pod is not known any more."""
        if record.id not in live.watched:
            self._watch(record, live, Health(started=True, ready=False))

    def _watch(self, record: Record, live: PodState, health: Health) -> Watched:
        ended = asyncio.Event()

        def told() -> None:
            ended.set()
            self._wake(record.pod_uid)

        watched = Watched(ended, self._containers.watch(self._records.bundle(record), told), health)
        live.watched[record.id] = watched
        return watched

    async def started(self, pod: Pod, container: Container, record: Record, live: PodState) -> None:
        """Run the hook after the start; a container whose hook fails is ended."""
        hook = container.lifecycle.post_start if container.lifecycle is not None else None
        if hook is None or await self._hook(hook, container, record, HOOK_SECONDS):
            return
        self._recorder.event(pod, "FailedPostStartHook", "PostStartHook failed", warning=True)
        self.stop(pod, record, live, float(pod.spec.termination_grace_period_seconds or 30))

    async def _hook(self, hook: LifecycleHandler, container: Container, record: Record, seconds: float) -> bool:
        if hook.sleep is not None:
            await self._clock.sleep(hook.sleep.seconds)
            return True
        probe = Probe(exec=hook.exec, http_get=hook.http_get, timeout_seconds=max(int(seconds), 1))
        sandbox = self._paths.sandbox(record.pod_uid)
        wrong = await self._prober.ask(probe, container, self._records.bundle(record), sandbox)
        if wrong:
            log.info("hook failed id=%s reason=%s", record.id, wrong)
        return not wrong

    def stop(self, pod: Pod | None, record: Record, live: PodState, grace: float) -> bool:
        """Begin to end a container, or hurry it; True when it has just begun."""
        deadline = self._clock.monotonic() + grace
        watched = live.watched.get(record.id)
        if watched is None:
            return False
        if watched.stop is not None:
            watched.stop.hurry(deadline)
            return False
        if watched.probes is not None:
            watched.probes.cancel()
        watched.health.ready = False
        watched.stop = Stop(
            self._records.bundle(record), watched.ended, deadline, termination.signal_number(record.stop_signal)
        )
        self._own(self._see_through(pod, record, watched.stop))
        return True

    async def _see_through(self, pod: Pod | None, record: Record, stop: Stop) -> None:
        container = container_of(pod, record.container)
        handler = container.lifecycle.pre_stop if container is not None and container.lifecycle is not None else None

        async def hook(seconds: float) -> bool:
            assert handler is not None and container is not None
            return await self._hook(handler, container, record, seconds)

        content = await termination.run(
            stop, hook if handler is not None else None, containers=self._containers, clock=self._clock
        )
        if not content and pod is not None:
            self._recorder.event(pod, "FailedPreStopHook", "PreStopHook failed", warning=True)
        self._wake(record.pod_uid)


def container_of(pod: Pod | None, name: str) -> Container | None:
    """The container of that name in the spec of a pod; None also without the pod."""
    every = (*pod.spec.containers, *pod.spec.init_containers) if pod is not None else ()
    return next((one for one in every if one.name == name), None)
