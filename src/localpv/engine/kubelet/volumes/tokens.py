"""Tokens of service accounts in volumes: asked for once, and again before they end."""

from __future__ import annotations

from datetime import datetime, timedelta

from localpv.api import kinds
from localpv.engine.kubelet.volumes.lookup import Lookup
from localpv.runtime.clock import Clock

DEFAULT_SECONDS = 3600
SHORTEST_SECONDS = 600

RENEW_AT = 0.8
"""Part of a token's life after which a new one is asked for."""

LONGEST_SECONDS = 24 * 3600
"""However long a token lives, it is renewed after this time."""


class Tokens:
    """Tokens of the pods of one node, kept in memory: after a restart every pod gets a new one."""

    def __init__(self, *, lookup: Lookup, clock: Clock) -> None:
        self._lookup, self._clock = lookup, clock
        self._known: dict[str, dict[tuple[str, int], tuple[str, datetime]]] = {}

    async def get(self, pod: kinds.Pod, source: kinds.ServiceAccountTokenProjection) -> str:
        """A token that is good for a while."""
        seconds = max(source.expiration_seconds or DEFAULT_SECONDS, SHORTEST_SECONDS)
        key = (source.audience, seconds)
        of_pod = self._known.setdefault(pod.metadata.uid, {})
        now = self._clock.now()
        if (known := of_pod.get(key)) and now < known[1]:
            return known[0]
        token, ends = await self._lookup.token(pod, audience=source.audience, seconds=seconds)
        # A server may give less than was asked for.
        lives = (kinds.read_time(ends) - now).total_seconds() if ends else seconds
        of_pod[key] = token, now + timedelta(seconds=min(lives * RENEW_AT, LONGEST_SECONDS))
        return token

    def forget(self, pod_uid: str) -> None:
        self._known.pop(pod_uid, None)
