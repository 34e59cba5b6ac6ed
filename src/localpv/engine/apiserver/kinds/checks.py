"""Small rules that many kinds share: amounts, modes, paths, ports, addresses, and whether two values mean the same."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from localpv.api import fields
from localpv.api.fields import FieldError
from localpv.api.objects import Object
from localpv.api.quantity import NANO, Quantity

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

LONGEST_LENGTH = 3
LONGEST_ADDRESS = 45


def read_network(text: str) -> Network | None:
    """The range that a text names, whatever its host bits say; None when it names none.

    The library keeps every spelling of a length that it has ever read, leading zeros and all, so it gets one only.
    """
    address, slash, length = text.partition("/")
    if not slash or len(address) > LONGEST_ADDRESS or "%" in address:
        return None
    if not 0 < len(length) <= LONGEST_LENGTH or not (length.isascii() and length.isdigit()):
        return None
    try:
        return ipaddress.ip_network(f"{address}/{int(length)}", strict=False)
    except ValueError:
        return None


Errors = Iterator[FieldError]

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")


@lru_cache(maxsize=1024)
def read_amount(value: str | int) -> Quantity:
    """A quantity read; the same few are read over and over."""
    return Quantity.parse(value)


def access_modes(modes: list[str], path: str) -> Errors:
    known = [mode for mode in modes if mode in ACCESS_MODES]
    for mode in modes:
        if mode not in known:
            yield fields.not_supported(path, mode, ACCESS_MODES)
    if "ReadWriteOncePod" in known and len(set(known)) > 1:
        yield fields.forbidden(path, "ReadWriteOncePod excludes every other access mode")


def round_up(amounts: dict[str, str]) -> None:
    """Amounts finer than a thousandth, which the API has promised never to show, become the next thousandth."""
    for name, given in amounts.items():
        if given[-1:] in ("n", "u") or "." in given or "e" in given:
            exact = read_amount(given)
            if exact.nanos % _MILLI:
                amounts[name] = str(Quantity(exact.milli_value * _MILLI, exact.format))


def positive(given: str | int, path: str) -> Errors:
    if read_amount(given) <= ZERO:
        yield fields.invalid(path, given, "must be greater than zero")


_MILLI = NANO // 1000
ZERO = Quantity(0)


def has_backstep(path: str) -> bool:
    """Whether any component is `..`; `a..b` and `..data` are names like any other."""
    return ".." in path and ".." in path.split("/")


def no_backsteps(path: str, field: str) -> Errors:
    if has_backstep(path):
        yield fields.invalid(field, path, "must not contain '..' as a component")


def inside(path: str, field: str) -> Errors:
    """A path that stays below the directory it is joined to."""
    if path.startswith("/"):
        yield fields.invalid(field, path, "must be a relative path")
    yield from no_backsteps(path, field)


def inside_and_not_reserved(path: str, field: str) -> Errors:
    """As `inside`; and the kubelet keeps names that begin with two dots for itself."""
    yield from inside(path, field)
    if path.startswith("..") and not path.startswith("../"):
        yield fields.invalid(field, path, "must not start with '..'")


def file_mode(value: int | None, field: str) -> Errors:
    if value is not None and not 0 <= value <= 0o777:
        yield fields.invalid(field, value, "must be a file mode from 0 to 0777 (octal)")


_UNSET_IS_NOT_ZERO = frozenset(
    {
        "activeDeadlineSeconds",
        "allowPrivilegeEscalation",
        "automountServiceAccountToken",
        "defaultMode",
        "fsGroup",
        "hostUsers",
        "lun",
        "mode",
        "optional",
        "privileged",
        "readOnlyRootFilesystem",
        "runAsGroup",
        "runAsNonRoot",
        "runAsUser",
        "shareProcessNamespace",
        "storageClassName",
        "terminationGracePeriodSeconds",
        "tolerationSeconds",
        "volumeAttributesClassName",
    }
)
"""Fields whose zero value says something that leaving them out does not say."""

_QUANTITIES = frozenset({"capacity", "limits", "overhead", "requests"})


def same(new: Any, old: Any) -> bool:
    """Equal, where a field left out equals one that is empty, false or zero.

    Clients written in Go drop such fields when they send an object back, so a comparison to the
    letter would take an untouched object for a changed one.
    """
    if new == old:
        return True
    if isinstance(new, dict) and isinstance(old, dict):
        return all(_same_field(key, new.get(key), old.get(key)) for key in new.keys() | old.keys())
    if isinstance(new, list) and isinstance(old, list):
        return len(new) == len(old) and all(map(same, new, old))
    return not new and not old


def _same_field(key: str, new: Any, old: Any) -> bool:
    if new == old:
        return True
    if key in _UNSET_IS_NOT_ZERO:
        return False
    if key in _QUANTITIES and isinstance(new, dict) and isinstance(old, dict):
        return same_quantities(new, old)
    return same(new, old)


def same_quantities(new: Object, old: Object) -> bool:
    """Whether two resource lists name the same amounts: `1Gi` is `1024Mi`."""
    if new.keys() != old.keys():
        return False
    return all(_same_amount(new[key], old[key]) for key in new)


def _same_amount(new: Any, old: Any) -> bool:
    if new == old:
        return True
    try:
        return read_amount(new) == read_amount(old)
    except (TypeError, ValueError):
        return same(new, old)  # no amounts: some fields have the name and are something else


def without(value: Object, *keys: str) -> Object:
    """A shallow copy that leaves some fields out of a comparison."""
    return {key: each for key, each in value.items() if key not in keys}


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
        yield from fields.malformed(path, value, port_name(value))


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
