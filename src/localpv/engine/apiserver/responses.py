"""Answers: objects in the form that the client asked for, with what HTTP carries: headers, warnings, Status, YAML."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from aiohttp import web

from localpv.api import media_types, status
from localpv.api.objects import Object, new_uid
from localpv.engine.apiserver import tables
from localpv.engine.apiserver.call import Call
from localpv.engine.apiserver.registry import Kind
from localpv.engine.apiserver.storage import encode
from localpv.errors import ApiError, BadRequest, NotAcceptable


@dataclass(frozen=True, slots=True)
class Form:
    """`as_kind` is empty for objects as they are, else Table, PartialObjectMetadata or PartialObjectMetadataList."""

    as_kind: str = ""
    version: str = "v1"
    yaml: bool = False

    @property
    def content_type(self) -> str:
        return "application/yaml" if self.yaml else media_types.JSON


PLAIN = Form()
_YAML = Form(yaml=True)
_TRANSFORMS = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
_PLAIN_RANGES = frozenset({media_types.JSON, "*/*", "application/*", "text/*", ""})


def asked_form(accept: str, *, tables: bool = True) -> Form:
    """The first form of an Accept header that this server speaks; not everything can be shown as a table."""
    if accept in _PLAIN_RANGES:
        return PLAIN
    for part in accept.split(","):
        media, *parameters = (piece.strip() for piece in part.split(";"))
        media = media.lower()
        options = dict(parameter.partition("=")[::2] for parameter in parameters)
        if media in _PLAIN_RANGES:
            wanted = options.get("as", "")
            if not wanted:
                return PLAIN
            if wanted == "Table" and not tables:
                continue
            if wanted in _TRANSFORMS and options.get("g") == "meta.k8s.io" and options.get("v") in ("v1", "v1beta1"):
                return Form(wanted, options["v"])
        elif media == "application/yaml":
            return _YAML
    raise NotAcceptable(
        "only the following media types are accepted: application/json, application/yaml",
    )


INCLUDE = ("", "None", "Metadata", "Object")


def metadata_only(obj: Object, version: str = "v1") -> Object:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj.get("metadata", {}),
    }


def item(kind: Kind, obj: Object, form: Form, *, include: str) -> Object:
    """One entry of a list that is no list of plain objects: a row of a Table, or the metadata."""
    if form.as_kind != "Table":
        return metadata_only(obj, form.version)
    row: Object = {"cells": tables.cells(kind, obj)}
    if conditions := tables.conditions(kind, obj):
        row["conditions"] = conditions
    if include == "Object":
        row["object"] = obj
    elif include != "None":
        row["object"] = metadata_only(obj, form.version)
    else:
        row["object"] = None
    return row


def table(
    kind: Kind, rows: Sequence[Object], form: Form, *, include: str, metadata: Object, columns: bool = True
) -> Object:
    """A Table: what kubectl prints for people."""
    if include not in INCLUDE:
        raise BadRequest(f'the option includeObject takes None, Metadata or Object, not "{include}"')
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{form.version}",
        "metadata": metadata,
        "columnDefinitions": tables.columns(kind) if columns else None,
        "rows": rows,
    }


def one(kind: Kind, obj: Object, form: Form, *, include: str = "", columns: bool = True) -> Object:
    """A single object, for get and for the events of a watch."""
    if form.as_kind == "Table":
        version = obj.get("metadata", {}).get("resourceVersion", "")
        rows = [item(kind, obj, form, include=include)]
        return table(kind, rows, form, include=include, metadata={"resourceVersion": version}, columns=columns)
    if form.as_kind:
        return metadata_only(obj, form.version)
    return obj


def many(kind: Kind, items: Sequence[Object], form: Form, *, include: str, metadata: Object) -> Object:
    """A list that is no list of plain objects."""
    if form.as_kind == "Table":
        return table(kind, items, form, include=include, metadata=metadata)
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"meta.k8s.io/{form.version}",
        "metadata": metadata,
        "items": items,
    }


_PROCESS, _COUNT = new_uid()[:23], itertools.count(1)
MAX_WARNINGS = 100
"""More than a client would read, and less than would make a header that it refuses."""

AnyResponse = TypeVar("AnyResponse", bound=web.StreamResponse)


def warned(call: Call, response: AnyResponse) -> AnyResponse:
    for warning in call.warnings[:MAX_WARNINGS]:
        response.headers.add("Warning", f'299 - "{_quotable(warning)}"')
    return response


def _quotable(text: str) -> str:
    """Fit for a header: names of unknown fields are the client's and may hold anything, line ends included."""
    shown = "".join(char if char.isprintable() else " " for char in text[:256])
    return shown.replace("\\", "\\\\").replace('"', '\\"')


def headers() -> dict[str, str]:
    """What every answer carries; the id is for finding a request in logs of several programs."""
    return {"Cache-Control": "no-cache, private", "Audit-Id": f"{_PROCESS}-{next(_COUNT):x}"}


def failure(error: ApiError) -> web.Response:
    response = web.Response(
        body=encode(status.to_status(error)),
        status=error.code,
        content_type=media_types.JSON,
        headers=headers(),
    )
    if error.retry_after_seconds:
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    return response


def yaml(value: bytes) -> bytes:
    import yaml

    obj: Object = msgspec.json.decode(value)
    text: str = yaml.safe_dump(obj, sort_keys=False)
    return text.encode()
