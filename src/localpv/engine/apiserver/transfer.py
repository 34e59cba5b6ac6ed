"""Bodies on their way: what a client sends comes in bounded time and size, and what it asked for is taken in time."""

from __future__ import annotations

import asyncio

from aiohttp import web

from localpv.engine.apiserver import body
from localpv.errors import GatewayTimeout, TooLarge

BODY_SECONDS = 60.0
"""How long a client may take to send the body of a request."""

TAKE_SECONDS = 60.0
"""How long a client may take for one piece of a long list; then it is taken for gone."""


async def read(request: web.BaseRequest) -> bytes:
    """The whole body of a request."""
    if request.content_length is not None and request.content_length > body.MAX_BYTES:
        raise _too_large()
    pieces, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.content.iter_any():
                pieces.append(piece)
                size += len(piece)
                if size > body.MAX_BYTES:
                    raise _too_large()
    except TimeoutError:
        raise GatewayTimeout(f"the body of the request did not come within {BODY_SECONDS:g} s") from None
    return b"".join(pieces)


def _too_large() -> TooLarge:
    return TooLarge(f"the body of the request is larger than the limit of {body.MAX_BYTES} bytes")


async def send(response: web.StreamResponse, *pieces: bytes) -> None:
    """Pieces of a long answer, or its end; ConnectionResetError when the client does not take them."""
    try:
        async with asyncio.timeout(TAKE_SECONDS):
            for piece in pieces:
                await response.write(piece)
            if not pieces:
                await response.write_eof()
    except TimeoutError:
        raise ConnectionResetError("the client does not read the answer") from None
