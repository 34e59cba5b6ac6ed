"""Where in an object a walk is, kept as links and spelled out only when somebody must be told."""

from __future__ import annotations

from typing import Any

Place = Any
"""None at the root, a string for a given prefix, or a pair of the place above and a field name or index."""


def spelled(place: Place) -> str:
    """`spec.containers[0].name`"""
    steps: list[str | int] = []
    while type(place) is tuple:
        place, step = place
        steps.append(step)
    text = place or ""
    for step in reversed(steps):
        if type(step) is int:
            text += f"[{step}]"
        else:
            text = f"{text}.{step}" if text else str(step)
    return text
