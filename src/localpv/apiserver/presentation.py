"""Objects in the form that the client asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from localpv.api.objects import Object
from localpv.apiserver import tables
from localpv.apiserver.negotiation import Form
from localpv.apiserver.registry import Kind
from localpv.errors import BadRequest

INCLUDE = ("", "None", "Metadata", "Object")


def metadata_only(obj: Object, version: str = "v1") -> Object:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj.get("metadata", {}),
    }


def table(
    kind: Kind, objects: Iterable[Object], form: Form, *, include: str, metadata: Object, columns: bool = True
) -> Object:
    """A Table: what kubectl prints for people."""
    if include not in INCLUDE:
        raise BadRequest(f'the option includeObject takes None, Metadata or Object, not "{include}"')
    rows: list[Any] = []
    for obj in objects:
        row: Object = {"cells": tables.cells(kind, obj)}
        if conditions := tables.conditions(kind, obj):
            row["conditions"] = conditions
        if include == "Object":
            row["object"] = obj
        elif include != "None":
            row["object"] = metadata_only(obj, form.version)
        else:
            row["object"] = None
        rows.append(row)
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
        return table(kind, [obj], form, include=include, metadata={"resourceVersion": version}, columns=columns)
    if form.as_kind:
        return metadata_only(obj, form.version)
    return obj


def many(kind: Kind, objects: Sequence[Object], form: Form, *, include: str, metadata: Object) -> Object:
    """A list that is no list of plain objects."""
    if form.as_kind == "Table":
        return table(kind, objects, form, include=include, metadata=metadata)
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"meta.k8s.io/{form.version}",
        "metadata": metadata,
        "items": [metadata_only(obj, form.version) for obj in objects],
    }
