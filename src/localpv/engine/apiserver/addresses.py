"""Paths of the resource API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote


@dataclass(slots=True)
class Address:
    """`/apis/GROUP/VERSION/namespaces/NAMESPACE/PLURAL/NAME/SUBRESOURCE`, taken apart."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watch: bool = False
    """The old way to ask for a watch: `/api/v1/watch/...`."""
    rest: str = ""
    """What follows a subresource; nothing that this server serves has any."""


def parse(path: str) -> Address | None:
    """None for paths that address no resource: discovery, health, and nonsense."""
    parts = [unquote(part) if "%" in part else part for part in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) > 2:
        group, version, tail = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, tail = parts[1], parts[2], parts[3:]
    else:
        return None
    watch = tail[0] == "watch" and len(tail) > 1
    if watch:
        tail = tail[1:]
    if tail[0] == "namespaces" and len(tail) > 2 and not (group == "" and tail[2] in ("status", "finalize")):
        namespace, tail = tail[1], tail[2:]
        if not namespace:
            return None
    else:
        namespace = ""
    if "" in tail:
        return None
    address = Address(group, version, tail[0], namespace, watch=watch)
    if len(tail) > 1:
        address.name = tail[1]
    if len(tail) > 2:
        address.subresource = tail[2]
    if len(tail) > 3:
        address.rest = "/".join(tail[3:])
    return address


_NO_QUERY: Mapping[str, str] = {}


def parse_query(text: str) -> Mapping[str, str]:
    """The first value of each option."""
    if not text:
        return _NO_QUERY
    query: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True, max_num_fields=1000):
        query.setdefault(name, value)
    return query
