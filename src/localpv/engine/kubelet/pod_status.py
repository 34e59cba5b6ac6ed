"""The status of a pod, worked out from what is known of its containers, and written when it is another than before."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from localpv import errors
from localpv.api.kinds.containers import (
    Container,
    ContainerState,
    ContainerStatus,
    StateRunning,
    StateTerminated,
    StateWaiting,
)
from localpv.api.kinds.pods import Pod, PodCondition, PodStatus
from localpv.client.informer import Informer
from localpv.client.objects import Objects, Patch
from localpv.engine.kubelet import container_start, events, pod_actions
from localpv.engine.kubelet.records import Record, Records
from localpv.engine.kubelet.supervisor import PodState
from localpv.runtime.clock import Clock

SCHEME = "runc://"
_GATES = "ReadinessGatesNotReady"
CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What the status of one pod is made from."""

    records: Mapping[str, Sequence[Record]]
    """By container, oldest attempt first."""

    waiting: Mapping[str, StateWaiting] = field(default_factory=dict)
    """Why containers do not run, where there is more to say than that they are being made."""

    ready: frozenset[str] = frozenset()
    """Containers that run and whose readiness probe is content."""

    started: frozenset[str] = frozenset()
    initialized: bool = False
    sandbox: bool = False
    over: bool = False
    """Nothing will run again: a phase that ends it all may be told."""

    reason: str = ""
    message: str = ""
    """Why the pod as a whole failed, if not for its containers."""

    now: str
    host_ip: str = ""
    generation: int = 0
    """Of the pod that was acted on: what people wished since then is not seen to yet."""


def status(pod: Pod, world: World) -> PodStatus:
    """The whole status; times of transitions that did not happen are those of the pod's present status."""
    inits = tuple(
        _container(one, world, pod.status.init_container_statuses, init=True) for one in pod.spec.init_containers
    )
    mains = tuple(_container(one, world, pod.status.container_statuses) for one in pod.spec.containers)
    phase = _phase(pod, inits, mains, world)
    return PodStatus(
        observed_generation=max(world.generation, pod.status.observed_generation),
        phase=phase,
        reason=world.reason,
        message=world.message,
        conditions=_conditions(pod, phase, inits, mains, world),
        host_ip=world.host_ip,
        pod_ip=world.host_ip if pod.spec.host_network else "",
        start_time=pod.status.start_time or world.now,
        nominated_node_name=pod.status.nominated_node_name,
        container_statuses=mains,
        init_container_statuses=inits,
        qos_class=pod.status.qos_class,
    )


def _container(
    container: Container, world: World, before: Sequence[ContainerStatus], *, init: bool = False
) -> ContainerStatus:
    attempts = world.records.get(container.name, ())
    last = attempts[-1] if attempts else None
    known = next((one for one in before if one.name == container.name), None)
    waiting = world.waiting.get(container.name)
    if last is None:
        if known is not None and (known.state.terminated is not None or world.over):
            return known  # what ran has been cleared away, and is still true
        return ContainerStatus(
            name=container.name,
            image=container.image,
            state=ContainerState(waiting=waiting or _not_yet(world)),
            started=False,
        )
    if last.end is not None and waiting is None:
        state, previous = ContainerState(terminated=_terminated(last)), _previous(attempts, known)
    elif last.end is not None:
        state, previous = ContainerState(waiting=waiting), ContainerState(terminated=_terminated(last))
    elif last.started_at:
        state, previous = ContainerState(running=StateRunning(started_at=last.started_at)), _previous(attempts, known)
    else:
        state, previous = ContainerState(waiting=waiting or _not_yet(world)), _previous(attempts, known)
    return ContainerStatus(
        name=container.name,
        image=container.image,
        image_id=last.image_id,
        container_id=f"{SCHEME}{last.id}",
        restart_count=last.attempt,
        state=state,
        last_state=previous,
        # An init container is ready when it has done its work.
        ready=container.name in world.ready or (init and last.end is not None and last.end.exit_code == 0),
        started=container.name in world.started,
    )


