"""ControllerRevisions: what the template of a StatefulSet or DaemonSet was at some time."""

from __future__ import annotations

from localpv.api import fields
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds.base import Strategy


class ControllerRevision(Strategy):
    generation = False

    def validate(self, obj: Object) -> FieldErrors:
        revision = obj.get("revision", 0)
        return [] if revision >= 0 else [fields.invalid("revision", revision, "must be greater than or equal to 0")]

    def validate_create(self, obj: Object) -> FieldErrors:
        data = obj.get("data")
        if data is None:
            return [fields.required("data")]
        return [] if isinstance(data, dict) else [fields.required("data", "must be an object")]

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        if obj.get("data") == old.get("data"):
            return []
        return [fields.invalid("data", obj.get("data"), "field is immutable")]
