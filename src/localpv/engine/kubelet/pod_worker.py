"""One pod, one step: compares what the API wants with what runs on this machine, and does what is missing.

Every step reads the present state of the pod, of the records and of the runtime, so it can be taken at any time and
after any crash. The order is fixed: volumes before namespaces before containers at the start, the other way round at
the end, and the Pod object goes last, because with it go the claims that protect the volumes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Protocol

from localpv.api.kinds.containers import Container, StateWaiting
from localpv.api.kinds.meta import read_time
from localpv.api.kinds.pods import Pod
from localpv.engine.kubelet import bundle, etc_files, pod_actions
from localpv.engine.kubelet.container_start import Starter
from localpv.engine.kubelet.events import NoImage, NotStarted, PodEvents, RunError
from localpv.engine.kubelet.garbage_collection import GarbageCollector
from localpv.engine.kubelet.pod_status import StatusWriter
from localpv.engine.kubelet.records import Record
from localpv.engine.kubelet.supervisor import PodState, Supervisor, container_of
from localpv.engine.kubelet.volumes.volume_spec import NotReady, Prepared
from localpv.engine.scheduler import admission
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Done, LookAgain, Outcome

IMAGE_SECONDS = 2.0
"""How often to look for an image that is missing: somebody may be importing it."""

RETRY_SECONDS = 10.0
"""How often to try again what a container's configuration asks for and is not there."""

REFRESH_SECONDS = 60.0
"""How often volumes made from ConfigMaps and Secrets are brought up to date."""

FORCED_SECONDS = 1.0
"""What containers get whose pod was deleted without waiting for them."""

FINISHED = ("Succeeded", "Failed")


class Volumes(Protocol):
    async def set_up(self, pod: Pod) -> Mapping[str, Prepared]: ...

    async def refresh(self, pod: Pod) -> None: ...


Admit = Callable[[Pod], Awaitable[tuple[str, str] | None]]
"""Why a pod that was put on this node cannot run here: a reason and a message; None when it can."""


