"""One Node, for a program that may read it but not watch it: the permissions of the classic provisioner are no more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from localpv import errors
from localpv.api.kinds.cluster import Node
from localpv.client.objects import Objects
from localpv.runtime.backoff import Backoff
from localpv.runtime.clock import Clock

LOOK_EVERY_SECONDS = 30.0
"""Labels and taints of a node change seldom."""

log = logging.getLogger(__name__)


class Nodes(Protocol):
    """The nodes that are seen: an informer of all, or one."""

    def get(self, name: str) -> Node | None: ...

    def list(self) -> Sequence[Node]: ...

    def add_event_handler(self, handler: Callable[[Node | None, Node | None], None]) -> None: ...

    async def wait_synced(self) -> None: ...


class OneNode:
    """Reads one Node again and again. Somebody must own the task of `run`."""

    def __init__(self, objects: Objects[Node], name: str, *, clock: Clock) -> None:
        self._objects = objects
        self._name = name
        self._clock = clock
        self._node: Node | None = None
        self._handlers: list[Callable[[Node | None, Node | None], None]] = []
        self._synced = asyncio.Event()

    def get(self, name: str) -> Node | None:
        return self._node if name == self._name else None

    def list(self) -> Sequence[Node]:
        return [self._node] if self._node is not None else []

    def add_event_handler(self, handler: Callable[[Node | None, Node | None], None]) -> None:
        self._handlers.append(handler)

    async def wait_synced(self) -> None:
        await self._synced.wait()

    async def run(self) -> None:
        backoff = Backoff()
        while True:
            try:
                node = await self._objects.find(self._name)
            except errors.LocalpvError as error:
                wait = backoff.next()
                log.warning("node cannot be read node=%s seconds=%.1f reason=%s", self._name, wait, error)
                await self._clock.sleep(wait)
                continue
            old, self._node = self._node, node
            self._synced.set()
            if old is not None or node is not None:
                for handler in self._handlers:
                    handler(old, node)
            # A node that is not there yet is about to register.
            wait = backoff.next() if node is None else LOOK_EVERY_SECONDS
            if node is not None:
                backoff.reset()
            await self._clock.sleep(wait)