def _not_yet(world: World) -> StateWaiting:
    if world.initialized or not world.sandbox:
        return StateWaiting(reason="ContainerCreating")
    return StateWaiting(reason="PodInitializing")


def _previous(attempts: Sequence[Record], known: ContainerStatus | None) -> ContainerState:
    if len(attempts) > 1 and attempts[-2].end is not None:
        return ContainerState(terminated=_terminated(attempts[-2]))
    if len(attempts) == 1 and attempts[0].attempt > 0 and known is not None:
        return known.last_state
    return ContainerState()


def _terminated(record: Record) -> StateTerminated:
    assert record.end is not None
    return StateTerminated(
        exit_code=record.end.exit_code,
        reason=record.end.reason,
        message=record.end.message,
        started_at=record.started_at or record.created_at,
        finished_at=record.end.finished_at,
        container_id=f"{SCHEME}{record.id}",
    )


def _ended(one: ContainerStatus) -> StateTerminated | None:
    return one.state.terminated or (one.last_state.terminated if one.state.waiting is not None else None)


def _phase(pod: Pod, inits: Sequence[ContainerStatus], mains: Sequence[ContainerStatus], world: World) -> str:
    if world.reason and world.over:
        return "Failed"
    if world.over:
        regular = [
            one for one, spec in zip(inits, pod.spec.init_containers, strict=True) if not pod_actions.is_sidecar(spec)
        ]
        ends = [_ended(one) for one in (*regular, *mains)]
        return "Succeeded" if all(end is not None and end.exit_code == 0 for end in ends) else "Failed"
    if not world.initialized:
        return "Pending"
    ran = [one for one in mains if one.state.running is not None or _ended(one) is not None]
    if len(ran) < len(mains):
        return "Pending"
    # Also when all have ended: they are started again, or the sidecars still stop.
    return "Running"


def _conditions(
    pod: Pod,
    phase: str,
    inits: Sequence[ContainerStatus],
    mains: Sequence[ContainerStatus],
    world: World,
) -> tuple[PodCondition, ...]:
    done = phase == "Succeeded"
    sidecars = [one for one, spec in zip(inits, pod.spec.init_containers, strict=True) if pod_actions.is_sidecar(spec)]
    unready = [one.name for one in (*sidecars, *mains) if not one.ready]
    incomplete = [] if world.initialized or done else [one.name for one in inits if not _complete(one)]
    why = ("", "")
    if phase in ("Succeeded", "Failed"):
        why = ("PodCompleted", "") if done else ("PodFailed", "")
    elif unready:
        why = ("ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]")
    initial = ("PodCompleted", "") if done else ("", "")
    if incomplete:
        initial = ("ContainersNotInitialized", f"containers with incomplete status: [{' '.join(incomplete)}]")
    gate = None if why[0] else _closed_gate(pod)
    told = {
        "PodReadyToStartContainers": (world.sandbox, "", ""),
        "Initialized": (not incomplete, *initial),
        "Ready": (not (gate or why)[0], *(gate or why)),
        "ContainersReady": (not why[0], *why),
        "PodScheduled": (True, "", ""),
    }
    before = {one.type: one for one in pod.status.conditions}
    made = [_condition(kind, *told[kind], before.get(kind), world.now, pod) for kind in CONDITIONS]
    return (*made, *(one for kind, one in before.items() if kind not in told))


def _closed_gate(pod: Pod) -> tuple[str, str] | None:
    """Why the pod is not ready though its containers are: a condition of spec.readinessGates that does not hold."""
    statuses = {one.type: one.status for one in pod.status.conditions}
    for gate in pod.spec.readiness_gates:
        kind, status = gate.condition_type, statuses.get(gate.condition_type)
        if status is None:
            return _GATES, f'corresponding condition of pod readiness gate "{kind}" does not exist.'
        if status != "True":
            return _GATES, f'the status of pod readiness gate "{kind}" is not "True", but {status}'
    return None


def _complete(one: ContainerStatus) -> bool:
    return one.state.terminated is not None and one.state.terminated.exit_code == 0


