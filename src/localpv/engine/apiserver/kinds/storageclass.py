"""StorageClass: a kind of storage that claims can ask for by name."""

from __future__ import annotations

from collections.abc import Iterator

from localpv.api import fields, names
from localpv.api.fields import FieldError, FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import node, rules
from localpv.engine.apiserver.kinds.base import Strategy
from localpv.engine.apiserver.kinds.rules import Field

Errors = Iterator[FieldError]

RECLAIM_POLICIES = ("Delete", "Retain")
BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
MAX_PARAMETERS = 512
MAX_PARAMETERS_BYTES = 256 * 1024
"""Keys and values of all parameters together."""

_PROVISIONER = (Field("provisioner", required=True, form=lambda name: names.qualified_name(name.lower())),)
_POLICIES = (
    Field("reclaimPolicy", enum=RECLAIM_POLICIES, may_be_empty=True),
    Field("volumeBindingMode", enum=BINDING_MODES),
)


class StorageClass(Strategy):
    returns_deleted = True
    generation = False

    def default(self, obj: Object) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def validate(self, obj: Object) -> FieldErrors:
        return list(_errors(obj))

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        return list(_changes(obj, old))

    def warnings(self, obj: Object) -> list[str]:
        return [
            each
            for index, term in enumerate(obj.get("allowedTopologies", ()))
            for place, requirement in enumerate(term.get("matchLabelExpressions", ()))
            for each in node.label_warning(
                requirement.get("key", ""), f"allowedTopologies[{index}].matchLabelExpressions[{place}].key"
            )
        ]


def _errors(obj: Object) -> Errors:
    yield from rules.errors(_PROVISIONER, obj, "")
    yield from wrong_parameters(obj.get("parameters") or {})
    yield from rules.errors(_POLICIES, obj, "")
    yield from _topologies(obj.get("allowedTopologies") or [])


def wrong_parameters(parameters: dict[str, str]) -> Errors:
    if len(parameters) > MAX_PARAMETERS:
        yield fields.too_long("parameters", MAX_PARAMETERS)
        return
    if "" in parameters:
        yield fields.invalid("parameters", "", "a key must not be empty")
    if sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items()) > MAX_PARAMETERS_BYTES:
        yield fields.too_long("parameters", MAX_PARAMETERS_BYTES)


def _topologies(terms: list[Object]) -> Errors:
    # A term without requirements counts as a repetition, even the first one.
    seen: set[frozenset[tuple[str, frozenset[str]]]] = {frozenset()}
    for index, term in enumerate(terms):
        path = f"allowedTopologies[{index}].matchLabelExpressions"
        values_by_key: dict[str, frozenset[str]] = {}
        for place, requirement in enumerate(term.get("matchLabelExpressions") or ()):
            key, values = requirement.get("key", ""), requirement.get("values") or []
            if not values:
                yield fields.required(f"{path}[{place}].values")
            for position in sorted(fields.repeated(values)):
                yield fields.duplicate(f"{path}[{place}].values[{position}]", values[position])
            yield from fields.malformed(f"{path}[{place}].key", key, names.qualified_name(key))
            if key in values_by_key:
                yield fields.duplicate(f"{path}[{place}].key", key)
            values_by_key[key] = frozenset(values)
        whole = frozenset(values_by_key.items())
        if whole in seen:
            yield fields.duplicate(path, "")
        seen.add(whole)


def _changes(obj: Object, old: Object) -> Errors:
    for name in ("parameters", "provisioner", "reclaimPolicy"):
        if (obj.get(name) or None) != (old.get(name) or None):
            yield fields.forbidden(
                name, "cannot change: volumes have been made by it; delete the class and make it anew"
            )
    if obj["volumeBindingMode"] != old.get("volumeBindingMode"):
        yield fields.invalid("volumeBindingMode", obj["volumeBindingMode"], "field is immutable")
