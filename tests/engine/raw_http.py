"""HTTP/1.1 by hand: requests of any shape, and a reader that takes nothing but well-formed answers.

A client library would smooth over what this looks for: an answer with two lengths, bytes after the end of an answer,
a body where there must be none.
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.contract import wire

from localpv.testing.waiting import PATIENCE_SECONDS

STATUS_LINE = re.compile(rb"HTTP/(1\.[01]) ([1-5][0-9]{2}) [\x20-\x7e]*")
HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e\x80-\xff\t]*)")


class OutOfStep(AssertionError):
    """What came is no answer to what was asked."""


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    headers: Mapping[str, str]
    body: bytes
    closes: bool


def request(method: bytes, target: bytes, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bytes:
    lines = [b"%b %b HTTP/1.1" % (method, target), *(b"%b: %b" % header for header in headers)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


class Connection:
    """One kept-alive connection, opened again when the server said that it closes it."""

    def __init__(self, target: wire.Target, *, timeout: float = PATIENCE_SECONDS) -> None:
        self._target = target
        self._timeout = timeout
        self._socket: ssl.SSLSocket | None = None
        self._buffer = b""
        self.opened = 0

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._buffer = None, b""

    def ask(self, raw: bytes, *, head: bool = False) -> Answer:
        """Send one request and read its answer, to the last byte and not one more."""
        if self._socket is None:
            plain = socket.create_connection((self._target.host, self._target.port), timeout=self._timeout)
            self._socket = self._target.tls.wrap_socket(plain, server_hostname=self._target.host)
            self.opened += 1
        with contextlib.suppress(OSError):  # it may refuse before it has read all, and then its answer is there
            self._socket.sendall(raw)
        answer = self._answer(head=head)
        if self._buffer:
            raise OutOfStep(f"there is more after the answer: {self._buffer[:200]!r}")
        if answer.closes:
            if self._receive(eof=True):
                raise OutOfStep(f"there is more after the last answer: {self._buffer[:200]!r}")
            self.close()
        return answer

    def _answer(self, *, head: bool) -> Answer:
        while True:
            code, headers, version = self._head()
            if code >= 200 or code == 101:
                break
        length, coding = headers.get("content-length"), headers.get("transfer-encoding")
        said = headers.get("connection", "").lower()
        closes = "close" in said or code == 101 or (version == "1.0" and "keep-alive" not in said)
        if length is not None and coding is not None:
            raise OutOfStep(f"an answer with two lengths: {headers}")
        if head and closes and code == 400:
            body = self._rest()  # of a request that it could not read the server does not know that it was HEAD
        elif head or code in (204, 304):
            body = b""
        elif coding is not None:
            if coding.lower() != "chunked":
                raise OutOfStep(f"an unknown coding: {coding}")
            body = self._chunks()
        elif length is not None:
            if not length.isdigit():
                raise OutOfStep(f"a length that is none: {length}")
            body = self._exactly(int(length))
        else:
            raise OutOfStep(f"an answer without a length: {code} {headers}")
        return Answer(code, headers, body, closes)

    def _head(self) -> tuple[int, dict[str, str], str]:
        first, *lines = self._until(b"\r\n\r\n").split(b"\r\n")
        found = STATUS_LINE.fullmatch(first)
        if found is None:
            raise OutOfStep(f"no status line: {first[:200]!r}")
        headers: dict[str, str] = {}
        for line in lines:
            header = HEADER.fullmatch(line)
            if header is None:
                raise OutOfStep(f"no header: {line[:200]!r}")
            name = header[1].decode().lower()
            if name in headers and name in ("content-length", "transfer-encoding"):
                raise OutOfStep(f"{name} twice")
            headers[name] = header[2].decode("latin-1")
        return int(found[2]), headers, found[1].decode()

    def _chunks(self) -> bytes:
        body = b""
        while True:
            size = self._until(b"\r\n")
            if not re.fullmatch(rb"[0-9A-Fa-f]{1,8}", size):
                raise OutOfStep(f"no size of a chunk: {size[:200]!r}")
            piece = self._exactly(int(size, 16) + 2)
            if not piece.endswith(b"\r\n"):
                raise OutOfStep(f"a chunk that does not end where it should: {piece[-50:]!r}")
            if piece == b"\r\n":
                return body
            body += piece[:-2]

    def _until(self, end: bytes) -> bytes:
        while end not in self._buffer:
            self._receive()
        found, _, self._buffer = self._buffer.partition(end)
        return found

    def _rest(self) -> bytes:
        while self._receive(eof=True):
            pass
        found, self._buffer = self._buffer, b""
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._receive()
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found

    def _receive(self, *, eof: bool = False) -> bytes:
        assert self._socket is not None
        try:
            piece = self._socket.recv(1 << 16)
        except TimeoutError:
            raise OutOfStep(f"nothing came for {self._timeout:g} s; so far: {self._buffer[:200]!r}") from None
        except OSError:
            piece = b""
        if not piece and not eof:
            raise OutOfStep(f"the connection ended in an answer: {self._buffer[:200]!r}")
        self._buffer += piece
        return piece