def _condition(
    kind: str, holds: bool, reason: str, message: str, before: PodCondition | None, now: str, pod: Pod
) -> PodCondition:
    word = "True" if holds else "False"
    same = before is not None and before.status == word
    return PodCondition(
        type=kind,
        status=word,
        reason=reason,
        message=message,
        last_transition_time=before.last_transition_time if before is not None and same else now,
        observed_generation=before.observed_generation if before is not None and same else pod.metadata.generation,
    )


def patch(pod: Pod, new: PodStatus) -> dict[str, Any]:
    """A strategic merge patch that makes the status what it should be, of this very pod."""
    body: dict[str, Any] = msgspec.to_builtins(new)
    for name in ("reason", "message", "podIP"):
        if name not in body and _was(pod, name):
            body[name] = None
    for lists in ("containerStatuses", "initContainerStatuses"):
        for one in body.get(lists, ()):
            # Fields that every reader expects, also when they say nothing.
            one.setdefault("ready", False)
            one.setdefault("restartCount", 0)
            one.setdefault("image", "")
            one.setdefault("imageID", "")
    for one in body.get("conditions", ()):
        one.setdefault("lastProbeTime", None)
    if "hostIP" in body:
        body["hostIPs"] = [{"ip": body["hostIP"]}]
    body.pop("qosClass", None)
    return {"metadata": {"uid": pod.metadata.uid}, "status": body}


def _was(pod: Pod, name: str) -> bool:
    return bool({"reason": pod.status.reason, "message": pod.status.message, "podIP": pod.status.pod_ip}[name])


class StatusWriter:
    """What it writes the informer has at once: else a pod whose end was written would get its volumes once more."""

    def __init__(
        self,
        *,
        objects: Objects[Pod],
        pods: Informer[Pod],
        records: Records,
        host_ip: str,
        clock: Clock,
    ) -> None:
        self._objects, self._pods, self._records = objects, pods, records
        self._host_ip, self._clock = host_ip, clock

    async def remove(self, pod: Pod) -> None:
        """Nothing of the pod is left here: its object goes too."""
        meta = pod.metadata
        try:
            await self._objects.delete(meta.name, meta.namespace, uid=meta.uid, grace_seconds=0)
        except (errors.NotFound, errors.Conflict):
            log.debug("pod was gone already pod=%s uid=%s", meta.key, meta.uid)

    async def write(
        self,
        pod: Pod,
        live: PodState,
        made: pod_actions.Plan,
        *,
        over: bool = False,
        reason: str = "",
        message: str = "",
    ) -> None:
        """Say how the pod is; `over` when nothing of it will run again, with the reason if it failed as a whole."""
        uid = pod.metadata.uid
        waiting = dict(live.waiting)
        for name, delay in made.backing_off.items():
            said = events.back_off_message(pod, name, delay)
            waiting[name] = StateWaiting(reason="CrashLoopBackOff", message=said)
        healthy = {
            record.container: watched.health
            for record in self._records.latest(uid).values()
            if record.running and (watched := live.watched.get(record.id)) is not None
        }
        world = World(
            records=self._records.of(uid),
            waiting=waiting if not over else {},
            ready=frozenset(name for name, health in healthy.items() if health.ready and health.started),
            started=frozenset(name for name, health in healthy.items() if health.started),
            initialized=made.initialized,
            sandbox=live.sandbox and not over,
            over=over,
            reason=reason,
            message=message,
            now=container_start.now(self._clock),
            host_ip=self._host_ip,
            generation=pod.metadata.generation,
        )
        newest = self._pods.by_key(pod.key)
        if newest is None or newest.metadata.uid != uid:
            newest = pod
        new = status(newest, world)
        if new == newest.status:
            return
        try:
            written = await self._objects.patch(
                pod.metadata.name,
                patch(pod, new),
                pod.metadata.namespace,
                how=Patch.STRATEGIC,
                subresource="status",
            )
        except errors.NotFound:
            return  # it went meanwhile; the watch will say so
        self._pods.wrote(written)
