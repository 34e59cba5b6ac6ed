"""Looking into pods: pods/log and pods/exec, which carry bytes and not objects."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

from aiohttp import WSMsgType, web

from localpv.api import status
from localpv.engine.apiserver import responses
from localpv.engine.apiserver.access import Access
from localpv.engine.apiserver.auth.identity import Attributes
from localpv.engine.apiserver.call import Call
from localpv.engine.apiserver.pod_access import PodAccess
from localpv.engine.apiserver.revisions import Revisions
from localpv.engine.apiserver.storage import decode
from localpv.engine.apiserver.verbs import exec as executing
from localpv.engine.apiserver.verbs import get as getting
from localpv.engine.apiserver.verbs import logs
from localpv.engine.store.store import Store
from localpv.errors import Unavailable


class Insides:
    """Answers these requests through whoever runs the pods."""

    def __init__(self, *, store: Store, revisions: Revisions, access: Access, closing: asyncio.Event) -> None:
        self._store = store
        self._revisions = revisions
        self._access = access
        self._closing = closing
        self.pods: PodAccess | None = None
        """None while nobody runs pods."""

    async def answer(self, request: web.BaseRequest, call: Call, verb: str) -> web.StreamResponse:
        """Logs of a pod, or a process in it."""
        resource, subresource = call.kind.resource, call.subresource
        if verb != "get" and (subresource, verb) != ("exec", "create"):
            raise status.method_not_allowed(resource.plural, resource.group)
        if subresource == "exec" and verb == "get":
            # A WebSocket can only begin with GET; who may just read must not run commands by it.
            attributes = Attributes(
                verb="create",
                resource=resource.plural,
                subresource=subresource,
                namespace=call.namespace,
                name=call.name,
            )
            self._access.require(call.user, attributes)
        call.subresource = ""
        reply = await getting.get(call, store=self._store, revisions=self._revisions)
        pod = reply.obj or decode(reply.value)
        if subresource == "log":
            logs.options(call)  # what is wrong with the request is wrong whoever runs the pods
        if self.pods is None:
            raise Unavailable(
                "nobody runs pods on this machine, so there is nothing to look into; see the server's log"
            )
        if subresource == "exec":
            return await executing.run(request, call, pod, pods=self.pods)
        return await self._log(request, logs.lines(call, pod, pods=self.pods))

    async def _log(self, request: web.BaseRequest, pieces: AsyncIterator[bytes]) -> web.StreamResponse:
        sink = _Socket(request) if executing.is_upgrade(request) else _Body()
        first = await anext(pieces, b"")  # before the answer begins, so that a refusal can still be one
        closing, gone = asyncio.ensure_future(self._closing.wait()), None
        try:
            await sink.response.prepare(request)
            gone = asyncio.ensure_future(sink.gone())
            if first:
                await sink.write(first)
            while not self._closing.is_set():
                coming = asyncio.ensure_future(anext(pieces, b""))
                await asyncio.wait({coming, closing, gone}, return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    coming.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await coming
                    break
                if not (piece := coming.result()):
                    break
                await sink.write(piece)
            gone.cancel()
            await sink.end()
        except ConnectionError:
            pass  # the client has seen enough
        finally:
            if gone is not None:
                gone.cancel()
            closing.cancel()
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()
        return sink.response


class _Body:
    """A log as the body of an answer."""

    def __init__(self) -> None:
        self.response = web.StreamResponse(headers={"Content-Type": "text/plain", **responses.headers()})
        self.response.enable_chunked_encoding()

    async def write(self, piece: bytes) -> None:
        await self.response.write(piece)

    async def gone(self) -> None:
        """Whoever reads a body is noticed to be gone when the next piece is written, or by the server."""
        await asyncio.Event().wait()

    async def end(self) -> None:
        await self.response.write_eof()


class _Socket:
    """A log over a WebSocket, as browsers read it: each piece is a message."""

    def __init__(self, request: web.BaseRequest) -> None:
        self.response = web.WebSocketResponse(protocols=("binary.k8s.io",))
        executing.check_upgrade(self.response, request)

    async def write(self, piece: bytes) -> None:
        await self.response.send_bytes(piece)

    async def gone(self) -> None:
        while (await self.response.receive()).type in (WSMsgType.TEXT, WSMsgType.BINARY):
            pass  # nothing is asked of it

    async def end(self) -> None:
        await self.response.close()
