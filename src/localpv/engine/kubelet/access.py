"""Logs of this machine's pods, and processes inside their containers, for whoever answers kubectl."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from localpv import errors
from localpv.api.pod_logs import PodLogOptions
from localpv.engine.kubelet import logs
from localpv.engine.kubelet.paths import KubeletPaths
from localpv.engine.kubelet.records import Record, Records
from localpv.host.containers import Containers, Process


class PodAccess:
    """Looks into the pods of this machine. Pods are objects as the API has them."""

    def __init__(self, *, records: Records, containers: Containers, paths: KubeletPaths) -> None:
        self._records, self._containers, self._paths = records, containers, paths

    def running(self) -> list[str]:
        """Pods with a container that runs, by name."""
        return sorted(running(self._records, self._containers).values())

    async def logs(self, pod: dict[str, Any], container: str, options: PodLogOptions) -> AsyncIterator[bytes]:
        """The log of a container, or with `previous` that of its attempt before; BadRequest when there is none."""
        record = self._attempt(pod, container, previous=options.previous)
        path = self._paths.log(record.pod_uid, container, record.attempt)
        wanted = replace(options, follow=options.follow and not options.previous)
        async for chunk in logs.stream(path, wanted, done=lambda: self._done(record)):
            yield chunk

    async def exec(
        self, pod: dict[str, Any], container: str, command: tuple[str, ...], *, stdin: bool, tty: bool
    ) -> Process:
        """Start a command in a container that runs."""
        record = self._records.latest(_uid(pod)).get(container)
        if record is None or not record.running or not self._containers.look(self._records.bundle(record)).running:
            raise errors.BadRequest(f'container "{container}" of pod {_name(pod)} is not running')
        return await self._containers.exec(self._records.bundle(record), command, stdin=stdin, tty=tty)

    def _attempt(self, pod: dict[str, Any], container: str, *, previous: bool) -> Record:
        attempts = self._records.of(_uid(pod)).get(container, [])
        if previous:
            before = attempts[:-1] if not attempts or attempts[-1].end is None else attempts
            if not before:
                raise errors.BadRequest(f'previous terminated container "{container}" in pod "{_name(pod)}" not found')
            return before[-1]
        if not attempts or not attempts[-1].started_at:
            why = _waiting(pod, container)
            raise errors.BadRequest(f'container "{container}" in pod "{_name(pod)}" is waiting to start: {why}')
        return attempts[-1]

    def _done(self, record: Record) -> bool:
        known = self._records.find(record)
        return known is None or known.end is not None


def running(records: Records, containers: Containers) -> dict[str, str]:
    """Pods with a container that runs, their names by uid."""
    return {
        uid: f"{record.namespace}/{record.pod_name}"
        for uid in records.uids()
        for record in records.all(uid)
        if record.end is None and containers.look(records.bundle(record)).running
    }


def _uid(pod: dict[str, Any]) -> str:
    return str(pod["metadata"].get("uid", ""))


def _name(pod: dict[str, Any]) -> str:
    return str(pod["metadata"].get("name", ""))


def _waiting(pod: dict[str, Any], container: str) -> str:
    status = pod.get("status") or {}
    for one in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        if one.get("name") == container:
            return str(((one.get("state") or {}).get("waiting") or {}).get("reason") or "ContainerCreating")
    return "ContainerCreating"
