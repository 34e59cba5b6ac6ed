"""Looking into pods: pods/log and pods/exec, which carry bytes and not objects.

The server only carries them between a client and whoever runs the pods. Without anybody behind it, both are refused
with the reason. The streams of exec go over one WebSocket: each message begins with the number of its channel: input,
output, errors, the outcome as a Status, and the size of the terminal. Version 5 of the protocol can also say that the
input has ended. Before version 4 the outcome is plain text, and nothing at all when all went well.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import datetime
from typing import Annotated, Protocol
from urllib.parse import parse_qsl

import msgspec
from aiohttp import WSMsgType, web

from localpv.api import fields, status
from localpv.api.objects import Object, now
from localpv.api.pod_logs import PodLogOptions
from localpv.engine.apiserver import responses
from localpv.engine.apiserver.access import Access
from localpv.engine.apiserver.auth.identity import Attributes
from localpv.engine.apiserver.call import Call
from localpv.engine.apiserver.selection import Revisions
from localpv.engine.apiserver.storage import decode
from localpv.engine.apiserver.verbs import get as getting
from localpv.engine.store.store import Store
from localpv.errors import ApiError, BadRequest, HostError, InternalError, Unavailable
from localpv.host.containers import Process


class PodAccess(Protocol):
    """The pods of this machine. Raises ApiErrors: BadRequest for a container that does not run."""

    def logs(self, pod: Object, container: str, options: PodLogOptions) -> AsyncIterator[bytes]: ...

    async def exec(
        self, pod: Object, container: str, command: tuple[str, ...], *, stdin: bool, tty: bool
    ) -> Process: ...


_OPTIONS = "PodLogOptions"


def log_lines(call: Call, pod: Object, *, pods: PodAccess) -> AsyncIterator[bytes]:
    """The log that a call asks for, piece by piece."""
    return pods.logs(pod, container_of(pod, call.query.get("container", "")), log_options(call))


def log_options(call: Call) -> PodLogOptions:
    """Reads the options of the request; Invalid names the one that is wrong."""
    tail, limit, seconds = call.number("tailLines"), call.number("limitBytes"), call.number("sinceSeconds")
    if tail is not None and tail < 0:
        raise status.invalid_options(_OPTIONS, fields.invalid("tailLines", tail, "must be 0 or more"))
    if limit is not None and limit < 1:
        raise status.invalid_options(_OPTIONS, fields.invalid("limitBytes", limit, "must be more than 0"))
    if seconds is not None and seconds < 1:
        raise status.invalid_options(_OPTIONS, fields.invalid("sinceSeconds", seconds, "must be more than 0"))
    moment = call.query.get("sinceTime")
    if moment and seconds is not None:
        why = "give at most one of sinceTime and sinceSeconds"
        raise status.invalid_options(_OPTIONS, fields.forbidden("sinceSeconds", why))
    since = None
    if seconds is not None:
        since = datetime.fromisoformat(now()).timestamp() - seconds
    elif moment:
        try:
            read = datetime.fromisoformat(moment)
            if read.tzinfo is None:
                raise ValueError("it does not say in which zone")
            since = read.timestamp()
        except ValueError:
            raise BadRequest(f'the option sinceTime takes a time such as {now()}, not "{moment}"') from None
    return PodLogOptions(
        follow=call.flag("follow"),
        previous=call.flag("previous"),
        timestamps=call.flag("timestamps"),
        tail_lines=tail,
        since=since,
        limit_bytes=limit,
    )


def container_of(pod: Object, wanted: str) -> str:
    """The container that is meant: the one named, or the only one."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    first: list[str] = [entry["name"] for entry in spec.get("containers") or ()]
    others = [entry["name"] for group in ("initContainers", "ephemeralContainers") for entry in spec.get(group) or ()]
    if wanted:
        if wanted not in (*first, *others):
            raise BadRequest(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(first) == 1:
        return first[0]
    choice = " ".join(first)
    raise BadRequest(f"a container name must be specified for pod {name}, choose one of: [{choice}]")


log = logging.getLogger(__name__)

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io")
"""The last is the first version; who names none speaks it."""

_WITH_STATUS = PROTOCOLS[:2]
_STDIN, _STDOUT, _STDERR, _OUTCOME, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255


_Cells = Annotated[int, msgspec.Meta(ge=0, le=0xFFFF)]
"""What a terminal can be told of its width or height."""


def is_upgrade(request: web.BaseRequest) -> bool:
    return request.headers.get("Upgrade", "").lower() == "websocket"


def check_upgrade(socket: web.WebSocketResponse, request: web.BaseRequest) -> None:
    """Refuse a request with a malformed handshake while it can still be answered."""
    if not socket.can_prepare(request).ok:
        raise BadRequest("the request asks for a WebSocket and cannot become one")


async def run_exec(request: web.BaseRequest, call: Call, pod: Object, *, pods: PodAccess) -> web.WebSocketResponse:
    """Start the command, carry its streams until it ends, and tell its exit code."""
    _, _, text = request.raw_path.partition("?")
    command = tuple(value for name, value in parse_qsl(text, keep_blank_values=True) if name == "command")
    if not command:
        raise BadRequest("you must specify at least one command for the container")
    if not any(call.flag(stream) for stream in ("stdin", "stdout", "stderr")):
        raise BadRequest("you must specify at least one of stdin, stdout, stderr")
    container = container_of(pod, call.query.get("container", ""))
    stdin, tty = call.flag("stdin"), call.flag("tty")
    # Last, because clients try another protocol whatever the first answer was, and show what that one says.
    if not is_upgrade(request):
        raise BadRequest("exec needs a WebSocket here; kubectl 1.31 and newer use one by themselves")
    socket = web.WebSocketResponse(protocols=PROTOCOLS, max_msg_size=16 << 20)
    check_upgrade(socket, request)
    await socket.prepare(request)
    try:
        process = await pods.exec(pod, container, command, stdin=stdin, tty=tty)
    except Exception as error:
        # Inside the protocol for the same reason: it is the outcome, not a server that speaks no WebSocket.
        with contextlib.suppress(ConnectionError):
            await _send_outcome(socket, _failure(error))
            await socket.close()
        return socket
    try:
        await _carry(socket, process, stdin=stdin, stdout=call.flag("stdout"), stderr=call.flag("stderr"))
    except Exception:
        log.exception("cannot carry the streams of a command pod=%s container=%s", call.name, container)
    finally:
        await process.close()
    return socket


def _failure(error: Exception) -> Object:
    """The outcome of a command that could not be started, or not be followed to its end."""
    match error:
        case ApiError():
            return status.to_status(error)
        case HostError():
            log.warning("a command failed reason=%s", error.message)
            return status.to_status(InternalError(error.message))
        case OSError() | ValueError():  # a word that no program can be given: with a NUL in it, or too long
            log.warning("a command failed reason=%s", error)
            return status.to_status(InternalError(f"the command cannot be run: {error}"))
        case _:
            log.error("a command failed", exc_info=error)
            return status.to_status(InternalError("the server met an error of its own; its log has more"))


async def _carry(socket: web.WebSocketResponse, process: Process, *, stdin: bool, stdout: bool, stderr: bool) -> None:
    wanted = {_STDOUT} if stdout else set()
    wanted |= {_STDERR} if stderr else set()
    listening = asyncio.create_task(_listen(socket, process, stdin=stdin))
    telling = asyncio.create_task(_tell(socket, process, wanted))
    try:
        # Whoever ends first: the command, or a client that has gone.
        await asyncio.wait({listening, telling}, return_when=asyncio.FIRST_COMPLETED)
        if telling.done():
            telling.result()
    except ConnectionError:
        pass
    finally:
        for task in (listening, telling):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await task
        with contextlib.suppress(ConnectionError):
            await socket.close()


async def _tell(socket: web.WebSocketResponse, process: Process, wanted: set[int]) -> None:
    try:
        async for channel, data in process.output():
            if channel in wanted:
                await socket.send_bytes(bytes((channel,)) + data)
        outcome = _outcome(await process.wait())
    except ConnectionError:
        raise
    except Exception as error:
        outcome = _failure(error)
    await _send_outcome(socket, outcome)


async def _send_outcome(socket: web.WebSocketResponse, outcome: Object) -> None:
    if socket.ws_protocol in _WITH_STATUS:
        await socket.send_bytes(bytes((_OUTCOME,)) + msgspec.json.encode(outcome))
    elif outcome["status"] != "Success":
        await socket.send_bytes(bytes((_OUTCOME,)) + outcome["message"].encode())


def _outcome(code: int) -> Object:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit code {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


async def _listen(socket: web.WebSocketResponse, process: Process, *, stdin: bool) -> None:
    """Take what the client sends until it goes. A client without input stays to the end as well."""
    async for message in socket:
        if message.type is not WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel == _STDIN and stdin and data:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it reads no more: not the client's loss
                await process.write(data)
        elif channel == _CLOSE and data[:1] == bytes((_STDIN,)):
            await process.close_input()
        elif channel == _RESIZE:
            await _resize(process, data)


async def _resize(process: Process, data: bytes) -> None:
    try:
        size = msgspec.json.decode(data, type=dict[str, _Cells])
        await process.resize(size["Width"], size["Height"])
    except (msgspec.DecodeError, KeyError) as error:
        log.debug("a size of a terminal that cannot be read reason=%s", error)


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
            log_options(call)  # what is wrong with the request is wrong whoever runs the pods
        if self.pods is None:
            raise Unavailable(
                "nobody runs pods on this machine, so there is nothing to look into; see the server's log"
            )
        if subresource == "exec":
            return await run_exec(request, call, pod, pods=self.pods)
        return await self._log(request, log_lines(call, pod, pods=self.pods))

    async def _log(self, request: web.BaseRequest, pieces: AsyncIterator[bytes]) -> web.StreamResponse:
        sink = _Socket(request) if is_upgrade(request) else _Body()
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
        check_upgrade(self.response, request)

    async def write(self, piece: bytes) -> None:
        await self.response.send_bytes(piece)

    async def gone(self) -> None:
        while (await self.response.receive()).type in (WSMsgType.TEXT, WSMsgType.BINARY):
            pass  # nothing is asked of it

    async def end(self) -> None:
        await self.response.close()
