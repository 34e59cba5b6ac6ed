"""When a CronJob would run: whether a schedule and a time zone can be read."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAMED = ("@annually", "@daily", "@hourly", "@midnight", "@monthly", "@weekly", "@yearly")
_MONTHS = dict(
    zip(("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), range(1, 13), strict=True)
)
_DAYS = dict(zip(("sun", "mon", "tue", "wed", "thu", "fri", "sat"), range(7), strict=True))
_FIELDS: tuple[tuple[str, int, int, Mapping[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of the month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 6, _DAYS),
)
_IS_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?(?:ns|us|µs|ms|s|m|h))+").fullmatch
_IS_ZONE_PART = re.compile(r"[A-Za-z._0-9+][A-Za-z.\-_0-9+]{0,13}").fullmatch
_LONGEST = 1024


def wrong(schedule: str) -> str:
    """What is wrong with a schedule; empty when nothing is."""
    if "TZ" in schedule:
        return "a time zone goes into timeZone"
    if len(schedule) > _LONGEST:
        return f"must be no more than {_LONGEST} characters"
    if schedule.startswith("@"):
        every = schedule.removeprefix("@every ")
        return "" if schedule in _NAMED or (every != schedule and _IS_DURATION(every)) else "is no known shorthand"
    words = schedule.split()
    if len(words) != len(_FIELDS):
        return f"must have five fields, not {len(words)}"
    for word, (name, least, most, known) in zip(words, _FIELDS, strict=True):
        if not all(_is_range(part, least, most, known) for part in word.split(",") if part):
            return f"{word[:40]} is no {name}: numbers from {least} to {most}, ranges such as 1-5, steps such as */2"
    return ""


def _is_range(text: str, least: int, most: int, known: Mapping[str, int]) -> bool:
    span, slash, step = text.partition("/")
    if slash and not (step.isdecimal() and step.isascii() and int(step[:9]) > 0):
        return False
    if span in ("*", "?"):
        return True
    first, dash, last = span.partition("-")
    low = _number(first, known)
    high = _number(last, known) if dash else low
    return low is not None and high is not None and least <= low <= high <= most


def _number(text: str, known: Mapping[str, int]) -> int | None:
    if text.isdecimal() and text.isascii():
        return int(text[:9])
    return known.get(text.lower())


def wrong_zone(zone: str) -> str:
    """What is wrong with the name of a time zone; that it has the form of one is enough here."""
    if not zone:
        return "must be the name of a time zone, or be left out"
    if zone.lower() == "local":
        return "must be the name of a time zone, such as Europe/Oslo"
    if not all(_IS_ZONE_PART(part) and part not in (".", "..") for part in zone.split("/")):
        return "must be the name of a time zone, such as Europe/Oslo"
    return ""
