"""Resource versions as clients send them."""

from __future__ import annotations

import asyncio

from localpv.api import fields
from localpv.engine.store.store import Store
from localpv.errors import BadRequest, GatewayTimeout

PATIENCE = 3.0
"""Seconds that a read waits for a version that the server has not reached yet."""


class Revisions:
    """Knows what the store has reached."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def parse(self, text: str) -> int | None:
        """None when the client did not say."""
        if not text:
            return None
        if not text.isascii() or not text.isdigit() or len(text) > 20 or int(text) >= 1 << 63:
            problem = fields.invalid("resourceVersion", text[:100], "it must be one that the server gave out")
            raise BadRequest(f"invalid resource version: {problem}")
        return int(text)

    async def reach(self, revision: int | None) -> None:
        """Wait until the store has reached a revision; one that is too far ahead is an error, not a long wait."""
        if revision is None or revision <= self._store.revision:
            return
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while self._store.revision < revision:
            if asyncio.get_running_loop().time() >= deadline:
                raise GatewayTimeout(
                    f"Too large resource version: {revision}, current: {self._store.revision}",
                    details={
                        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                        "retryAfterSeconds": 1,
                    },
                )
            await asyncio.sleep(0.02)
