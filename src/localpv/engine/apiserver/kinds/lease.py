"""Leases: who leads, until when."""

from __future__ import annotations

from localpv.api import fields
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds.base import Strategy


class Lease(Strategy):
    generation = False
    allow_create_on_update = True
    unconditional_update = False

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def prepare_for_create(self, obj: Object) -> None:
        _without_coordination(obj)

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        _without_coordination(obj)

    def validate(self, obj: Object) -> FieldErrors:
        spec = obj["spec"]
        errors = []
        if (seconds := spec.get("leaseDurationSeconds")) is not None and seconds <= 0:
            errors.append(fields.invalid("spec.leaseDurationSeconds", seconds, "must be more than 0"))
        if (transitions := spec.get("leaseTransitions")) is not None and transitions < 0:
            errors.append(fields.invalid("spec.leaseTransitions", transitions, "must not be negative"))
        return errors


def _without_coordination(obj: Object) -> None:
    # Coordinated leader election is behind a gate that is off in this version: the fields are dropped, not refused.
    obj["spec"].pop("strategy", None)
    obj["spec"].pop("preferredHolder", None)
