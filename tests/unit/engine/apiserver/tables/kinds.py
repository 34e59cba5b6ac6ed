"""Kinds with no more than a table needs of them."""

from __future__ import annotations

from localpv.api.objects import Object
from localpv.api.resources import BUILT_IN, Resource
from localpv.api.schema.node import Node
from localpv.engine.apiserver.kinds.base import Strategy
from localpv.engine.apiserver.registry import Kind


def kind_of(resource: Resource, version_spec: Object | None = None) -> Kind:
    def no_schema() -> Node:
        raise AssertionError("a table needs no schema")

    return Kind(resource=resource, strategy=Strategy(), load_node=no_schema, version_spec=version_spec)


def built_in(group: str, kind: str) -> Kind:
    return kind_of(next(each for each in BUILT_IN if (each.group, each.kind) == (group, kind)))


def custom(**version: object) -> Kind:
    resource = Resource(
        group="example.com", version="v1", kind="Thing", plural="things", namespaced=False, schema="", custom=True
    )
    return kind_of(resource, {"name": "v1", **version})
