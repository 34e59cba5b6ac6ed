"""Objects in the form that the client asked for."""

from __future__ import annotations

from collections.abc import Sequence

from localpv.api.objects import Object
from localpv.engine.apiserver import tables
from localpv.engine.apiserver.negotiation import Form
from localpv.engine.apiserver.registry import Kind
from localpv.errors import BadRequest

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
