"""Owners from before a schema changed: what became atomic is owned as a whole by everyone who owned a part of it."""

from __future__ import annotations

from localpv.api.managed.entries import Entry
from localpv.api.managed.fieldset import FieldSet
from localpv.api.managed.shape import Kind, Shape


def entries(found: list[Entry], shape: Shape) -> list[Entry]:
    """The entries as they are by the present schema. Kubernetes' own kinds do not change under a running server."""
    if shape.implied is not None:
        return found
    settled = []
    for entry in found:
        fields = _settled(entry["fieldsV1"], shape)
        settled.append(entry if fields is entry["fieldsV1"] else {**entry, "fieldsV1": fields})
    return settled


def _settled(fields: FieldSet, shape: Shape) -> FieldSet:
    if shape.kind is Kind.LEAF:
        return {}
    changed: FieldSet = {}
    for name, below in fields.items():
        if not below:
            continue
        if name.startswith("f:"):
            inner = shape.fields[name[2:]] if shape.kind in (Kind.STRUCT, Kind.MAP) else None
        else:
            inner = shape.item if shape.kind is Kind.KEYED else None
        if inner is not None and (deeper := _settled(below, inner)) is not below:
            changed[name] = deeper
    return {**fields, **changed} if changed else fields
