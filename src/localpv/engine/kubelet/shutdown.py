"""The pods of this machine ended and everything of theirs unmounted, without an API server.

Their objects stay as they are, as if the machine were switched off in order: the next engine finds containers that have
ended and starts them again where their restartPolicy says so. Every step can be repeated, from what is on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from localpv import errors
from localpv.api.kinds.pods import Pod
from localpv.engine.kubelet import access, pod_actions
from localpv.engine.kubelet.garbage_collection import GarbageCollector, Volumes
from localpv.engine.kubelet.paths import KubeletPaths
from localpv.engine.kubelet.probes import Prober
from localpv.engine.kubelet.records import Records
from localpv.engine.kubelet.supervisor import PodState, Supervisor
from localpv.host.containers import Containers
from localpv.host.sandboxes import Layers, Sandboxes
from localpv.observe.recorder import Recorder
from localpv.runtime.clock import Clock

GRACE_SECONDS = 30.0
"""For pods that say nothing else, as in Kubernetes."""

STUCK_SECONDS = 90.0
"""How much longer than its grace period a pod may take: to be killed, and for the runtime to forget its containers."""

RELEASE_SECONDS, AGAIN_SECONDS = 10.0, 0.2
"""How long volumes are tried to be unmounted that somebody still works in, and how often."""


class Shutdown:
    """Ends all pods of one machine, each with its own grace period, all at the same time."""

    def __init__(
        self,
        *,
        paths: KubeletPaths,
        containers: Containers,
        sandboxes: Sandboxes,
        layers: Layers,
        volumes: Volumes,
        pods: Mapping[str, Pod],
        clock: Clock,
        say: Callable[[str], None],
        grace_seconds: float | None = None,
    ) -> None:
        self._containers, self._pods, self._clock, self._say, self._grace = containers, pods, clock, say, grace_seconds
        self._records = Records(paths)
        self._garbage = GarbageCollector(
            containers=containers,
            layers=layers,
            sandboxes=sandboxes,
            volumes=volumes,
            records=self._records,
            paths=paths,
            clock=clock,
        )
        self._changed: dict[str, asyncio.Event] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._supervisor = Supervisor(
            containers=containers,
            prober=Prober(containers=containers, sandboxes=sandboxes, clock=clock),
            records=self._records,
            paths=paths,
            recorder=Recorder(),  # nobody hears events: the API server has stopped
            clock=clock,
            wake=lambda uid: self._changed[uid].set(),
            own=self._own,
        )

    async def run(self) -> tuple[str, ...]:
        """End everything; what could not be taken away, in words."""
        await self._garbage.remove_strangers(self._records.load())
        uids = sorted(await self._garbage.leftovers())
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            runs = access.running(self._records, self._containers)
            ends = [tasks.create_task(self._end(uid, runs=uid in runs)) for uid in uids]
        return tuple(why for end in ends if (why := end.result()))

    async def _end(self, uid: str, *, runs: bool) -> str:
        self._changed[uid] = asyncio.Event()
        pod, live, name = self._pods.get(uid), PodState(), self._name(uid)
        grace = self._grace_of(pod)
        if runs:
            self._say(f"{name} is being ended; it has {grace:g} s")
        try:
            async with asyncio.timeout(grace + STUCK_SECONDS):
                await self._stop(uid, pod, live, grace)
            if runs:
                self._say(f"{name} has ended")
            await self._release(uid)
        except TimeoutError:
            return f"{name} does not end, though it was killed"
        except errors.HostError as error:
            return f"{name}: {error.message}"
        return ""

    async def _stop(self, uid: str, pod: Pod | None, live: PodState, grace: float) -> None:
        deadline = self._clock.monotonic() + grace
        await self._garbage.collect(uid, pod, live)
        while self._next(uid, pod, live, deadline - self._clock.monotonic()):
            await self._changed[uid].wait()
            self._changed[uid].clear()
            await self._garbage.collect(uid, pod, live)

    def _next(self, uid: str, pod: Pod | None, live: PodState, grace: float) -> bool:
        """Order the next containers of a pod to end; whether any is left."""
        latest = {name: record for name, record in self._records.latest(uid).items() if record.running}
        steps = pod_actions.stop_order(pod, latest) if pod is not None else []
        # Without the pod, or with one that has changed since, nobody knows an order.
        for name in steps[0] if steps else latest:
            self._supervisor.watch_stranger(latest[name], live)
            self._supervisor.stop(pod, latest[name], live, max(grace, 0.0))
        return bool(latest)

    async def _release(self, uid: str) -> None:
        """Unmount; the last process of a container may be gone a moment later than the container."""
        end = self._clock.monotonic() + RELEASE_SECONDS
        while True:
            try:
                return await self._garbage.release(uid)
            except errors.HostError:
                if self._clock.monotonic() > end:
                    raise
            await self._clock.sleep(AGAIN_SECONDS)

    def _grace_of(self, pod: Pod | None) -> float:
        if self._grace is not None:
            return self._grace
        seconds = pod.spec.termination_grace_period_seconds if pod is not None else None
        return GRACE_SECONDS if seconds is None else float(seconds)

    def _name(self, uid: str) -> str:
        for record in self._records.all(uid):
            return f"{record.namespace}/{record.pod_name}"
        return self._pods[uid].metadata.key if uid in self._pods else f"pod {uid}"

    def _own(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        assert self._tasks is not None
        return self._tasks.create_task(_guarded(work))


async def _guarded(work: Coroutine[Any, Any, None]) -> None:
    # What the runtime refuses is seen when the container still runs at the end of its time.
    with contextlib.suppress(errors.HostError):
        await work
