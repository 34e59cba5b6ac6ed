"""Bodies of requests: read in bounded time and size, from bytes to an object that fits the schema of its kind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
from aiohttp import web

from localpv.api import media_types, objects, status, yamls
from localpv.api.fields import FieldErrors, invalid
from localpv.api.objects import Object
from localpv.api.schema import walk
from localpv.api.schema.node import Node
from localpv.engine.apiserver.call import Call
from localpv.errors import BadRequest, GatewayTimeout, TooLarge, UnsupportedMediaType

MAX_BYTES = 3 << 20
"""Largest body that is read; kube-apiserver has the same limit."""

LARGE_YAML = 32 << 10
"""Bytes of YAML that are read in one go, in some 50 ms at the worst."""

LONGEST_SHOWN = 1024
"""Bytes of a patch that are repeated in its refusal."""


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
    if kind == media_types.PROTOBUF:
        from localpv.api import protobuf  # its tables are for those who need them

        return _bounded(protobuf.decode(raw), most)
    raise UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: "
        f"application/json, application/yaml, {media_types.PROTOBUF}; not {kind}"
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
            value = _parsed(raw)
        except BadRequest:
            pass
        else:
            # However much it is: that is told when it is decoded, and is not read once more as YAML. Only one that has
            # fields twice is, since of YAML that is told by lines.
            if objects.excess(value, most) or not walk.duplicate_fields(raw):
                return raw
    repeated = [] if repeated is None else repeated
    if len(raw) <= LARGE_YAML:
        return _sorted_json(next((found[0] for found in _yaml_in_turns(raw, most, repeated) if found), None))
    async with one_at_a_time:
        for found in _yaml_in_turns(raw, most, repeated):
            if found:
                return _sorted_json(found[0])
            await asyncio.sleep(0)
    return b"null"


def _sorted_json(value: Any) -> bytes:
    """In the order in which Kubernetes reads YAML, and tells what it finds there."""
    return msgspec.json.encode(value, order="deterministic")


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


def take_in(obj: Object, call: Call, raw: bytes) -> Object:
    """Prune and type-check an object that a client sent; unknown fields, and what the body `raw` has twice, are told
    as the call asks for it."""
    resource, taken = call.kind.resource, _taken(obj, call)
    refuse(resource.kind, resource.version, problem(call, taken, call.kind.node, raw))
    return obj


def take_in_applied(obj: Object, call: Call) -> Object:
    """The same for server-side apply, where an empty list is something that the manager owns, and unknown fields have
    been refused before."""
    resource, taken = call.kind.resource, _taken(obj, call, applied=True)
    refuse(resource.kind, resource.version, _listed(taken.type_errors))
    if call.field_validation == "Warn":
        call.warnings.extend(call.repeated_keys)
    return obj


def take_in_patched(obj: Object, call: Call, findings: list[str], *, patch: bytes) -> Object:
    """The same for what a patch has led to: `findings` are about the patch itself."""
    refuse_patch(patched_problem(call, _taken(obj, call), call.kind.node, findings), patch)
    return obj


def problem(call: Call, taken: walk.Taken, node: Node, raw: bytes) -> str:
    """Why a body is refused, if it is; otherwise the client is warned of what a strict reader finds in it."""
    if taken.type_errors:
        return _listed(taken.type_errors)
    if call.field_validation == "Ignore":
        return ""
    twice = walk.duplicate_fields(raw)
    if twice and not node.custom:
        return _told(call, walk.findings(raw, node))
    return _told(call, [*(f'duplicate field "{path}"' for path in twice), *_unknown(taken.unknown)])


def patched_problem(call: Call, taken: walk.Taken, node: Node, findings: list[str]) -> str:
    if taken.type_errors:
        return _listed(taken.type_errors)
    if call.field_validation == "Ignore":
        return ""
    return _told(call, [*findings, *_unknown(taken.unknown if node.custom else sorted(taken.unknown))])


def refuse(kind: str, version: str, problem: str) -> None:
    if problem:
        raise BadRequest(f'{kind} in version "{version}" cannot be handled as a {kind}: {problem}')


def refuse_patch(problem: str, patch: bytes) -> None:
    """The patch was well formed, and the object that it leads to is not: the patch is the wrong value."""
    if problem:
        shown = patch[:LONGEST_SHOWN].decode(errors="replace")
        raise status.invalid("", "", "", [invalid("patch", shown, problem)])


def yaml_lines(findings: list[str]) -> str:
    return "yaml: unmarshal errors:" + "".join(f"\n  {line}" for line in findings)


def _told(call: Call, findings: list[str]) -> str:
    """Say to the client what a strict reader found: as warnings, or by the refusal that this returns."""
    if call.field_validation != "Strict":
        call.warnings.extend([*call.repeated_keys, *findings])
        return ""
    if call.repeated_keys:
        findings = [yaml_lines(call.repeated_keys), *findings]
    return f"strict decoding error: {', '.join(findings)}" if findings else ""


def _unknown(paths: list[str]) -> list[str]:
    return [f'unknown field "{path}"' for path in paths]


def _taken(obj: Object, call: Call, *, applied: bool = False) -> walk.Taken:
    kind = call.kind
    reset = _resets_managers(obj)
    errors = kind.strategy.raw_errors(obj)
    if errors:
        raise status.invalid(kind.resource.kind, kind.resource.group, _name(obj), errors)
    taken = walk.take_in(obj, kind.node, keep_empty=applied)
    if taken.type_errors and kind.resource.custom and not taken.undecodable:
        raise status.invalid(kind.resource.kind, kind.resource.group, _name(obj), taken.type_errors)
    if reset and not taken.type_errors:
        # An empty list is the same as none to the schema; here it means: forget who owns what.
        obj["metadata"]["managedFields"] = [{}]
    return taken


def _listed(errors: FieldErrors) -> str:
    return "; ".join(str(error) for error in errors)


def _resets_managers(obj: Object) -> bool:
    metadata = obj.get("metadata")
    return isinstance(metadata, dict) and metadata.get("managedFields") == []


def _name(obj: Object) -> str:
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else ""
    return name if isinstance(name, str) else ""


BODY_SECONDS = 60.0
"""How long a client may take to send the body of a request."""

TAKE_SECONDS = 60.0
"""How long a client may take for one piece of a long list; then it is taken for gone."""


async def read(request: web.BaseRequest) -> bytes:
    """The whole body of a request."""
    if request.content_length is not None and request.content_length > MAX_BYTES:
        raise _too_large()
    pieces, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.content.iter_any():
                pieces.append(piece)
                size += len(piece)
                if size > MAX_BYTES:
                    raise _too_large()
    except TimeoutError:
        raise GatewayTimeout(f"the body of the request did not come within {BODY_SECONDS:g} s") from None
    return b"".join(pieces)


def _too_large() -> TooLarge:
    return TooLarge(f"the body of the request is larger than the limit of {MAX_BYTES} bytes")


async def send(response: web.StreamResponse, *pieces: bytes) -> None:
    """Pieces of a long answer, or its end; ConnectionResetError when the client does not take them."""
    try:
        async with asyncio.timeout(TAKE_SECONDS):
            for piece in pieces:
                await response.write(piece)
            if not pieces:
                await response.write_eof()
    except TimeoutError:
        raise ConnectionResetError("the client does not read the answer") from None
