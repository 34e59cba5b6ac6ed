"""The alert rules and the dashboard, and which metrics they name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import localpv

FOLDER = Path(localpv.__file__).parents[2] / "charts" / "localpv" / "observe"
ADDED = frozenset({"instance", "le"})
"""Labels that Prometheus adds, and that of the bounds of histograms."""

_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')
_SELECTOR = re.compile(r"\{([^{}]*)\}")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)")
_RANGE = re.compile(r"\[[^\]]*\]")
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*(?!\s*\(|[a-zA-Z0-9_:])")
_WORDS = frozenset({"and", "or", "unless", "bool", "offset"})


@dataclass(frozen=True, slots=True)
class Named:
    """What an expression of PromQL names."""

    metrics: frozenset[str]
    labels: frozenset[str]


def named(expression: str) -> Named:
    """Metrics and labels in an expression. Enough of PromQL for our own rules, not for all that can be written."""
    text = _STRINGS.sub('""', expression)
    labels: set[str] = set()
    for pattern in (_SELECTOR, _GROUPING):
        for inside in pattern.findall(text):
            labels.update(re.findall(r"[a-zA-Z_]\w*", inside))
        text = pattern.sub(" ", text)
    found = set(_NAME.findall(_RANGE.sub(" ", text))) - _WORDS
    return Named(frozenset(found), frozenset(labels))


def rules() -> list[Any]:
    """All alerts."""
    groups = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard() -> Any:
    return json.loads((FOLDER / "dashboard.json").read_text())


def expressions() -> Iterator[tuple[str, str]]:
    """Every expression of both, with its place."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield f"panel {panel['title']}", target["expr"]


def families(text: str) -> dict[str, str]:
    """Names and types in what Prometheus reads."""
    return dict(line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE "))


def family(metric: str, known: dict[str, str]) -> str | None:
    """The family that a sample belongs to."""
    if metric in known and known[metric] != "histogram":
        return metric
    base = re.sub(r"_(bucket|sum|count)$", "", metric)
    return base if base != metric and known.get(base) == "histogram" else None
