"""How a call ends: the codes of gRPC, the error that carries one, and how it is written in headers."""

from __future__ import annotations

import enum
import re
import urllib.parse
from typing import Final

from localpv import errors


class Code(enum.IntEnum):
    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class RpcError(errors.LocalpvError):
    """A call ended with another code than OK."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


MAX_MESSAGE: Final = 2048
"""Characters of a message that are sent or kept. The rest of a tool's output helps nobody here."""

_PRINTABLE: Final = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
_TIMEOUT: Final = re.compile(r"([0-9]{1,8})([HMSmun])")
_UNIT_SECONDS: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}


def trailers(code: Code, message: str = "") -> list[tuple[str, str]]:
    found = [("grpc-status", str(int(code)))]
    if message:
        found.append(("grpc-message", urllib.parse.quote(message[:MAX_MESSAGE], safe=_PRINTABLE, errors="replace")))
    return found


def error_of(headers: dict[str, str]) -> RpcError | None:
    """What the trailers of an answer say; None for OK."""
    message = urllib.parse.unquote(headers.get("grpc-message", ""), errors="replace")[:MAX_MESSAGE]
    written = headers.get("grpc-status")
    if written is None:
        status = headers.get(":status", "")
        if status and status != "200":
            return RpcError(_of_http(status), f"the other end answered with HTTP status {status[:20]}")
        return RpcError(Code.INTERNAL, "the answer has no grpc-status")
    try:
        code = Code(int(written)) if written.isascii() and written.isdigit() and len(written) < 4 else Code.UNKNOWN
    except ValueError:
        code = Code.UNKNOWN  # what gRPC says of a code that it does not know
    return None if code is Code.OK else RpcError(code, message)


def _of_http(status: str) -> Code:
    """As gRPC maps what something between the two ends may have answered."""
    match status:
        case "400":
            return Code.INTERNAL
        case "401":
            return Code.UNAUTHENTICATED
        case "403":
            return Code.PERMISSION_DENIED
        case "404":
            return Code.UNIMPLEMENTED
        case "429" | "502" | "503" | "504":
            return Code.UNAVAILABLE
    return Code.UNKNOWN


def write_timeout(seconds: float) -> str:
    """A time limit as a header says it: at most eight digits, then a unit."""
    for factor, unit in ((1e6, "u"), (1e3, "m"), (1.0, "S")):
        if 0 <= seconds * factor < 1e8:
            return f"{max(1, int(seconds * factor))}{unit}"
    return "99999999S"


def read_timeout(written: str) -> float | None:
    """Seconds that a caller will wait; None when it says something else."""
    found = _TIMEOUT.fullmatch(written)
    return int(found[1]) * _UNIT_SECONDS[found[2]] if found else None
