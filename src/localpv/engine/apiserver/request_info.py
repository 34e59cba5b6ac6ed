"""What a request asks for, in the words of RBAC: verb, resource and name, read from its method, path and options.

What is authorised here must be what is done afterwards. So a name counts only where it also limits what the request
can touch: one in the path, or, for a list and a watch alone, one that the field selector asks for. A POST, PUT, PATCH
or DELETE does not look at selectors of names, and a right to one name must not let it through.
"""

from __future__ import annotations

from collections.abc import Mapping

from localpv.api import selectors
from localpv.engine.apiserver.addresses import Address
from localpv.engine.apiserver.auth.identity import Attributes
from localpv.errors import BadRequest

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
