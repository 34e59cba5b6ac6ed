"""Everything that is no resource: health, version, discovery, OpenAPI."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web

from localpv.api import media_types
from localpv.engine.apiserver import discovery, request_info
from localpv.engine.apiserver.access import Access
from localpv.engine.apiserver.auth.identity import User
from localpv.engine.apiserver.openapi.documents import Documents
from localpv.engine.apiserver.registry import Kinds
from localpv.errors import MethodNotAllowed, NotFound

UNKNOWN = "the server could not find the requested resource"
_WITH_METHODS = ("/api", "/version", "/openapi")
_HEALTH = frozenset({"/livez", "/readyz", "/healthz"})


class PlainPaths:
    """Answers requests for paths that name no resource."""

    def __init__(
        self,
        *,
        kinds: Kinds,
        access: Access,
        documents: Documents,
        is_ready: Callable[[], bool],
        metrics: Callable[[], str],
    ) -> None:
        self._metrics = metrics
        self._kinds = kinds
        self._access = access
        self._documents = documents
        self._is_ready = is_ready

    async def answer(self, request: web.BaseRequest, path: str, user: User) -> web.StreamResponse:
        method = request.method
        if method == "CONNECT":
            raise MethodNotAllowed("the server is no proxy")
        if path in _HEALTH:
            return self._health(path, verbose="verbose" in request.raw_path.partition("?")[2])
        self._access.require_path(user, method.lower(), path)
        if method != "GET" and path.startswith(_WITH_METHODS):
            raise MethodNotAllowed("the server does not allow this method on the requested resource")
        if path == "/metrics" and (text := self._metrics()):
            return web.Response(body=text.encode(), headers={"Content-Type": media_types.METRICS})
        accept, etag = request.headers.get("Accept", ""), request.headers.get("If-None-Match", "")
        answer: discovery.Answer | None
        if path.startswith("/openapi/"):
            # Documents are built in a thread: tens of milliseconds in which others would wait.
            answer = await asyncio.to_thread(
                self._documents.respond,
                path,
                accept=accept,
                if_none_match=etag,
                accept_encoding=request.headers.get("Accept-Encoding", ""),
                hash=request_info.parse_query(request.raw_path.partition("?")[2]).get("hash", ""),
            )
        else:
            answer = discovery.respond(path, accept, self._kinds.resources(), if_none_match=etag, address=request.host)
        if answer is None:
            raise NotFound(UNKNOWN)
        return web.Response(
            body=answer.body, status=answer.status, headers={**answer.headers, "Content-Type": answer.content_type}
        )

    def _health(self, path: str, *, verbose: bool) -> web.Response:
        ready = self._is_ready() or path == "/livez"
        if not verbose:
            return web.Response(text="ok" if ready else "not ready yet", status=200 if ready else 503)
        name = path.strip("/")
        lines = ["[+]ping ok", "[+]store ok" if ready else "[-]store failed: not ready yet"]
        lines.append(f"{name} check {'passed' if ready else 'failed'}")
        return web.Response(text="\n".join(lines) + "\n", status=200 if ready else 503)
