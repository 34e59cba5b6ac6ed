"""What a request asks for, in the words of RBAC: verb, resource and name, read from its method, path and options.

What is authorised here must be what is done afterwards. So a name counts only where it also limits what the request
can touch: one in the path, or, for a list and a watch alone, one that the field selector asks for. A POST, PUT, PATCH
or DELETE does not look at selectors of names, and a right to one name must not let it through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote

from localpv.api import selectors
from localpv.engine.apiserver.auth.identity import Attributes
from localpv.errors import BadRequest


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


def parse_path(path: str) -> Address | None:
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


_METHODS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
SELECTING = ("list", "watch", "deletecollection")
"""Verbs that act on what a selector finds; the others ignore selectors."""


def attributes(method: str, path: str, address: Address, query: Mapping[str, str]) -> Attributes:
    """The request as rules speak of it."""
    asked = verb(method, address, query)
    name = address.name
    if not name and method in ("GET", "HEAD") and not address.watch:
        name = _selected_name(query.get("fieldSelector", ""))
    namespace = address.namespace
    if address.plural == "namespaces" and not namespace:
        namespace = address.name  # a role in a namespace can speak of the namespace itself
    return Attributes(
        verb=asked,
        group=address.group,
        resource=address.plural,
        subresource=address.subresource,
        namespace=namespace,
        name=name,
        path=path,
        field_selector=query.get("fieldSelector", "") if asked in SELECTING else "",
    )


def verb(method: str, address: Address, query: Mapping[str, str]) -> str:
    """The verb that a role must allow. With a name in the path, only the old path `/watch/` watches."""
    if address.watch:
        return "watch"
    match method:
        case "GET" | "HEAD":
            if address.name:
                return "get"
            return "watch" if _is_true(query.get("watch")) else "list"
        case "DELETE":
            return "delete" if address.name else "deletecollection"
    return _METHODS.get(method, method.lower())


def _is_true(option: str | None) -> bool:
    return option is not None and option != "0" and option.lower() != "false"


def _selected_name(selector: str) -> str:
    """The name that a field selector insists on."""
    if "metadata.name" not in selector:
        return ""
    try:
        name = selectors.parse_fields(selector).requires("metadata.name") or ""
    except BadRequest:
        return ""  # told when the list is made, to those who may make it
    # What cannot be a part of a path is the name of nothing.
    return "" if name in (".", "..") or "/" in name or "%" in name else name
