"""Pods that wait: woken by what could help them, and not more often than their back-off allows."""

from __future__ import annotations

from localpv.engine.scheduler.filter_messages import Wake
from localpv.engine.scheduler.scheduling_queue import MOST_SECONDS, Waiting
from localpv.testing.clock import FakeClock

NODES = frozenset({Wake.NODE})
ROOM = frozenset({Wake.NODE, Wake.POD_LEFT})


class Asked:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.again: list[tuple[str, float]] = []
        self.waiting = Waiting(again=lambda key, seconds: self.again.append((key, seconds)), clock=self.clock)

    def taken(self) -> list[tuple[str, float]]:
        seen, self.again = self.again, []
        return seen


def test_only_what_could_help_wakes_a_pod() -> None:
    asked = Asked()
    asked.waiting.failed("taint", NODES, "why")
    asked.waiting.failed("room", ROOM, "why")
    asked.waiting.wake(Wake.VOLUME)
    assert asked.taken() == []
    asked.waiting.wake(Wake.POD_LEFT)
    assert [key for key, _ in asked.taken()] == ["room"]


async def test_a_pod_is_held_back_the_longer_the_more_often_it_failed() -> None:
    asked = Asked()
    waits = []
    for _ in range(12):
        asked.waiting.failed("pod", NODES, "why")
        asked.waiting.wake(Wake.NODE)
        ((_, seconds),) = asked.taken()
        waits.append(seconds)
    assert waits == sorted(waits)
    assert waits[0] <= 0.1
    assert waits[-1] == MOST_SECONDS


async def test_a_pod_that_failed_long_ago_is_looked_at_at_once() -> None:
    asked = Asked()
    for _ in range(12):
        asked.waiting.failed("pod", NODES, "why")
    await asked.clock.advance(MOST_SECONDS)
    asked.waiting.wake(Wake.NODE)
    assert asked.taken() == [("pod", 0.0)]


def test_a_pod_that_is_on_its_way_is_not_woken_again() -> None:
    asked = Asked()
    asked.waiting.failed("pod", NODES, "why")
    for _ in range(100):
        asked.waiting.wake(Wake.NODE)
    assert len(asked.taken()) == 1
    asked.waiting.failed("pod", NODES, "why")
    asked.waiting.wake(Wake.NODE)
    assert len(asked.taken()) == 1


def test_the_same_message_is_no_news() -> None:
    asked = Asked()
    assert asked.waiting.failed("pod", NODES, "one")
    assert not asked.waiting.failed("pod", NODES, "one")
    assert asked.waiting.failed("pod", NODES, "two")


def test_a_pod_that_has_a_node_is_forgotten() -> None:
    asked = Asked()
    asked.waiting.failed("pod", ROOM, "why")
    asked.waiting.forget("pod")
    asked.waiting.wake(Wake.NODE)
    asked.waiting.wake(Wake.POD_LEFT)
    assert asked.taken() == []
    assert len(asked.waiting) == 0
