"""The seam under the client: one way to ask and one way to listen.

The client is the same over the network (`http.HttpTransport`), in one process with a server, and against a fake.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from localpv import errors
from localpv.api import media_types
from localpv.api import status as statuses
from localpv.runtime.clock import Clock

REQUEST_SECONDS = 30.0
"""How long one answer may take; kube-apiserver itself gives up after 60 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is sent: the path without the address of the server, and a body that is encoded already."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = media_types.JSON
    timeout_seconds: float = REQUEST_SECONDS
    """For a stream: how long the server may stay silent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back, whatever the code; header names are in lower case."""

    code: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Transport(Protocol):
    """Carries requests. Raises ConnectionLost when there is no answer; an unwelcome answer is still an answer."""

    async def request(self, request: Request) -> Answer: ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream and give its bytes as they come; an answer that is no stream is raised as an ApiError."""


class Observer(Protocol):
    """Is told every request that was sent; for metrics."""

    def answered(self, method: str, path: str, *, code: int, seconds: float) -> None:
        """The code is 0 when there was no answer; of a stream, the time until it began."""


def error_of(answer: Answer) -> errors.ApiError:
    """The error that an answer with a code of 400 or more means."""
    try:
        status = msgspec.json.decode(answer.body, type=dict)
    except msgspec.DecodeError:
        # Something before the server answered: a proxy, a load balancer.
        status = {"message": answer.body[:500].decode(errors="replace").strip()}
    error = statuses.from_status(status, answer.code)
    error.list_metadata = status.get("metadata") or {}
    return error


class Retrying:
    """Asks again when the server is busy and says when to come back (429 or 503 with Retry-After).

    A request that was answered so has not been carried out, which makes it safe to repeat whatever its verb is.
    """

    MOST_TRIES = 5
    MOST_SECONDS = 10.0
    """The longest single wait: beyond it the caller knows better what to do meanwhile."""

    def __init__(self, inner: Transport, *, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock

    async def request(self, request: Request) -> Answer:
        for _ in range(self.MOST_TRIES - 1):
            answer = await self._inner.request(request)
            wait = _asked_to_wait(answer)
            if wait is None or wait > self.MOST_SECONDS:
                return answer
            await self._clock.sleep(wait)
        return await self._inner.request(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        # Whoever watches has its own back-off.
        return self._inner.stream(request)


def _asked_to_wait(answer: Answer) -> float | None:
    if answer.code not in (429, 503):
        return None
    try:
        return max(float(answer.headers.get("retry-after", "")), 0.0)
    except ValueError:
        return None
