"""What a pod needs next: pure decisions from its spec and the records of its containers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from localpv.api.kinds.containers import Container
from localpv.api.kinds.meta import read_time
from localpv.api.kinds.pods import Pod
from localpv.engine.kubelet.records import Record

FIRST_DELAY, LONGEST_DELAY = 10.0, 300.0
"""Seconds before a container that keeps ending is started again: the first time at once, then doubling."""

HEALTHY_SECONDS = 600.0
"""A container that ran this long starts anew without a wait."""


@dataclass(slots=True)
class Plan:
    """What to do now."""

    start: list[Container] = field(default_factory=list)
    stop: list[str] = field(default_factory=list)
    """Containers that are not needed any more, in the order in which they go."""

    changed: list[str] = field(default_factory=list)
    """Containers that run from another image than the pod asks for now."""

    backing_off: dict[str, float] = field(default_factory=dict)
    """Containers that wait to be started again, and how long they wait in all."""

    again: float | None = None
    """Seconds until the next of them is due."""

    initialized: bool = False
    over: bool = False
    """Nothing of this pod will run again."""

    failed: bool = False
    """It is over because an init container failed."""


def plan(
    pod: Pod,
    latest: Mapping[str, Record],
    *,
    now: datetime,
    boot: str,
    started: Callable[[Record], bool],
) -> Plan:
    """The next steps; `started` says whether a running container has got through its startup probe."""
    made = Plan()
    policy = pod.spec.restart_policy or "Always"
    begun = any(latest.get(one.name) is not None for one in pod.spec.containers)
    for container in pod.spec.init_containers:
        record = latest.get(container.name)
        if is_sidecar(container):
            if record is None:
                made.start.append(container)
            elif record.end is not None:
                _again(made, container, record, now)
            if not begun and (record is None or not record.running or not started(record)):
                return made
        elif not begun:
            if record is None or (record.boot != boot and record.end is not None):
                made.start.append(container)
            elif record.end is not None and record.end.exit_code == 0:
                continue
            elif record.end is not None and policy == "Never":
                made.over = made.failed = True
                made.stop = _sidecars(pod, latest)
            elif record.end is not None:
                _again(made, container, record, now)
            return made
    made.initialized = True
    made.over = True
    for container in pod.spec.containers:
        record = latest.get(container.name)
        other = record is not None and record.image != container.image
        if record is not None and record.end is not None and not other and not restarts(policy, record.end.exit_code):
            continue
        made.over = False
        if record is None or (other and record.end is not None):
            made.start.append(container)
        elif record.end is not None:
            _again(made, container, record, now)
        elif other:
            made.changed.append(container.name)
    if made.over:
        made.start, made.backing_off, made.again = [], {}, None
        made.stop = _sidecars(pod, latest)
    return made


def is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"


def restarts(policy: str, exit_code: int) -> bool:
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def next_delay(record: Record) -> float:
    """How long to wait after this attempt before the next."""
    if record.end is None or record.attempt == 0:
        return 0.0
    ran = 0.0
    if record.started_at:
        ended, began = read_time(record.end.finished_at), read_time(record.started_at)
        ran = (ended - began).total_seconds()
    if ran >= HEALTHY_SECONDS:
        return 0.0
    return min(max(record.delay * 2, FIRST_DELAY), LONGEST_DELAY)


def stop_order(pod: Pod, latest: Mapping[str, Record]) -> list[list[str]]:
    """Who is stopped when a pod ends: the containers together, then the sidecars one by one, last first."""
    others = [one.name for one in pod.spec.init_containers if not is_sidecar(one)]
    first = [name for name in (*(one.name for one in pod.spec.containers), *others) if _runs(latest, name)]
    steps = [first] if first else []
    return [*steps, *([name] for name in _sidecars(pod, latest))]


def _again(made: Plan, container: Container, record: Record, now: datetime) -> None:
    assert record.end is not None
    delay = next_delay(record)
    left = delay - (now - read_time(record.end.finished_at)).total_seconds()
    if left <= 0:
        made.start.append(container)
        return
    made.backing_off[container.name] = delay
    made.again = left if made.again is None else min(made.again, left)


def _sidecars(pod: Pod, latest: Mapping[str, Record]) -> list[str]:
    names = [one.name for one in reversed(pod.spec.init_containers) if is_sidecar(one)]
    return [name for name in names if _runs(latest, name)]


def _runs(latest: Mapping[str, Record], name: str) -> bool:
    record = latest.get(name)
    return record is not None and record.end is None
