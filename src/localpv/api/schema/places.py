"""Where in an object a walk is, kept as links and spelled out only when somebody must be told."""

from __future__ import annotations

from typing import Any, Final

Place = Any
"""None at the root, a string for a given prefix, or a pair of the place above and a field name or index."""

LONGEST: Final = 1024
"""Characters of a path that are told; of a longer one the end. A hundred thousand values may each have their path told,
and a body can make a path as long as itself."""

_LONGEST_STEP: Final = 330
"""No key that Kubernetes allows is longer."""


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
            text = below(text, str(step)) if text else str(step)[:_LONGEST_STEP]
    return text if len(text) <= LONGEST else f"…{text[-LONGEST:]}"


def below(path: str, step: str) -> str:
    """The path of a field."""
    path = path if len(path) <= LONGEST else f"…{path[-LONGEST:]}"
    return f"{path}.{step}" if len(step) <= _LONGEST_STEP else f"{path}.{step[:_LONGEST_STEP]}…"
