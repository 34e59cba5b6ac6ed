"""What the server tells those who count and measure, and the text that they make of it."""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    """Hears of every request, and knows the metrics of this process."""

    def answered(self, verb: str, resource: str, *, code: int, seconds: float) -> None:
        """A request was answered, a watch when it ended. The resource is empty for paths that name none."""

    def text(self) -> str:
        """What is answered at /metrics."""


class Unobserved:
    """Nobody counts."""

    def answered(self, verb: str, resource: str, *, code: int, seconds: float) -> None: ...

    def text(self) -> str:
        return ""
