"""How much of the server one client may take: requests at once, long ones at once, and failed logins.

A client is a user, and all service accounts of one namespace are one: who may make accounts would otherwise have as
many shares as they like. Members of system:masters, the engine's own parts among them, are never refused.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from localpv.engine.apiserver.auth.identity import User, split_account
from localpv.errors import TooManyRequests

SHARE = 4
"""One client may have this part of what there is: a quarter."""

LOGIN_PERIOD = 60.0
"""Seconds in which failed logins from one address are counted together."""

LOGIN_DELAY = 1.0
"""Seconds that a failed login waits for its answer once there were too many from its address."""

_MOST_ADDRESSES = 1024
"""Addresses whose failed logins are counted; the one that failed first is forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What there is for all clients together."""

    requests: int = 400
    """Requests that are answered at the same time, watches, logs and exec aside; kube-apiserver has the same number."""

    connections: int = 2000
    """Open connections. A watch, a followed log or an exec has one for itself, so these are bounded by it too."""

    failed_logins: int = 30
    """Failed logins from one address in `LOGIN_PERIOD`; further ones are answered late, and with 429."""

    store_bytes: int = 1 << 30
    """Bytes that all objects together may take (see quota.py)."""


def client_of(user: User) -> str:
    """Whose share a user's requests are taken from."""
    account = split_account(user.name)
    return f"namespace {account[0]}" if account is not None else f"user {user.name}"


class Seat:
    """A request that is being answered."""

    __slots__ = ("_client", "_held", "_inflight")

    def __init__(self, inflight: InFlight, client: str) -> None:
        self._inflight = inflight
        self._client = client
        self._held = inflight.short

    def lasts(self) -> None:
        """It is a watch or its like, which are counted apart. Raises TooManyRequests."""
        self._inflight.long.take(self._client)
        self._held.give_back(self._client)
        self._held = self._inflight.long

    def leave(self) -> None:
        self._held.give_back(self._client)


class _Count:
    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._share = max(1, most // SHARE)
        self._what = what
        self._all = 0
        self._each: dict[str, int] = {}

    def take(self, client: str) -> None:
        mine = self._each.get(client, 0)
        if mine >= self._share or self._all >= self._most:
            whose = "you have" if mine >= self._share else "the server has"
            raise TooManyRequests(
                f"Too many requests, please try again later: {whose} too many {self._what}",
                details={"retryAfterSeconds": 1},
            )
        self._all += 1
        self._each[client] = mine + 1

    def give_back(self, client: str) -> None:
        self._all -= 1
        left = self._each[client] - 1
        if left:
            self._each[client] = left
        else:
            del self._each[client]


class InFlight:
    """Counts the requests of everybody but masters."""

    def __init__(self, bounds: Bounds) -> None:
        self.short = _Count(bounds.requests, "requests under way")
        self.long = _Count(bounds.connections, "watches open")

    def enter(self, user: User) -> Seat | None:
        """A seat for a request, to be left when it is answered; None needs none. Raises TooManyRequests."""
        if user.is_master:
            return None
        client = client_of(user)
        self.short.take(client)
        return Seat(self, client)


class FailedLogins:
    """Counts them by the address they come from."""

    def __init__(self, bounds: Bounds) -> None:
        self._most = bounds.failed_logins
        self._counts: dict[str, tuple[float, int]] = {}
        """Address -> when its period began, and how many there were since."""

    def failed(self, address: str) -> bool:
        """Count one more; whether there were too many."""
        now = time.monotonic()
        began, count = self._counts.get(address, (now, 0))
        if now - began > LOGIN_PERIOD:
            del self._counts[address]
            began, count = now, 0
        self._counts[address] = (began, count + 1)
        if len(self._counts) > _MOST_ADDRESSES:
            del self._counts[next(iter(self._counts))]
        return count >= self._most
