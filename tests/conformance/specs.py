"""Which specs are run, which are left out and why, and what a run's report says of them."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("specs.toml")
FIXED = "fixed"
"""Stands for all patterns of the part that CI runs."""

FAILED = ("failed", "panicked", "timedout", "interrupted", "aborted")


@dataclass(frozen=True, slots=True)
class Plan:
    """The specs that are asked, those among them that CI asks, and those that nobody asks, as patterns."""

    asked: tuple[str, ...]
    fixed: tuple[str, ...]
    left_out: Mapping[str, tuple[str, ...]]
    """Reasons, each with the patterns of its specs."""

    @property
    def skipped(self) -> list[str]:
        return [pattern for patterns in self.left_out.values() for pattern in patterns]

    @property
    def patterns(self) -> list[str]:
        return [*self.asked, *self.fixed, *self.skipped]

    def reason(self, name: str) -> str | None:
        """Why a spec is left out: the first reason that has a pattern for it."""
        for reason, patterns in self.left_out.items():
            if any(re.search(pattern, name) for pattern in patterns):
                return reason
        return None

    def stale(self, names: Iterable[str]) -> list[str]:
        """Patterns that find none of these specs, which are all that there are."""
        known = "\n".join(names)
        return [pattern for pattern in self.patterns if not re.search(pattern, known)]

    def focus(self, words: Sequence[str]) -> list[str]:
        """The patterns that words of the command line stand for; all that is asked when there are none."""
        return [pattern for word in words for pattern in (self.fixed if word == FIXED else (word,))] or [*self.asked]


@dataclass(frozen=True, slots=True)
class Result:
    """How one spec ended."""

    name: str
    suite: str
    state: str
    seconds: float = 0.0
    message: str = ""
    """Why it failed, or what it says when it skips itself; empty for specs that were not asked."""

    @property
    def failed(self) -> bool:
        return self.state in FAILED


@dataclass(frozen=True, slots=True)
class Summary:
    """A run, judged."""

    results: tuple[Result, ...]
    """Of specs that were asked."""

    left_out: tuple[Result, ...]
    """Of specs that would have been asked and are left out."""

    stale: tuple[str, ...]

    @property
    def failures(self) -> list[Result]:
        return [result for result in self.results if result.failed]

    @property
    def passed(self) -> int:
        return sum(result.state == "passed" for result in self.results)

    @property
    def good(self) -> bool:
        return self.passed > 0 and not self.failures and not self.stale


def read(path: Path = FILE) -> Plan:
    """The plan in a file; ValueError where it is none."""
    told = tomllib.loads(path.read_text())
    left_out = {reason: tuple(patterns) for reason, patterns in told["left_out"].items()}
    plan = Plan(tuple(told["asked"]), tuple(told["fixed"]), left_out)
    for pattern in plan.patterns:
        re.compile(pattern)
    twice = [pattern for pattern, count in Counter(plan.skipped).items() if count > 1]
    if twice:
        raise ValueError(f"{path.name}: more than one reason for {', '.join(twice)}")
    return plan


def read_report(path: Path) -> list[Result]:
    """What the program wrote, a line for each spec; a line that was cut off when it was killed is left away."""
    lines = path.read_text(errors="replace").splitlines(keepends=True) if path.exists() else []
    return [_result(json.loads(line)) for line in lines if line.endswith("\n")]


def _result(told: Mapping[str, Any]) -> Result:
    found = re.search(r"/test/e2e/(\w+)", told["file"])
    suite = found[1] if found else "other"
    return Result(told["name"], suite, told["state"], told["seconds"], told["message"])


def judge(results: Sequence[Result], plan: Plan, *, focus: Sequence[str]) -> Summary:
    """Put the results of a run in order."""

    def asked_for(name: str) -> bool:
        return any(re.search(pattern, name) for pattern in focus)

    asked, left_out = [], []
    for result in results:
        if result.state != "skipped" or result.message:
            asked.append(result)
        elif asked_for(result.name) and plan.reason(result.name) is not None:
            left_out.append(result)
    return Summary(tuple(asked), tuple(left_out), tuple(plan.stale(result.name for result in results)))


def table(summary: Summary) -> list[list[str]]:
    """Passed, failed, skipped and left out, by suite."""
    suites = sorted({result.suite for result in (*summary.results, *summary.left_out)})
    rows = []
    for suite in suites:
        asked = [result for result in summary.results if result.suite == suite]
        passed = sum(result.state == "passed" for result in asked)
        failed = sum(result.failed for result in asked)
        left_out = sum(result.suite == suite for result in summary.left_out)
        rows.append([suite, *map(str, (passed, failed, len(asked) - passed - failed, left_out))])
    together = [str(sum(int(row[column]) for row in rows)) for column in range(1, 5)]
    return [["suite", "passed", "failed", "skipped", "left out"], *rows, ["all", *together]]
