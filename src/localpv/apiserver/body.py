"""Bodies of requests: from bytes to an object that fits the schema of its kind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec

from localpv.api import objects, status, yamls
from localpv.api.objects import Object
from localpv.api.schema import walk
from localpv.apiserver.call import Call
from localpv.errors import BadRequest, UnsupportedMediaType

MAX_BYTES = 3 << 20
"""Largest body that is read; kube-apiserver has the same limit."""

LARGE_YAML = 32 << 10
"""Bytes of YAML that are read in one go, in some 50 ms at the worst."""

PROTOBUF = "application/vnd.kubernetes.protobuf"
"""What Go programs, kubectl among them, send for kinds that they know the type of."""

_decode_json = msgspec.json.Decoder().decode


def media_type(header: str) -> str:
    return header.partition(";")[0].strip().lower()


def most_values(call: Call) -> int:
    """How many values the body of a request may hold."""
    resource = call.kind.resource
    definition = (resource.group, resource.kind) == ("apiextensions.k8s.io", "CustomResourceDefinition")
    return objects.MOST_IN_DEFINITION if definition else objects.MOST_VALUES


def decode(raw: bytes, content_type: str, *, most: int = objects.MOST_VALUES) -> Any:
    """JSON, or YAML or protobuf where the client says so, with at most so many values."""
    kind = media_type(content_type) or "application/json"
    if kind in ("application/json", "text/json") or kind.endswith("+json"):
        return decode_json(raw, most=most)
    if _is_yaml(kind):
        return decode_yaml(raw, most=most)
    if kind == PROTOBUF:
        from localpv.api import protobuf  # its tables are for those who need them

        return _bounded(protobuf.decode(raw), most)
    raise UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: "
        f"application/json, application/yaml, {PROTOBUF}; not {kind}"
    )


def _is_yaml(kind: str) -> bool:
    return kind in ("application/yaml", "application/x-yaml", "text/yaml") or kind.endswith("+yaml")


def decode_json(raw: bytes, *, most: int = objects.MOST_VALUES) -> Any:
    return _bounded(_parsed(raw), most)


def _parsed(raw: bytes) -> Any:
    try:
        return _decode_json(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, ValueError) as error:
        raise BadRequest(f"the body of the request is not valid JSON: {error}") from None


def _bounded(value: Any, most: int) -> Any:
    if excess := objects.excess(value, most):
        raise BadRequest(f"the body of the request {excess}")
    return value


def decode_yaml(raw: bytes, *, most: int = objects.MOST_VALUES) -> Any:
    if _looks_like_json(raw):
        try:
            value = _parsed(raw)
        except BadRequest:
            pass
        else:
            return _bounded(value, most)
    for found in _yaml_in_turns(raw, most, []):
        if found:
            return _bounded(found[0], most)
    return None


async def json_of_yaml(
    raw: bytes,
    content_type: str,
    one_at_a_time: asyncio.Lock,
    *,
    most: int = objects.MOST_VALUES,
    repeated: list[str] | None = None,
) -> bytes:
    """The body, in JSON if it was YAML; much of it takes seconds to read, so others have their turns meanwhile. Keys
    that a map has twice are told in `repeated`."""
    if not raw or not _is_yaml(media_type(content_type)):
        return raw
    if _looks_like_json(raw):
        try:
            _parsed(raw)
            return raw  # however much it is: that is told when it is decoded, and is not read once more as YAML
        except BadRequest:
            pass
    repeated = [] if repeated is None else repeated
    if len(raw) <= LARGE_YAML:
        return msgspec.json.encode(next((found[0] for found in _yaml_in_turns(raw, most, repeated) if found), None))
    async with one_at_a_time:
        for found in _yaml_in_turns(raw, most, repeated):
            if found:
                return msgspec.json.encode(found[0])
            await asyncio.sleep(0)
    return b"null"


def _yaml_in_turns(raw: bytes, most: int, repeated: list[str]) -> Iterator[list[Any]]:
    import yaml

    try:
        yield from yamls.load_in_turns(raw, most_values=most, repeated=repeated)
    except (yaml.YAMLError, ValueError) as error:
        raise BadRequest(f"the body of the request is not valid YAML: {yamls.trouble(error)}") from None


def _looks_like_json(raw: bytes) -> bool:
    """kubectl sends JSON under the YAML media type when it applies."""
    return raw.lstrip()[:1] == b"{"


def as_object(value: Any, call: Call) -> Object:
    """Check that this is an object of the kind that was addressed, and say so in it."""
    resource = call.kind.resource
    if not isinstance(value, dict):
        raise BadRequest(f"the body of the request must be a JSON object, a {resource.kind}")
    api_version, kind = value.get("apiVersion"), value.get("kind")
    if not isinstance(api_version, str | None) or not isinstance(kind, str | None):
        raise BadRequest("apiVersion and kind of the object must be strings")
    if resource.custom and not (api_version and kind):
        missing = "kind" if not kind else "apiVersion"
        raise BadRequest(f"the object in the body has no {missing}")
    if kind and kind != resource.kind:
        raise BadRequest(
            f'{kind} in version "{api_version or resource.version}" cannot be handled as a {resource.kind}: '
            f"the kind in the data ({kind}) does not match the expected kind ({resource.kind})"
        )
    if api_version and api_version != resource.api_version:
        raise BadRequest(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    value["apiVersion"] = resource.api_version
    value["kind"] = resource.kind
    return value


def take_in(obj: Object, call: Call, raw: bytes | None = None, *, applied: bool = False) -> Object:
    """Prune and type-check an object that a client sent; unknown fields are told as the call asks for it.

    `applied` is for server-side apply, where an empty list is something that the manager owns.
    """
    kind = call.kind
    reset = _resets_managers(obj)
    errors = kind.strategy.raw_errors(obj)
    if errors:
        raise status.invalid(kind.resource.kind, kind.resource.group, _name(obj), errors)
    taken = walk.take_in(obj, kind.node, keep_empty=applied)
    if taken.type_errors:
        if kind.resource.custom and not taken.undecodable:
            raise status.invalid(kind.resource.kind, kind.resource.group, _name(obj), taken.type_errors)
        detail = "; ".join(str(error) for error in taken.type_errors)
        raise BadRequest(
            f'{kind.resource.kind} in version "{kind.resource.version}" cannot be handled as a '
            f"{kind.resource.kind}: {detail}"
        )
    if call.field_validation != "Ignore":
        duplicates = walk.duplicate_fields(raw) if raw is not None else []
        findings = [f'duplicate field "{path}"' for path in duplicates]
        findings += call.repeated_keys
        findings += [f'unknown field "{path}"' for path in taken.unknown]
        if findings and call.field_validation == "Strict":
            raise BadRequest(
                f'{kind.resource.kind} in version "{kind.resource.version}" cannot be handled as a '
                f"{kind.resource.kind}: strict decoding error: {', '.join(findings)}"
            )
        call.warnings.extend(findings)
    if reset:
        # An empty list is the same as none to the schema; here it means: forget who owns what.
        obj["metadata"]["managedFields"] = [{}]
    return obj


def _resets_managers(obj: Object) -> bool:
    metadata = obj.get("metadata")
    return isinstance(metadata, dict) and metadata.get("managedFields") == []


def _name(obj: Object) -> str:
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else ""
    return name if isinstance(name, str) else ""
