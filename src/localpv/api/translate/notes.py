"""What is said about a translation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Note:
    """Something that was changed, or could not be."""

    message: str
    done: bool = True
    """False: the object is as it was in this respect, and Kubernetes will not do with it what was meant."""
