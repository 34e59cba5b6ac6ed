"""Which part of a container's log somebody wants, between the server that is asked and whoever has the log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLogOptions:
    follow: bool = False
    previous: bool = False
    """Of the container before its last restart."""

    timestamps: bool = False
    tail_lines: int | None = None
    since: float | None = None
    """Seconds since the epoch; older lines are left out."""

    limit_bytes: int | None = None
