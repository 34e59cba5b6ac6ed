"""Ranges of addresses, such as 10.9.8.0/24."""

from __future__ import annotations

import ipaddress

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

LONGEST_LENGTH = 3
LONGEST_ADDRESS = 45


def read(text: str) -> Network | None:
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
