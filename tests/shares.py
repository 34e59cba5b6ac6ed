"""Which tests a worker takes next: half of the workers prefer tests that wait, the others the rest.

They take parts of files, the longest first, so that all are done at about the same time. What tests of a file share is
made once for each part; what tests of many files share, such as a server, once for each worker that comes to them. So a
worker stays with what it has begun, and FEW of them begin the same.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
WAITING = {"e2e": 3.0, "pods": 3.0, "journey": 0.7, "engine": 0.7, "csi": 0.5, "workloads": 0.3, "placing": 0.2}
"""Seconds that a test of these folders takes, about, most of which it waits: for pods, other processes, the server."""

LONG = {"test_stress.py": 30.0, "test_leaks.py": 20.0, "test_kinds.py": 0.5}
COMPUTING_SECONDS = 0.02
PART_SECONDS = 10.0
"""What a part takes at most, unless a single test takes longer."""

FEW = 2


@dataclass(frozen=True, slots=True)
class Part:
    """Tests of one file, by their numbers, that are run one after the other."""

    tests: range
    seconds: float
    waits: bool
    shared: frozenset[str] = frozenset()
    """What these tests share with those of other files, and takes long to make."""


def parts(tests: Iterable[tuple[Path, frozenset[str]]]) -> list[Part]:
    """The tests in parts, each test with its file and with what it shares."""
    found: list[Part] = []
    for path, group in itertools.groupby(enumerate(tests), lambda each: each[1][0]):
        file = list(group)
        folder = path.relative_to(HERE).parts[0] if path.is_relative_to(HERE) else ""
        seconds = LONG.get(path.name, WAITING.get(folder, COMPUTING_SECONDS))
        size = max(1, int(PART_SECONDS / seconds))
        for begin in range(0, len(file), size):
            some = file[begin : begin + size]
            numbers = range(some[0][0], some[-1][0] + 1)
            shared = frozenset[str]().union(*(one for _, (_, one) in some))
            found.append(Part(numbers, seconds * len(some), folder in WAITING, shared))
    return found


@dataclass(slots=True)
class Worker:
    """One that takes parts."""

    prefers_waiting: bool
    has: set[str] = field(default_factory=set)


class Shares:
    """What nobody has taken yet."""

    def __init__(self, found: Sequence[Part]) -> None:
        self._left = sorted(found, key=lambda part: -part.seconds)
        self._begun: Counter[str] = Counter()
        """How many workers have begun with what tests share."""

    def __bool__(self) -> bool:
        return bool(self._left)

    def take(self, worker: Worker) -> Part | None:
        """The next part for a worker, or nothing when all are taken."""
        if not self._left:
            return None
        preferred = [part for part in self._left if part.waits == worker.prefers_waiting]
        rest = [part for part in self._left if part.waits != worker.prefers_waiting]
        ordered = [*preferred, *rest]
        chosen = next((part for part in ordered if not self._many_have_begun(worker, part)), ordered[0])
        self._left.remove(chosen)
        self._begun.update(chosen.shared - worker.has)
        worker.has |= chosen.shared
        return chosen

    def give_back(self, part: Part) -> None:
        """Somebody else is to take it, next."""
        self._left.insert(0, part)

    def _many_have_begun(self, worker: Worker, part: Part) -> bool:
        return any(self._begun[one] >= FEW for one in part.shared - worker.has)
