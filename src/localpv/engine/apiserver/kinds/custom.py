"""Objects of kinds that a CustomResourceDefinition describes: all rules come from its schema and its subresources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from localpv.api import fields, names
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.api.resources import Resource
from localpv.api.schema import structural, walk
from localpv.api.schema.node import Node
from localpv.engine.apiserver.kinds import workload_common as common
from localpv.engine.apiserver.kinds.base import Strategy, keep_metadata

_MAX_REPLICAS = 2**31 - 1


class CustomStrategy(Strategy):
    """How one version of a custom kind takes part in create and update."""

    unconditional_update = False

    def __init__(self, resource: Resource, version_spec: Object, *, node: Node | None = None) -> None:
        """`version_spec` is the version's entry in spec.versions; `node` is its schema where it is already built."""
        self.node = node or structural.build(version_spec["schema"]["openAPIV3Schema"])
        """The schema, as the walk understands it."""
        self._status_node = self.node.fields.get("status")
        subresources = version_spec.get("subresources", {})
        self._has_status = subresources.get("status") is not None
        self.generation_counts_status = not self._has_status
        self.scale = scale_paths(version_spec)
        """Where the scale subresource finds its numbers; None for kinds without one."""
        self._selectable = [(path, path.split(".")) for path in resource.selectable_fields]

    def default(self, obj: Object) -> None:
        walk.apply_defaults(obj, self.node)

    def prepare_for_create(self, obj: Object) -> None:
        if self._has_status:
            obj.pop("status", None)

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        if self._has_status:
            obj.pop("status", None)
            if "status" in old:
                obj["status"] = old["status"]

    def prepare_for_status_update(self, obj: Object, old: Object) -> None:
        super().prepare_for_status_update(obj, old)
        keep_metadata(obj, old)

    def validate(self, obj: Object) -> FieldErrors:
        errors = walk.check_values(obj, self.node)
        if self.scale is not None:
            errors += _wrong_count(obj, self.scale.spec)
            errors += self._wrong_scale_status(obj)
        return errors

    def validate_status_update(self, obj: Object, old: Object) -> FieldErrors:
        errors: FieldErrors = []
        if self._status_node is not None and "status" in obj:
            errors += walk.check_values(obj["status"], self._status_node, "status")
        return errors + self._wrong_scale_status(obj)

    def _wrong_scale_status(self, obj: Object) -> FieldErrors:
        if self.scale is None:
            return []
        errors = _wrong_count(obj, self.scale.status)
        if self.scale.selector:
            text = common.value_at(obj, self.scale.selector)
            if text is not None and not isinstance(text, str):
                errors.append(fields.invalid(self.scale.selector, text, "must be a selector written as text"))
        return errors

    def selectable(self, obj: Object) -> dict[str, str]:
        return {name: _text(obj, way) for name, way in self._selectable}

    def warnings(self, obj: Object) -> list[str]:
        found = []
        for finalizer in obj["metadata"].get("finalizers", ()):
            where = f'metadata.finalizers: "{finalizer}"'
            found += [f"{where}: {problem}" for problem in names.qualified_name(finalizer)]
            if "/" not in finalizer and finalizer not in names.STANDARD_FINALIZERS:
                found.append(f"{where}: a domain and a slash in front would keep it apart from those of others")
        return found


class BroughtUpToDate:
    """Makes an object that was stored under another schema one of that which its version has now: what is unknown now
    is gone, what has a default now is there. Values that are wrong by now stay; whoever writes them again is refused.

    It is the version in which the object was stored that counts: what only that one knows must not vanish because
    another one is stored from now on. A version that is no more is read as the storage version."""

    def __init__(self, versions: Sequence[Object], storage: str) -> None:
        """`versions` are the entries of spec.versions."""
        self._specs = {version["name"]: version for version in versions}
        self._storage = storage
        self._nodes: dict[str, Node] = {}

    def __call__(self, obj: Object) -> Object:
        version = obj["apiVersion"].rpartition("/")[2]
        if version not in self._specs:
            version = self._storage
        node = self._nodes.get(version)
        if node is None:
            node = self._nodes[version] = structural.build(self._specs[version]["schema"]["openAPIV3Schema"])
        walk.take_in(obj, node)
        walk.apply_defaults(obj, node)
        return obj


def scale_paths(version_spec: Object) -> common.ScalePaths | None:
    scale = version_spec.get("subresources", {}).get("scale")
    if scale is None:
        return None
    return common.ScalePaths(
        spec=scale["specReplicasPath"],
        status=scale["statusReplicasPath"],
        selector=scale.get("labelSelectorPath", ""),
    )


def _wrong_count(obj: Object, path: str) -> FieldErrors:
    number = common.value_at(obj, path)
    if number is None:
        return []
    if not isinstance(number, int) or isinstance(number, bool):
        return [fields.invalid(path, number, "must be an integer")]
    if not 0 <= number <= _MAX_REPLICAS:
        return [fields.invalid(path, number, f"must be between 0 and {_MAX_REPLICAS}")]
    return []


def _text(obj: Object, way: list[str]) -> str:
    value: Any = obj
    for key in way:
        if not isinstance(value, dict):
            return ""
        value = value.get(key)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
