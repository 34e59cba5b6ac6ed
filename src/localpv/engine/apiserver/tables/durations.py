"""How long something lasted or is ago, in the few characters that kubectl shows: `45s`, `5m3s`, `3h2m`, `2d4h`."""

from __future__ import annotations

from datetime import datetime

UNKNOWN = "<unknown>"
"""The age of something that carries no time."""

INVALID = "<invalid>"
"""A time in the future, or one that cannot be read."""

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY
_MOST_YEARS = 292
"""Kubernetes counts nanoseconds in 64 bits, which hold no more."""


def human(seconds: float) -> str:
    """A duration with the two units that matter; the smaller one goes when it is zero or hardly matters."""
    whole = int(seconds)
    if whole < 120:
        if whole >= 0:
            return f"{whole}s"
        # Clocks of two machines differ a little: what seems to start in a second starts now.
        return "0s" if whole == -1 else INVALID
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{min(whole // _YEAR, _MOST_YEARS)}y"


def _two(seconds: int, large: int, large_unit: str, small: int, small_unit: str) -> str:
    first, rest = divmod(seconds, large)
    second = rest // small
    return f"{first}{large_unit}{second}{small_unit}" if second else f"{first}{large_unit}"


def moment(timestamp: str) -> float:
    """A timestamp of the API as seconds since the epoch."""
    return datetime.fromisoformat(timestamp).timestamp()


def since(timestamp: str | None, now: float) -> str:
    """How long ago a timestamp of the API was."""
    return human(now - moment(timestamp)) if timestamp else UNKNOWN


def age(obj: dict[str, dict[str, str]], now: float) -> str:
    """How long ago an object was made."""
    return since(obj["metadata"].get("creationTimestamp"), now)
