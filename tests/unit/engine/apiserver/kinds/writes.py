"""Writes of one built-in kind, with everything that the server does to an object before it is stored."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

from localpv.api import fields
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.api.schema import catalogue, walk
from localpv.api.stored_resources import EVERY
from localpv.engine.apiserver.kinds.base import Strategy

NAMESPACE = "shop"
UID = "8b7f3c1e-0000-4000-8000-000000000001"


@dataclass(frozen=True, slots=True)
class Outcome:
    obj: Object
    errors: FieldErrors

    @property
    def causes(self) -> set[tuple[str, str]]:
        """Field and reason of everything that is wrong, the reason without its common beginning."""
        return {(error.field, error.reason.removeprefix("FieldValue")) for error in self.errors}


@dataclass(frozen=True, slots=True)
class Writes:
    strategy: Strategy
    kind: str
    group: str = ""

    def create(self, obj: Object) -> Outcome:
        new = self._taken_in(obj)
        metadata = new["metadata"]
        metadata.setdefault("name", "thing")
        metadata["uid"] = UID
        self.strategy.default(new)
        self.strategy.prepare_for_create(new)
        name = metadata["name"]
        errors = [fields.invalid("metadata.name", name, problem) for problem in self.strategy.validate_name(name)]
        return Outcome(new, errors + self.strategy.validate(new) + self.strategy.validate_create(new))

    def stored(self, obj: Object) -> Object:
        """What is in the store after a create that went well."""
        outcome = self.create(obj)
        assert not outcome.errors, [str(error) for error in outcome.errors]
        return outcome.obj

    def update(self, old: Object, **change: object) -> Outcome:
        """Change fields by path, written with double underscores: `spec__replicas=3`; None takes a field away."""
        before, new = deepcopy(old), self._taken_in(changed(old, **change))
        self.strategy.default(new)
        self.strategy.prepare_for_update(new, before)
        return Outcome(new, self.strategy.validate(new) + self.strategy.validate_update(new, before))

    def update_status(self, old: Object, **change: object) -> Outcome:
        before, new = deepcopy(old), self._taken_in(changed(old, **change))
        self.strategy.default(new)
        self.strategy.prepare_for_status_update(new, before)
        return Outcome(new, self.strategy.validate_status_update(new, before))

    def _taken_in(self, obj: Object) -> Object:
        [resource] = [entry for entry in EVERY if entry.kind == self.kind and entry.group == self.group]
        new = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}, **deepcopy(obj)}
        taken = walk.take_in(new, catalogue.built_in().node(resource.schema))
        assert not taken.type_errors
        assert not taken.unknown
        if resource.namespaced:
            new["metadata"]["namespace"] = NAMESPACE
        return new


def changed(obj: Object, **change: object) -> Object:
    new = deepcopy(obj)
    for path, value in change.items():
        *way, last = path.split("__")
        place = new
        for key in way:
            place = place.setdefault(key, {})
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
    return new
