"""How the cost of a parser grows: ten times the input may take about twelve times the processor's time.

Time is that of this thread on the processor, so that what else runs on the machine hardly counts, and a step that seems
too steep is measured again before it is believed. What takes less than FLOOR is taken as FLOOR: there, noise is larger
than what is measured, and a quadratic parser is above it a step later. Sizes rise by ten up to the limit, and the first
step that is too steep ends it, so that a bad parser fails in seconds.
"""

from __future__ import annotations

import functools
import gc
import sys
import time
from collections.abc import Callable
from typing import TypeVar

import re2
from yaml import YAMLError

from localpv.errors import LocalpvError

T = TypeVar("T")

STEEPEST = 12.0
FLOOR = 0.02
"""Seconds. Below, caches of the processor alone make ten times as much take thirteen times as long."""

TRIES = 4
"""Measurements of a step that seems too steep before it is believed."""


def cost(make: Callable[[], T], use: Callable[[T], object]) -> float:
    """Seconds that one use takes, of something made for it alone; what it raises as a refusal is part of the job."""
    given = make()
    for clear in _caches():
        clear()
    gc.disable()
    began = time.thread_time()
    try:
        use(given)
    except Exception as refusal:
        # A refusal is an answer; a recursion without end, or memory that runs out, is not.
        assert isinstance(refusal, LocalpvError | ValueError | YAMLError), repr(refusal)
    finally:
        took = time.thread_time() - began
        gc.enable()
    return took


@functools.cache
def _caches() -> list[Callable[[], object]]:
    """What forgets results: the second time would cost nothing."""
    modules = [module for name, module in sys.modules.items() if name.startswith("localpv.api")]
    found = [value for module in modules for value in vars(module).values() if hasattr(value, "cache_clear")]
    return [value.cache_clear for value in found if value.__wrapped__.__code__.co_argcount] + [re2.purge]


def check(make: Callable[[int], T], use: Callable[[T], object], *, limit: int, what: str) -> None:
    """Fail when the cost rises faster than the size, anywhere on the way to the limit."""
    before = None
    for size in (limit // 100, limit // 10, limit):
        took = cost(lambda size=size: make(size), use)  # type: ignore[misc]
        for _ in range(TRIES):
            if before is None or took <= STEEPEST * max(before, FLOOR):
                break
            took = min(took, cost(lambda size=size: make(size), use))  # type: ignore[misc]
        else:
            steps = f"{took:.3f} s for {size}, {before:.4f} s for a tenth of it"
            raise AssertionError(f"{what}: takes more than {STEEPEST} times as long for ten times as much: {steps}")
        before = took
