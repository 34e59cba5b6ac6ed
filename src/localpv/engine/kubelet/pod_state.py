"""What is held in memory of one pod while this process runs; all of it can be found again from the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from localpv.api import kinds
from localpv.engine.kubelet.probes import Health
from localpv.engine.kubelet.termination import Stop
from localpv.engine.kubelet.volumes.results import Prepared


@dataclass(slots=True)
class Watched:
    """A container that runs."""

    ended: asyncio.Event
    unwatch: Callable[[], None]
    health: Health
    probes: asyncio.Task[None] | None = None
    stop: Stop | None = None


@dataclass(slots=True)
class Live:
    """One pod."""

    prepared: Mapping[str, Prepared] | None = None
    sandbox: bool = False
    waiting: dict[str, kinds.StateWaiting] = field(default_factory=dict)
    """Why containers could not be started at the last try."""

    watched: dict[str, Watched] = field(default_factory=dict)
    """By the id of the container."""

    taken_over: set[str] = field(default_factory=set)
    """Ids of containers whose start went on without us: nobody has run their hooks yet."""

    settled: bool = False
    """Nothing of the pod is left on the machine but its logs and records."""

    backed_off: set[str] = field(default_factory=set)
    """Containers whose waiting has been told in an event."""

    def let_go(self, id_: str) -> None:
        """The container has ended."""
        watched = self.watched.pop(id_, None)
        if watched is not None:
            watched.unwatch()
            if watched.probes is not None:
                watched.probes.cancel()
