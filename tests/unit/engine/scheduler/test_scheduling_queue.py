"""Pods that wait: woken by what could help them, and not more often than their back-off allows."""

from __future__ import annotations

from localpv.engine.scheduler.filter_messages import ClusterEvent
from localpv.engine.scheduler.scheduling_queue import MOST_SECONDS, UnschedulablePods
from localpv.testing.clock import FakeClock

NODES = frozenset({ClusterEvent.NODE})
ROOM = frozenset({ClusterEvent.NODE, ClusterEvent.POD_LEFT})


class Asked:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.again: list[tuple[str, float]] = []
        self.unschedulable = UnschedulablePods(
            again=lambda key, seconds: self.again.append((key, seconds)), clock=self.clock
        )

    def taken(self) -> list[tuple[str, float]]:
        seen, self.again = self.again, []
        return seen


def test_only_what_could_help_wakes_a_pod() -> None:
    asked = Asked()
    asked.unschedulable.failed("taint", NODES, "why")
    asked.unschedulable.failed("room", ROOM, "why")
    asked.unschedulable.wake(ClusterEvent.VOLUME)
    assert asked.taken() == []
    asked.unschedulable.wake(ClusterEvent.POD_LEFT)
    assert [key for key, _ in asked.taken()] == ["room"]


async def test_a_pod_is_held_back_the_longer_the_more_often_it_failed() -> None:
    asked = Asked()
    waits = []
    for _ in range(12):
        asked.unschedulable.failed("pod", NODES, "why")
        asked.unschedulable.wake(ClusterEvent.NODE)
        ((_, seconds),) = asked.taken()
        waits.append(seconds)
    assert waits == sorted(waits)
    assert waits[0] <= 0.1
    assert waits[-1] == MOST_SECONDS


async def test_a_pod_that_failed_long_ago_is_looked_at_at_once() -> None:
    asked = Asked()
    for _ in range(12):
        asked.unschedulable.failed("pod", NODES, "why")
    await asked.clock.advance(MOST_SECONDS)
    asked.unschedulable.wake(ClusterEvent.NODE)
    assert asked.taken() == [("pod", 0.0)]


def test_a_pod_that_is_on_its_way_is_not_woken_again() -> None:
    asked = Asked()
    asked.unschedulable.failed("pod", NODES, "why")
    for _ in range(100):
        asked.unschedulable.wake(ClusterEvent.NODE)
    assert len(asked.taken()) == 1
    asked.unschedulable.failed("pod", NODES, "why")
    asked.unschedulable.wake(ClusterEvent.NODE)
    assert len(asked.taken()) == 1


def test_the_same_message_is_no_news() -> None:
    asked = Asked()
    assert asked.unschedulable.failed("pod", NODES, "one")
    assert not asked.unschedulable.failed("pod", NODES, "one")
    assert asked.unschedulable.failed("pod", NODES, "two")


def test_a_pod_that_has_a_node_is_forgotten() -> None:
    asked = Asked()
    asked.unschedulable.failed("pod", ROOM, "why")
    asked.unschedulable.forget("pod")
    asked.unschedulable.wake(ClusterEvent.NODE)
    asked.unschedulable.wake(ClusterEvent.POD_LEFT)
    assert asked.taken() == []
    assert len(asked.unschedulable) == 0
