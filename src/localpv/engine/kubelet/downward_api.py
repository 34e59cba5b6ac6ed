"""What a pod tells its own containers about itself, in volumes and in their environment."""

from __future__ import annotations

import re
from collections.abc import Mapping

from localpv import errors
from localpv.api.kinds.containers import ResourceFieldSelector
from localpv.api.kinds.pods import Pod
from localpv.api.quantity import NANO, Quantity

_SUBSCRIPT = re.compile(r"(metadata\.(?:labels|annotations))\['(.*)'\]")
_ESCAPES = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"'
}  # fmt: skip


def field(pod: Pod, path: str) -> str:
    """A field of the pod's metadata as text; BadRequest for one that is not told this way."""
    meta = pod.metadata
    if found := _SUBSCRIPT.fullmatch(path):
        values = meta.labels if found[1] == "metadata.labels" else meta.annotations
        return values.get(found[2], "")
    match path:
        case "metadata.name":
            return meta.name
        case "metadata.namespace":
            return meta.namespace
        case "metadata.uid":
            return meta.uid
        case "metadata.labels":
            return lines(meta.labels)
        case "metadata.annotations":
            return lines(meta.annotations)
    raise errors.BadRequest(f"unsupported fieldPath: {path}")


def resource(pod: Pod, selector: ResourceFieldSelector, *, allocatable: Mapping[str, str], container: str = "") -> str:
    """A request or limit of a container, in units of the divisor and rounded up; no limit is all that the node has."""
    name = selector.container_name or container
    found = next((one for one in (*pod.spec.containers, *pod.spec.init_containers) if one.name == name), None)
    if found is None:
        raise errors.BadRequest(f"container {name} not found")
    side, _, what = selector.resource.partition(".")
    match side:
        case "limits":
            text = found.resources.limits.get(what) or allocatable.get(what, "0")
        case "requests":
            text = found.resources.requests.get(what) or found.resources.limits.get(what, "0")
        case _:
            raise errors.BadRequest(f"unsupported container resource: {selector.resource}")
    divisor = Quantity.parse(selector.divisor or "1").nanos or NANO
    return str(-(-Quantity.parse(text).nanos // divisor))


def lines(values: Mapping[str, str]) -> str:
    """A map as one line for each key, in order."""
    return "\n".join(f"{key}={quoted(values[key])}" for key in sorted(values))


def quoted(text: str) -> str:
    """In double quotes, with the escapes that Kubernetes uses."""
    return '"' + "".join(_ESCAPES.get(letter) or _printed(letter) for letter in text) + '"'


def _printed(letter: str) -> str:
    if letter.isprintable():
        return letter
    code = ord(letter)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
