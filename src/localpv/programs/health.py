"""`/livez`, `/readyz` and `/metrics` of a program, for the probes of its pod and for Prometheus.

Plain HTTP and nothing worth hiding. A few lines of our own in place of aiohttp's server, which costs an agent 2 MB. The
event loop that answers is the one that does the work: when it does not turn, nobody answers, and that is what the
liveness probe is for.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Callable, Mapping

from localpv.api import media_types
from localpv.errors import StartError
from localpv.observe.registry import Registry

REQUEST_SECONDS = 10.0
"""How long one request may take from its first byte to its answer's last."""

MOST_CONNECTIONS = 32
"""Connections at once; further ones are closed. A kubelet and two Prometheus servers need five."""

_HEAD_BYTES = 8192
_LIVE = frozenset({"/livez", "/healthz"})
_READY = frozenset({"/readyz", "/ready"})
"""The second is where the classic provisioner answers."""

_PHRASES = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}
_PLAIN = "text/plain; charset=utf-8"
Answer = tuple[int, str, str]


class Health:
    """Live as long as it answers; ready when it was told so and all checks hold."""

    def __init__(
        self, listen: str, *, registry: Registry | None = None, checks: Mapping[str, Callable[[], bool]] | None = None
    ) -> None:
        self._host, _, port = listen.rpartition(":")
        self._port = int(port)
        self._registry = registry
        self._checks = checks if checks is not None else {}
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.ready = False

    async def start(self) -> None:
        try:
            self._server = await asyncio.start_server(
                self._serve, self._host.strip("[]") or None, self._port, limit=_HEAD_BYTES
            )
        except OSError as error:
            busy = error.errno == errno.EADDRINUSE
            raise StartError(
                f"cannot answer probes at {self._host}:{self._port}: "
                + ("the address is in use" if busy else str(error.strerror)),
                hint="choose another address with --listen-address, or an empty one for no probes",
            ) from error

    async def stop(self) -> None:
        self.ready = False
        if self._server is None:
            return
        self._server.close()
        for writer in [*self._open]:
            writer.close()
        # From 3.12 on this waits for the connections too, which end when they notice that they are closed.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REQUEST_SECONDS):
                await self._server.wait_closed()
        self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= MOST_CONNECTIONS:
            writer.close()
            return
        self._open.add(writer)
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_reply(head, self._answer))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass  # whoever asked is gone, or is none that speaks HTTP
        finally:
            self._open.discard(writer)
            writer.close()

    def _answer(self, path: str, *, verbose: bool) -> Answer:
        if path == "/metrics" and self._registry is not None:
            return 200, media_types.METRICS, self._registry.text()
        if path not in _LIVE | _READY:
            return 404, _PLAIN, "not found\n"
        checks = {"ping": True}
        if path in _READY:
            checks |= {"started": self.ready} | {name: check() for name, check in self._checks.items()}
        failed = [name for name, holds in checks.items() if not holds]
        if verbose:
            text = "".join(f"[{'+' if holds else '-'}]{name}\n" for name, holds in checks.items())
        else:
            text = f"not ready yet: {', '.join(failed)}\n" if failed else "ok\n"
        return 503 if failed else 200, _PLAIN, text


def _reply(head: bytes, answer: Callable[..., Answer]) -> bytes:
    """The whole answer to a request; connections are not kept, for nobody asks often."""
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        code, kind, text = 400, _PLAIN, "not a request\n"
    elif words[0] not in ("GET", "HEAD"):
        code, kind, text = 405, _PLAIN, "only GET and HEAD\n"
    else:
        path, _, query = words[1].partition("?")
        code, kind, text = answer(path, verbose="verbose" in query)
    body = text.encode()
    lines = (
        f"HTTP/1.1 {code} {_PHRASES[code]}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if words[0] == "HEAD" else body)
