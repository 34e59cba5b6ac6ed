"""Who we are to an API server: headers that may change while we run."""

from __future__ import annotations

import base64
import os
import ssl
import time
from pathlib import Path
from typing import Protocol

from localpv import errors

Headers = tuple[tuple[str, str], ...]
"""Names and values; a name may come more than once."""


class Credentials(Protocol):
    """Gives the headers for the next request."""

    async def headers(self) -> Headers: ...

    def refused(self) -> bool:
        """The server answered 401: forget what may be stale, and say whether another try makes sense."""


class Fixed:
    """A token from the kubeconfig, or none (a client certificate speaks for itself)."""

    def __init__(self, token: str = "") -> None:
        self._headers = bearer(token)

    async def headers(self) -> Headers:
        return self._headers

    def refused(self) -> bool:
        return False


class TokenFile:
    """A token in a file that somebody renews: kubelet replaces a service account's token before it runs out."""

    READ_AGAIN_SECONDS = 60.0
    """A projected token is renewed when four fifths of its life (at least ten minutes) are over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._headers: Headers = ()
        self._read_at = float("-inf")

    async def headers(self) -> Headers:
        if time.monotonic() - self._read_at >= self.READ_AGAIN_SECONDS:
            self._headers = bearer(self._read())
            self._read_at = time.monotonic()
        return self._headers

    def refused(self) -> bool:
        old = self._headers
        self._headers, self._read_at = bearer(self._read()), time.monotonic()
        return self._headers != old

    def _read(self) -> str:
        try:
            token = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise errors.ConfigurationError(
                f"the token file {self._path} cannot be read: {error}",
                hint="in a pod, check that automountServiceAccountToken is not off",
            ) from error
        if not token:
            raise errors.ConfigurationError(f"the token file {self._path} is empty", hint="put a token into it")
        return token


class Impersonating:
    """Acts as somebody else, as the `as` fields of a kubeconfig say."""

    def __init__(self, inner: Credentials, headers: Headers) -> None:
        self._inner = inner
        self._more = headers

    async def headers(self) -> Headers:
        return (*await self._inner.headers(), *self._more)

    def refused(self) -> bool:
        return self._inner.refused()


def bearer(token: str) -> Headers:
    return (("Authorization", f"Bearer {token}"),) if token else ()


def load_certificate(tls: ssl.SSLContext, *, certificate: bytes, key: bytes) -> None:
    """Use a client certificate that is in memory; raises ssl.SSLError when the two do not fit or make no sense."""
    # ssl only reads files, and a private key should not touch a disk for that.
    fd = os.memfd_create("client-certificate")
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(certificate.rstrip() + b"\n" + key)
        tls.load_cert_chain(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


def decode_data(text: str, *, where: str) -> bytes:
    """The content of a `...-data` field."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise errors.ConfigurationError(f"{where} is not base64", hint="encode the file with `base64 -w0`") from error
