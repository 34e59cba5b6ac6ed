"""Pods without a node: what each waits for, and when it may be tried again.

A pod is looked at again when something happens that could help it, and then not more often than its back-off allows:
five hundred pods that wait for a disk cost next to nothing, however much else goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from localpv.engine.scheduler.filter_messages import ClusterEvent
from localpv.runtime.clock import Clock

FIRST_SECONDS = 0.05
"""Often only a claim comes a moment later than its pod."""

MOST_SECONDS = 10.0
"""As long as kube-scheduler holds a pod back at most."""

LOOK_AGAIN_SECONDS = 300.0
"""A pod that nothing woke is looked at after this time all the same, should a rule of ours miss what could help."""


@dataclass(slots=True)
class _Wait:
    tries: int = 0
    last: float = 0.0
    wakes: frozenset[ClusterEvent] = frozenset()
    told: str = ""


class UnschedulablePods:
    """`again(key, seconds)` has a pod looked at after so many seconds, or at once."""

    def __init__(self, *, again: Callable[[str, float], None], clock: Clock) -> None:
        self._again = again
        self._clock = clock
        self._waits: dict[str, _Wait] = {}
        self._by_wake: dict[ClusterEvent, dict[str, None]] = {wake: {} for wake in ClusterEvent}
        """Those who failed first are woken first."""

    def __len__(self) -> int:
        return len(self._waits)

    def failed(self, key: str, wakes: frozenset[ClusterEvent], message: str) -> bool:
        """There is no node for the pod. Whether the message is news."""
        wait = self._waits.setdefault(key, _Wait())
        self._sleep(key, wait, wakes)
        wait.tries += 1
        wait.last = self._clock.monotonic()
        news, wait.told = wait.told != message, message
        return news

    def wake(self, what: ClusterEvent) -> None:
        """Something happened: those whom it could help are looked at again."""
        for key in [*self._by_wake[what]]:
            self.wake_pod(key)

    def wake_pod(self, key: str) -> None:
        """Something happened to the pod itself or to one of its claims."""
        if (wait := self._waits.get(key)) is not None:
            # It is on its way now, and need not be woken again before it has failed again.
            self._sleep(key, wait, frozenset())
        self._again(key, self.held_back(key))

    def held_back(self, key: str) -> float:
        """For how many seconds the pod is not to be tried again, whoever wakes it."""
        if (wait := self._waits.get(key)) is None:
            return 0.0
        return max(0.0, wait.last + _backoff(wait.tries) - self._clock.monotonic())

    def forget(self, key: str) -> None:
        """The pod has a node, or is gone."""
        if (wait := self._waits.pop(key, None)) is not None:
            self._sleep(key, wait, frozenset())

    def _sleep(self, key: str, wait: _Wait, wakes: frozenset[ClusterEvent]) -> None:
        for what in wait.wakes - wakes:
            self._by_wake[what].pop(key, None)
        for what in wakes - wait.wakes:
            self._by_wake[what][key] = None
        wait.wakes = wakes


def _backoff(tries: int) -> float:
    return min(FIRST_SECONDS * 2.0 ** min(max(tries - 1, 0), 30), MOST_SECONDS)
