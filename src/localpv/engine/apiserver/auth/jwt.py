"""JSON web tokens with one algorithm, HS256, and nothing optional."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from typing import Any


class Malformed(ValueError):
    """Not one of our tokens, or changed on the way."""


def _encode(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _decode(text: bytes) -> bytes:
    try:
        return base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise Malformed("not base64url") from error


_HEADER = _encode(b'{"alg":"HS256","typ":"JWT"}')


def sign(claims: dict[str, Any], key: bytes) -> str:
    body = _HEADER + b"." + _encode(json.dumps(claims, separators=(",", ":")).encode())
    return (body + b"." + _encode(hmac.digest(key, body, hashlib.sha256))).decode()


def claims(token: str, key: bytes) -> dict[str, Any]:
    """The claims of a token that this key signed.

    The header must be, to the byte, the one that `sign` writes: a token that names another algorithm, or
    "none", never gets as far as having its signature compared.
    """
    try:
        body, _, signature = token.encode("ascii").rpartition(b".")
    except UnicodeEncodeError as error:
        raise Malformed("not ASCII") from error
    header, _, payload = body.partition(b".")
    if header != _HEADER:
        raise Malformed("not a token of this server")
    if not hmac.compare_digest(_decode(signature), hmac.digest(key, body, hashlib.sha256)):
        raise Malformed("the signature does not match")
    try:
        decoded = json.loads(_decode(payload))
    except ValueError as error:
        raise Malformed("the claims are not JSON") from error
    if not isinstance(decoded, dict):
        raise Malformed("the claims are not an object")
    return decoded
