"""How the cost of a parser grows: ten times the input may take about twelve times the processor's time and memory.

Time is that of this thread on the processor. What else runs on the machine shares its caches, though, and a linear
parser has been seen to take eighteen times as long for ten times as much. So a step that is steeper than STEEP is
measured again, and then the next one is looked at, beyond the limit if need be: what grows with the square of the size
comes ever nearer to a hundred, what only misses the caches does not reach TOO_STEEP, half the way to it. SLACK_SECONDS
are allowed beside: in less, noise is larger than what is measured. They are few, so that inputs can be small. Sizes
rise by ten up to the limit, and the first step that is too steep ends it, so that a bad parser fails in seconds.

Counting memory makes all five times as slow, so it is done at a hundredth and a tenth of the limit first. Only what
rises too fast there is looked at up to the limit: what grows with the square of the size does so from the beginning.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

import re2
from yaml import YAMLError

from localpv.errors import LocalpvError

T = TypeVar("T")

STEEP = 12.0
"""In proportion, and a little for the caches of the processor."""

TOO_STEEP = 32.0
"""As far from what is linear, ten, as from what is quadratic, a hundred."""

SLACK_SECONDS = 0.005

LEAST_SECONDS = 0.001
LEAST_BYTES = 256 << 10
"""Memory below which nothing is said: what is loaded and remembered at the first use counts too."""

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


def memory(make: Callable[[], T], use: Callable[[T], object]) -> int:
    """Most bytes that one use takes at a time, beside what it was given."""
    given = make()
    tracemalloc.start()
    try:
        with contextlib.suppress(LocalpvError, ValueError, YAMLError):
            use(given)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def check(make: Callable[[int], T], use: Callable[[T], object], *, limit: int, what: str) -> None:
    """Fail when the cost rises faster than the size, anywhere on the way to the limit."""
    took = cost(lambda: make(limit // 100), use)
    size, steep = limit // 10, False
    while size <= limit or steep:
        took, steep = _step(make, use, took, size=size, tries=TRIES if size <= limit else 1, what=what)
        if size > limit:
            break
        size *= 10
    if took >= LEAST_SECONDS:  # in less nobody fills much memory
        check_memory(make, use, limit=limit, what=what)


def _step(
    make: Callable[[int], T], use: Callable[[T], object], before: float, *, size: int, tries: int, what: str
) -> tuple[float, bool]:
    """What the size takes, compared with what a tenth of it took before, and whether that is steep."""
    took = cost(lambda: make(size), use)
    for _ in range(tries):
        if took <= STEEP * before + SLACK_SECONDS:
            return took, False
        # Whatever disturbs makes it longer.
        took = min(took, cost(lambda: make(size), use))
        before = min(before, cost(lambda: make(size // 10), use))
    steps = f"{took:.3f} s for {size}, {before:.4f} s for a tenth of it"
    if took > TOO_STEEP * before + SLACK_SECONDS:
        raise AssertionError(f"{what}: takes more than {TOO_STEEP} times as long for ten times as much: {steps}")
    return took, True


def check_memory(make: Callable[[int], T], use: Callable[[T], object], *, limit: int, what: str) -> None:
    """Fail when the memory rises faster than the size."""
    tenth = memory(lambda: make(limit // 10), use)
    # Where the whole takes STEEP times LEAST_BYTES with the square of the size, a tenth takes a hundredth of that.
    if tenth <= STEEP * max(memory(lambda: make(limit // 100), use), LEAST_BYTES // 100):
        return
    whole = memory(lambda: make(limit), use)
    if whole > STEEP * max(tenth, LEAST_BYTES):
        steps = f"{whole >> 10} KiB for {limit}, {tenth >> 10} KiB for a tenth of it"
        raise AssertionError(f"{what}: takes more than {STEEP} times the memory for ten times as much: {steps}")
