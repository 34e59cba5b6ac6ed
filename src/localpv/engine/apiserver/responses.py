"""Answers as HTTP carries them: headers, warnings, Status objects, YAML."""

from __future__ import annotations

import itertools
from typing import TypeVar

import msgspec
from aiohttp import web

from localpv.api import media_types, status
from localpv.api.objects import Object, new_uid
from localpv.engine.apiserver.call import Call
from localpv.engine.apiserver.storage import encode
from localpv.errors import ApiError

_PROCESS, _COUNT = new_uid()[:23], itertools.count(1)
MAX_WARNINGS = 100
"""More than a client would read, and less than would make a header that it refuses."""

AnyResponse = TypeVar("AnyResponse", bound=web.StreamResponse)


def warned(call: Call, response: AnyResponse) -> AnyResponse:
    for warning in call.warnings[:MAX_WARNINGS]:
        response.headers.add("Warning", f'299 - "{_quotable(warning)}"')
    return response


def _quotable(text: str) -> str:
    """Fit for a header: names of unknown fields are the client's and may hold anything, line ends included."""
    shown = "".join(char if char.isprintable() else " " for char in text[:256])
    return shown.replace("\\", "\\\\").replace('"', '\\"')


def headers() -> dict[str, str]:
    """What every answer carries; the id is for finding a request in logs of several programs."""
    return {"Cache-Control": "no-cache, private", "Audit-Id": f"{_PROCESS}-{next(_COUNT):x}"}


def failure(error: ApiError) -> web.Response:
    response = web.Response(
        body=encode(status.to_status(error)),
        status=error.code,
        content_type=media_types.JSON,
        headers=headers(),
    )
    if error.retry_after_seconds:
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    return response


def yaml(value: bytes) -> bytes:
    import yaml

    obj: Object = msgspec.json.decode(value)
    text: str = yaml.safe_dump(obj, sort_keys=False)
    return text.encode()
