"""A CustomResourceDefinition of one of our kinds: its schema from the structs, and the columns of its table."""

from __future__ import annotations

from collections.abc import Sequence

from localpv.api import well_known
from localpv.api.crds import schema
from localpv.api.kinds.meta import Kind
from localpv.api.objects import Object

IN_WIDE_TABLES = 1
"""Priority of columns that only `kubectl get -o wide` shows."""


def define(kind: type[Kind], columns: Sequence[Object]) -> Object:
    """The definition; columns are strings where they say nothing else."""
    resource = kind.resource
    version: Object = {"name": resource.version, "served": True, "storage": True, "subresources": {"status": {}}}
    if resource.selectable_fields:
        version["selectableFields"] = [{"jsonPath": f".{field}"} for field in resource.selectable_fields]
    version["additionalPrinterColumns"] = [{"type": "string", **column} for column in columns]
    version["schema"] = {"openAPIV3Schema": _whole(kind)}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.qualified, "labels": {well_known.APP_NAME: "localpv"}},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {
                "kind": resource.kind,
                "listKind": resource.list_kind,
                "plural": resource.plural,
                "singular": resource.singular,
                "shortNames": list(resource.short_names),
                "categories": list(resource.categories),
            },
            "versions": [version],
        },
    }


def _whole(kind: type[Kind]) -> Object:
    whole = schema.of(kind)
    whole["properties"] = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}} | whole["properties"]
    whole["required"] = ["spec"]
    return whole
