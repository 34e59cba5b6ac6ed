"""Small rules for what stands in a container: images, ports, variables, headers, addresses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from localpv.api import fields
from localpv.api.fields import FieldError

Errors = Iterator[FieldError]

MAX_PORT_NAME = 15
MAX_ID = 2**31 - 1
"""Largest user or group id."""

_is_port_name = re.compile(r"(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*").fullmatch
_is_header = re.compile(r"[-A-Za-z0-9]+").fullmatch
_is_variable = re.compile(r"[\x20-\x3c\x3e-\x7e]+").fullmatch


def port_number(port: int, path: str) -> Errors:
    if not 1 <= port <= 65535:
        yield fields.invalid(path, port, "must be from 1 to 65535")


def port_name(name: str) -> list[str]:
    if len(name) <= MAX_PORT_NAME and _is_port_name(name):
        return []
    return [
        "must be at most 15 characters: lowercase letters, digits and single '-' between them, and at least one letter"
    ]


def port(value: int | str, path: str) -> Errors:
    """A port by its number or its name."""
    if isinstance(value, int):
        yield from port_number(value, path)
    else:
        for sentence in port_name(value):
            yield fields.invalid(path, value, sentence)


def variable(name: str) -> list[str]:
    """Names of environment variables."""
    return [] if _is_variable(name) else ["must be printable ASCII characters other than '='"]


def header(name: str) -> list[str]:
    return [] if _is_header(name) else ["must be letters, digits and '-' only"]


def identity(value: int | None, path: str) -> Errors:
    """A user or group id."""
    if value is not None and not 0 <= value <= MAX_ID:
        yield fields.invalid(path, value, f"must be from 0 to {MAX_ID}")


def address(value: str, path: str) -> Errors:
    if family(value) == 0:
        yield fields.invalid(path, value, "must be an IPv4 or IPv6 address such as 10.9.8.7 or 2001:db8::ffff")


def family(value: str) -> int:
    """4 or 6; 0 when it is no address."""
    address = read_address(value)
    return 0 if address is None else address.version


def read_address(value: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a text names, as Kubernetes reads it in most places; None when it names none."""
    digits = value.replace(".", "")
    # Kubernetes has always read 010.0.0.1 as 10.0.0.1 here.
    if value.count(".") == 3 and len(value) < 100 and digits.isascii() and digits.isdigit():
        value = ".".join(str(int(part)) for part in value.split(".") if part)
    try:
        return ipaddress.ip_address(value) if "%" not in value else None
    except ValueError:
        return None


def pull_policy(image: str) -> str:
    """An image without a tag, or with the tag `latest`, may be another one tomorrow, so it is always pulled."""
    name, _, digest = image.partition("@")
    _, colon, tag = name.rpartition("/")[2].partition(":")
    moves = tag == "latest" if colon or digest else bool(image)
    return "Always" if moves else "IfNotPresent"
