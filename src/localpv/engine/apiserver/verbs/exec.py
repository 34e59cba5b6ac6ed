"""pods/exec: a process in a container, its streams carried over one WebSocket.

Each message begins with the number of its channel: input, output, errors, the outcome as a Status, and the size of the
terminal. Version 5 of the protocol can also say that the input has ended. Before version 4 the outcome is plain text,
and nothing at all when all went well.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Annotated
from urllib.parse import parse_qsl

import msgspec
from aiohttp import WSMsgType, web

from localpv.api import status
from localpv.api.objects import Object
from localpv.engine.apiserver.call import Call
from localpv.engine.apiserver.pod_access import PodAccess
from localpv.engine.apiserver.verbs import logs
from localpv.errors import ApiError, BadRequest, HostError, InternalError
from localpv.host.containers import Process

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


async def run(request: web.BaseRequest, call: Call, pod: Object, *, pods: PodAccess) -> web.WebSocketResponse:
    """Start the command, carry its streams until it ends, and tell its exit code."""
    _, _, text = request.raw_path.partition("?")
    command = tuple(value for name, value in parse_qsl(text, keep_blank_values=True) if name == "command")
    if not command:
        raise BadRequest("you must specify at least one command for the container")
    if not any(call.flag(stream) for stream in ("stdin", "stdout", "stderr")):
        raise BadRequest("you must specify at least one of stdin, stdout, stderr")
    container = logs.container_of(pod, call.query.get("container", ""))
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
