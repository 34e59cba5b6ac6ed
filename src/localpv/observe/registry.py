"""Counters, gauges and histograms, and the text in which Prometheus reads them.

Everything happens on the event loop, so nothing is locked. A figure that can be worked out from what is known anyhow is
worked out only when somebody asks: see `Registry.before_scrape`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

MOST_SERIES = 500
"""Combinations of label values of one metric. Beyond it everything is counted under `other`: labels can come from
objects that others write, and a monitoring system must not fall over a forged one."""

OTHER = "other"

QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds in seconds for what should take milliseconds."""

LONG = (0.1, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 10800.0, 43200.0, 86400.0)
"""Bounds in seconds for what may take a day, such as overwriting a large disk."""

Labels = tuple[str, ...]
F = TypeVar("F", bound="Family")


class Family:
    """One metric: its name, and a series for each combination of label values."""

    type = ""

    def __init__(self, name: str, explanation: str, labels: Sequence[str]) -> None:
        self.name = name
        self.explanation = explanation
        self.labels = tuple(labels)

    def lines(self) -> Iterator[str]:
        """Samples in the text format."""
        raise NotImplementedError

    def _key(self, known: Mapping[Labels, object], values: Labels) -> Labels:
        assert len(values) == len(self.labels), f"{self.name} has the labels {self.labels}, not {values}"
        if values in known or len(known) < MOST_SERIES:
            return values
        return (OTHER,) * len(values)

    def _sample(self, values: Labels, number: float, suffix: str = "", more: str = "") -> str:
        named = [f'{label}="{_escaped(value)}"' for label, value in zip(self.labels, values, strict=True)]
        if more:
            named.append(more)
        shown = f"{{{','.join(named)}}}" if named else ""
        return f"{self.name}{suffix}{shown} {_number(number)}"


class _Numbers(Family):
    """One number for each combination of label values."""

    def __init__(self, name: str, explanation: str, labels: Sequence[str]) -> None:
        super().__init__(name, explanation, labels)
        self._numbers: dict[Labels, float] = {} if labels else {(): 0}

    def value(self, *labels: str) -> float:
        return self._numbers.get(labels, 0)

    def lines(self) -> Iterator[str]:
        for values, number in self._numbers.items():
            yield self._sample(values, number)


class Counter(_Numbers):
    """What only ever grows."""

    type = "counter"

    def begin(self, *labels: str) -> None:
        """Show a zero: of a series that appears with its first count, nobody can see that it has grown."""
        self._numbers.setdefault(self._key(self._numbers, labels), 0)

    def add(self, *labels: str, by: float = 1) -> None:
        key = self._key(self._numbers, labels)
        self._numbers[key] = self._numbers.get(key, 0) + by


class Gauge(_Numbers):
    """What grows and shrinks."""

    type = "gauge"

    def set(self, number: float, *labels: str) -> None:
        self._numbers[self._key(self._numbers, labels)] = number

    def become(self, numbers: Mapping[Labels, float]) -> None:
        """These series and no others."""
        self._numbers = {}
        for values, number in numbers.items():
            key = self._key(self._numbers, values)
            self._numbers[key] = self._numbers.get(key, 0) + number


class Histogram(Family):
    """How often something took how long."""

    type = "histogram"

    def __init__(self, name: str, explanation: str, labels: Sequence[str], bounds: Sequence[float]) -> None:
        super().__init__(name, explanation, labels)
        self._bounds = tuple(bounds)
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, number: float, *labels: str) -> None:
        key = self._key(self._counts, labels)
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = [0] * (len(self._bounds) + 1)
            self._sums[key] = 0.0
        counts[bisect_left(self._bounds, number)] += 1
        self._sums[key] += number

    def count(self, *labels: str) -> int:
        return sum(self._counts.get(labels, ()))

    def lines(self) -> Iterator[str]:
        for values, counts in self._counts.items():
            so_far = 0
            for bound, count in zip((*self._bounds, math.inf), counts, strict=True):
                so_far += count
                yield self._sample(values, so_far, "_bucket", f'le="{_number(bound)}"')
            yield self._sample(values, self._sums[values], "_sum")
            yield self._sample(values, so_far, "_count")


class Registry:
    """All metrics of one process."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}
        self._askers: list[Callable[[], None]] = []

    def counter(self, name: str, explanation: str, labels: Sequence[str] = ()) -> Counter:
        return self._one(Counter(name, explanation, labels))

    def gauge(self, name: str, explanation: str, labels: Sequence[str] = ()) -> Gauge:
        return self._one(Gauge(name, explanation, labels))

    def histogram(
        self, name: str, explanation: str, labels: Sequence[str] = (), *, bounds: Sequence[float] = QUICK
    ) -> Histogram:
        return self._one(Histogram(name, explanation, labels, bounds))

    def before_scrape(self, ask: Callable[[], None]) -> None:
        """Have a function called whenever somebody reads the metrics; it sets gauges and must be quick."""
        self._askers.append(ask)

    def families(self) -> list[Family]:
        return list(self._families.values())

    def text(self) -> str:
        """Everything, as Prometheus reads it."""
        for ask in self._askers:
            ask()
        parts: list[str] = []
        for family in self._families.values():
            explanation = family.explanation.replace("\\", r"\\").replace("\n", r"\n")
            parts.append(f"# HELP {family.name} {explanation}")
            parts.append(f"# TYPE {family.name} {family.type}")
            parts += family.lines()
        return "\n".join(parts) + "\n"

    def _one(self, wanted: F) -> F:
        """The family of that name, made when first asked for: two parts of a process may count the same thing."""
        known = self._families.setdefault(wanted.name, wanted)
        if not isinstance(known, type(wanted)) or known.labels != wanted.labels:
            raise ValueError(f"{wanted.name} is another metric already")
        return known


def _escaped(value: str) -> str:
    text = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return text.encode(errors="replace").decode()


def _number(number: float) -> str:
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    return str(int(number)) if float(number).is_integer() and abs(number) < 1e15 else repr(float(number))
