"""Writes the status of pods, when it is another than before."""

from __future__ import annotations

from localpv import errors
from localpv.api import kinds
from localpv.api.kinds import StateWaiting
from localpv.client.informer import Informer
from localpv.client.objects import Objects, Patch
from localpv.engine.kubelet import container_start, events, pod_actions, pod_status
from localpv.engine.kubelet.pod_state import Live
from localpv.engine.kubelet.records import Records
from localpv.runtime.clock import Clock


class StatusWriter:
    """What it writes the informer has at once: else a pod whose end was written would get its volumes once more."""

    def __init__(
        self,
        *,
        objects: Objects[kinds.Pod],
        pods: Informer[kinds.Pod],
        records: Records,
        host_ip: str,
        clock: Clock,
    ) -> None:
        self._objects, self._pods, self._records = objects, pods, records
        self._host_ip, self._clock = host_ip, clock

    async def write(
        self,
        pod: kinds.Pod,
        live: Live,
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
        world = pod_status.World(
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
        new = pod_status.status(newest, world)
        if new == newest.status:
            return
        try:
            written = await self._objects.patch(
                pod.metadata.name,
                pod_status.patch(pod, new),
                pod.metadata.namespace,
                how=Patch.STRATEGIC,
                subresource="status",
            )
        except errors.NotFound:
            return  # it went meanwhile; the watch will say so
        self._pods.wrote(written)
