"""API objects as they travel: plain JSON dictionaries."""

from __future__ import annotations

import os
import random
import time
from typing import Any

Object = dict[str, Any]
"""A Kubernetes object, decoded from JSON. Absent and null mean the same once the server has taken it in."""


DEEPEST = 128
"""Levels of lists and maps in what a client sends. Kubernetes' own kinds have some two dozen, definitions of custom
kinds twice as many; what is walked along a schema recurses, and Python ends a recursion at a thousand calls."""


MOST_VALUES = 50_000
"""Values, the lists and maps among them, in what a client sends. Each is looked at some ten times before it is stored,
and nobody else is served meanwhile."""

MOST_IN_DEFINITION = 120_000
"""Values in a CustomResourceDefinition: a schema without descriptions has one in 14 bytes, and may have 1.5 MiB. It is
quicker to store, since nobody owns the parts of a schema one by one."""


def excess(value: Any, most: int = MOST_VALUES) -> str:
    """What is too much in a value that a client sent; empty when nothing is. Goes level by level, without recursion."""
    level = [value] if type(value) in (dict, list) else []
    count = 1
    for _ in range(DEEPEST):
        if not level:
            return ""
        count += sum(map(len, level))
        if count > most:
            return f"has more than {most} values"
        level = [
            child
            for each in level
            for child in (each.values() if type(each) is dict else each)
            if type(child) is dict or type(child) is list
        ]
    return f"is nested more than {DEEPEST} levels deep" if level else ""


_last_second: tuple[int, str] = (0, "")


_END_OF_TIME = 253402300799
"""The last second of the year 9999: what RFC 3339 can write. A grace period may be 64 bits of seconds long."""


def now(*, after: int = 0) -> str:
    """The present time, or some seconds later, as creationTimestamp and its like carry it: UTC, whole seconds."""
    global _last_second
    second = min(int(time.time()) + after, _END_OF_TIME)
    if _last_second[0] != second:  # every write asks several times a second
        _last_second = second, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))
    return _last_second[1]


_numbers = random.Random(os.urandom(32))
# A child would otherwise give the UIDs that its parent gives, and a disk would be taken for cleaned that was not.
os.register_at_fork(after_in_child=lambda: _numbers.seed(os.urandom(32)))


def new_uid() -> str:
    """A random UUID (version 4). Unique, not secret: a seeded generator does, and costs a fraction of os.urandom."""
    digits = f"{_numbers.getrandbits(128) & ~(0xF << 76) & ~(0x3 << 62) | (0x4 << 76) | (0x2 << 62):032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
