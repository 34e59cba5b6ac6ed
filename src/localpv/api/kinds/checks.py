"""What the server checks of a field of our kinds, written beside its type: it goes into the CustomResourceDefinition.

A reader does not check it: an object of a newer version must never make a list unreadable.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


def rule(**keywords: object) -> msgspec.Meta:
    """Keywords of a schema."""
    return msgspec.Meta(extra_json_schema=dict(keywords))


def one_of(words: type[StrEnum]) -> msgspec.Meta:
    return rule(enum=[word.value for word in words])


NAME = rule(minLength=1, maxLength=253)
PATH = rule(pattern="^/", maxLength=4096)
WORD = rule(pattern="^([A-Za-z][A-Za-z0-9]*)?$", maxLength=128)
TIME = rule(format="date-time")
COUNT = rule(minimum=0)
TRUTH = rule(enum=["True", "False", "Unknown"])
"""The status of a condition."""

SENTENCE = rule(maxLength=32768)
"""Longest message of a condition, as in the API's own."""
