"""Which tests each worker of a run in parallel begins with: half of them with tests that wait, others with the rest.

Each worker is given the next part of the list, all of one length, and one that has nothing left takes from the end of
what another one has. As they are collected, all workers would compute at first and wait together at the end.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pytest

HERE = Path(__file__).parent
SECONDS = {"e2e": 3.0, "pods": 3.0, "journey": 0.7, "engine": 0.7, "workloads": 0.3, "placing": 0.2, "contract": 0.05}
"""About what a test of these folders takes, most of which it waits: for pods, other processes or the server."""

LONGEST = {"test_stress.py": 30.0, "test_leaks.py": 20.0}

T = TypeVar("T")


def seconds(test: Path) -> float:
    """What each test of this file takes; nothing for one that computes."""
    folder = test.relative_to(HERE).parts[0] if test.is_relative_to(HERE) else ""
    return LONGEST.get(test.name, SECONDS.get(folder, 0.0))


def arranged(tests: Sequence[tuple[Path, T]], workers: int) -> list[T]:
    """The tests, each with its file, such that half of the workers begin with those that wait, the longest first."""
    files = [(path, [test for _, test in group]) for path, group in itertools.groupby(tests, lambda each: each[0])]
    waiting = sorted(
        ((seconds(path) * len(found), found) for path, found in files if seconds(path)), key=lambda f: -f[0]
    )
    rest = [test for path, found in files if not seconds(path) for test in found]
    # Files stay whole: what the tests of one share is made once.
    begins: list[list[T]] = [[] for _ in range(max(1, workers // 2))]
    taken = [0.0] * len(begins)
    for cost, found in waiting:
        least = taken.index(min(taken))
        taken[least] += cost
        begins[least] += found
    made: list[T] = []
    left = len(tests)
    for worker in range(workers):
        share = left // (workers - worker)
        left -= share
        begin = begins[worker] if worker < len(begins) else []
        fill = max(0, share - len(begin))
        made += [*begin, *rest[:fill]]
        del rest[:fill]
    return [*made, *rest]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items[:] = arranged([(item.path, item) for item in items], int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))