class Worker:
    """Looks after the pods of this machine, one step at a time."""

    def __init__(
        self,
        *,
        find: Callable[[str], Pod | None],
        volumes: Volumes,
        starter: Starter,
        supervisor: Supervisor,
        garbage: GarbageCollector,
        status: StatusWriter,
        events: PodEvents,
        clock: Clock,
        admit: Admit | None = None,
    ) -> None:
        self._find, self._volumes = find, volumes
        self._starter, self._supervisor, self._garbage = starter, supervisor, garbage
        self._records, self._runtime = starter.records, starter.runtime
        self._status, self._events = status, events
        self._clock, self._admit = clock, admit
        self._live: dict[str, PodState] = {}

    def live(self, uid: str) -> PodState:
        return self._live.setdefault(uid, PodState())

    async def reconcile(self, uid: str) -> Outcome:
        pod, live = self._find(uid), self.live(uid)
        await self._garbage.collect(uid, pod, live)
        if pod is None:
            return await self._clear(uid, live)
        self._supervisor.watch_all(pod, live)
        if pod.metadata.deleting:
            return await self._wind_up(pod, live)
        if pod.status.phase in FINISHED:
            return await self._settle(pod, live)
        if (overdue := self._overdue(pod)) is not None:
            return await self._fail(pod, live, *overdue)
        if (refused := await self._refused(pod)) is not None:
            return await self._fail(pod, live, *refused, before=admission.REJECTED)
        return await self._advance(pod, live)

    async def _advance(self, pod: Pod, live: PodState) -> Outcome:
        """Bring the pod one step further."""
        uid = pod.metadata.uid
        unready: NotReady | None = None
        try:
            await self._prepare(pod, live)
        except NotReady as error:
            # Nothing new starts. What runs already, in a pod that was adopted, goes on, is looked after, and may end.
            unready = error
            self._events.not_ready(pod, error)
        await self._go_on_with_taken_over(pod, live)
        made = self._plan(pod, live)
        trouble: NotStarted | None = None
        for container in made.start if unready is None else ():
            try:
                await self._start(pod, container, live)
            except NotStarted as error:
                told = live.waiting.get(container.name)
                if told is None or told.message != error.message:
                    self._events.failed(pod, container.name, error)
                if not isinstance(error, RunError):  # that one is an attempt like any other, and ended
                    trouble = error
                    live.waiting[container.name] = StateWaiting(reason=error.reason, message=error.message)
        if made.start:
            made = self._plan(pod, live)
        for name in made.stop[:1]:
            self._stop(pod, live, self._records.latest(uid)[name], self._grace(pod), f"Stopping container {name}")
        for name in made.changed:
            message = f"Container {name} definition changed, will be restarted"
            self._stop(pod, live, self._records.latest(uid)[name], self._grace(pod), message)
        for record in self._records.latest(uid).values():
            if record.running and (watched := live.watched.get(record.id)) and watched.health.dead:
                probe = watched.health.dead
                message = f"Container {record.container} failed {probe} probe, will be restarted"
                self._stop(pod, live, record, self._grace(pod, record.container, probe), message)
        for name in made.backing_off.keys() - live.backed_off:
            live.backed_off.add(name)
            self._events.back_off(pod, name)
        over = made.over and not made.stop
        await self._status.write(pod, live, made, over=over)
        if over:
            return await self._settle(pod, live)
        if unready is not None:
            raise unready
        if made.start and trouble is None:
            return LookAgain(after=0.0)  # the next init container, or what has come up meanwhile
        waits = [made.again, self._until_overdue(pod), REFRESH_SECONDS if live.prepared else None]
        if trouble is not None:
            waits.append(IMAGE_SECONDS if isinstance(trouble, NoImage) else RETRY_SECONDS)
        found = [wait for wait in waits if wait is not None]
        return LookAgain(after=max(min(found), 0.05)) if found else Done()

    async def _prepare(self, pod: Pod, live: PodState) -> None:
        """Volumes, then namespaces; NotReady when a volume cannot be served now, which the loop tries again."""
        uid = pod.metadata.uid
        if live.prepared is None:
            live.prepared = await self._volumes.set_up(pod)
        else:
            try:
                await self._volumes.refresh(pod)
            except NotReady as error:
                self._events.not_ready(pod, error)
        if not live.sandbox:
            names = bundle.shared_namespaces(pod)
            folder = self._runtime.paths.sandbox(uid)
            host_name = etc_files.host_name(pod, node=self._starter.node.name)
            await self._runtime.sandboxes.make(folder, namespaces=names, host_name=host_name)
            live.sandbox = True

    async def _go_on_with_taken_over(self, pod: Pod, live: PodState) -> None:
        """What `_start` does after the start, for containers whose start went on when we died in the middle of it."""
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            record = self._records.latest(pod.metadata.uid).get(container.name)
            if record is not None and record.running and record.id in live.taken_over:
                live.taken_over.discard(record.id)
                self._events.started(pod, container.name)
                await self._supervisor.started(pod, container, record, live)
                await self._garbage.forget_old(record)

    async def _start(self, pod: Pod, container: Container, live: PodState) -> None:
        assert live.prepared is not None
        attempts = self._records.of(pod.metadata.uid).get(container.name, [])
        delay = pod_actions.next_delay(attempts[-1]) if attempts else 0.0
        self._starter.find_image(container)
        if container.name not in live.waiting:
            self._events.pulled(pod, container)
        record = await self._starter.create(pod, container, live.prepared, delay=delay)
        self._events.created(pod, container.name)
        record = await self._starter.start(record)
        self._events.started(pod, container.name)
        live.waiting.pop(container.name, None)
        live.backed_off.discard(container.name)
        self._supervisor.watch(pod, container, record, live)
        await self._supervisor.started(pod, container, record, live)
        await self._garbage.forget_old(record)

    def _plan(self, pod: Pod, live: PodState) -> pod_actions.Plan:
        def started(record: Record) -> bool:
            watched = live.watched.get(record.id)
            return watched is not None and watched.health.started

        latest = self._records.latest(pod.metadata.uid)
        return pod_actions.plan(pod, latest, now=self._clock.now(), boot=self._starter.node.boot, started=started)

    async def _fail(self, pod: Pod, live: PodState, reason: str, message: str, *, before: str = "") -> Outcome:
        """The pod as a whole has failed: end what runs, then say so."""
        if self._stop_next(pod, live, self._grace(pod)):
            return Done()
        await self._status.write(
            pod, live, pod_actions.Plan(over=True), over=True, reason=reason, message=before + message
        )
        self._events.whole(pod, reason, message)
        return await self._settle(pod, live)

    async def _settle(self, pod: Pod, live: PodState) -> Outcome:
        """A pod that has finished keeps its logs and nothing else."""
        if live.settled or self._stop_next(pod, live, self._grace(pod)):
            return Done()
        await self._garbage.release(pod.metadata.uid)
        live.settled, live.prepared, live.sandbox = True, None, False
        return Done()

    async def _wind_up(self, pod: Pod, live: PodState) -> Outcome:
        """A pod that is being deleted: its containers, its volumes, then the object itself."""
        assert pod.metadata.deletion_timestamp is not None
        left = read_time(pod.metadata.deletion_timestamp) - self._clock.now()
        if self._stop_next(pod, live, max(left.total_seconds(), FORCED_SECONDS)):
            await self._status.write(pod, live, self._plan(pod, live))
            return Done()
        if pod.status.phase not in FINISHED:
            await self._status.write(pod, live, self._plan(pod, live), over=True)
        await self._garbage.release(pod.metadata.uid)
        live.prepared, live.sandbox = None, False
        await self._status.remove(pod)
        # The rest goes when the object has: until then somebody may want to read the logs.
        return Done()

    async def _clear(self, uid: str, live: PodState) -> Outcome:
        """The object is gone, by force or while nobody looked: nothing of it stays."""
        waits = False
        for record in self._records.latest(uid).values():
            if record.end is None:
                self._supervisor.watch_stranger(record, live)
                self._supervisor.stop(None, record, live, FORCED_SECONDS)
                waits = True
        if waits:
            return Done()
        await self._garbage.release(uid)
        await self._garbage.bury_pod(uid)
        self._live.pop(uid, None)
        return Done()

    def _stop_next(self, pod: Pod, live: PodState, grace: float) -> bool:
        """Order the next containers to end; whether any is left."""
        latest = self._records.latest(pod.metadata.uid)
        steps = pod_actions.stop_order(pod, latest)
        for name in steps[0] if steps else ():
            self._stop(pod, live, latest[name], grace, f"Stopping container {name}")
        return bool(steps)

    def _stop(self, pod: Pod, live: PodState, record: Record, grace: float, message: str) -> None:
        if self._supervisor.stop(pod, record, live, grace):
            self._events.killing(pod, record.container, message)

    async def _refused(self, pod: Pod) -> tuple[str, str] | None:
        """Asked once, before anything of the pod is on this machine."""
        if self._admit is None or pod.status.start_time or self._records.of(pod.metadata.uid):
            return None
        return await self._admit(pod)

    def _overdue(self, pod: Pod) -> tuple[str, str] | None:
        left = self._until_overdue(pod)
        if left is None or left > 0:
            return None
        return "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"

    def _until_overdue(self, pod: Pod) -> float | None:
        started, seconds = pod.status.start_time, pod.spec.active_deadline_seconds
        if started is None or seconds is None:
            return None
        return (read_time(started) + timedelta(seconds=seconds) - self._clock.now()).total_seconds()

    def _grace(self, pod: Pod, container: str = "", probe: str = "") -> float:
        """How long containers have to end; a probe may give its own container another time."""
        seconds = pod.spec.termination_grace_period_seconds
        if (spec := container_of(pod, container)) is not None:
            failed = spec.liveness_probe if probe == "liveness" else spec.startup_probe
            if failed is not None and failed.termination_grace_period_seconds is not None:
                seconds = failed.termination_grace_period_seconds
        return float(30 if seconds is None else seconds)
