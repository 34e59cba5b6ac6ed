"""What a request wants to do, in the terms that rules are written in, and how a refusal is told."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from localpv import errors
from localpv.api.status import qualified
from localpv.engine.apiserver.auth.identity import User

# A refusal repeats the path that was asked for, and must not look like HTML to a browser.
_HARMLESS = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(slots=True, kw_only=True)
class Attributes:
    """One request. `resource` is empty for paths outside of the resource API, such as /metrics."""

    verb: str
    """get, list, watch, create, ... for a resource; the lower-case HTTP method for a path."""

    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    field_selector: str = ""
    """As the client wrote it; empty for verbs that select nothing by it."""

    @property
    def combined_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def forbidden(user: User, attributes: Attributes, reason: str = "") -> errors.Forbidden:
    """The 403 that clients know, for a request that no rule allows."""
    wish = f"User {quoted(user.name)} cannot {attributes.verb}"
    if not attributes.resource:
        why = f"{wish} path {quoted(attributes.path)}"
    else:
        scope = f"in the namespace {quoted(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
        resource = quoted(attributes.combined_resource)
        why = f"{wish} resource {resource} in API group {quoted(attributes.group)} {scope}"
    why = why.translate(_HARMLESS)
    return refusal(attributes, f"{why}: {reason}" if reason else why)


def refusal(attributes: Attributes, why: str) -> errors.Forbidden:
    """A 403 about the resource and name of a request, with this explanation."""
    details: dict[str, Any] = {}
    head = ""
    if attributes.resource:
        head = qualified(attributes.resource, attributes.group) + " "
        details["kind"] = attributes.resource
        if attributes.group:
            details["group"] = attributes.group
        if attributes.name:
            head += quoted(attributes.name) + " "
            details["name"] = attributes.name
        head += "is "
    return errors.Forbidden(f"{head}forbidden: {why}", details=details)
