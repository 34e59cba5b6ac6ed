"""Namespaces: they carry a label with their own name, and a finalizer that holds them until they are empty."""

from __future__ import annotations

from localpv.api import fields, names, well_known
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds.base import Strategy


class Namespace(Strategy):
    generation = False
    returns_deleted = True

    def default(self, obj: Object) -> None:
        _label(obj)
        status = obj.setdefault("status", {})
        if not status.get("phase"):
            status["phase"] = "Active"

    def prepare_for_create(self, obj: Object) -> None:
        # A generated name is only known now.
        _label(obj)
        obj["status"] = {"phase": "Active"}
        finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
        if well_known.NAMESPACE_FINALIZER not in finalizers:
            finalizers.append(well_known.NAMESPACE_FINALIZER)

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        obj["spec"] = old.get("spec", {})
        obj["status"] = old["status"]

    def begin_deletion(self, obj: Object) -> None:
        obj["status"] = {**obj["status"], "phase": "Terminating"}

    def prepare_for_finalize(self, obj: Object, old: Object) -> None:
        """The finalize subresource changes spec.finalizers and leaves the status alone."""
        obj["status"] = old["status"]

    def validate(self, obj: Object) -> FieldErrors:
        finalizers = obj.get("spec", {}).get("finalizers", ())
        return [error for name in finalizers for error in _wrong_finalizer("spec.finalizers", name)]

    def validate_finalize(self, obj: Object, old: Object) -> FieldErrors:
        finalizers = obj.get("spec", {}).get("finalizers", ())
        return [
            error
            for index, name in enumerate(finalizers)
            for error in _wrong_finalizer(f"spec.finalizers[{index}]", name)
        ]

    def validate_status_update(self, obj: Object, old: Object) -> FieldErrors:
        phase = obj.get("status", {}).get("phase", "")
        expected = "Terminating" if obj["metadata"].get("deletionTimestamp") else "Active"
        if phase == expected:
            return []
        # The capital letter is part of the API's answer.
        return [fields.invalid("status.Phase", phase, f"the only phase possible now is {expected}")]

    def validate_name(self, name: str) -> list[str]:
        return names.dns_label(name)

    def selectable(self, obj: Object) -> dict[str, str]:
        return {"status.phase": obj.get("status", {}).get("phase", ""), "name": obj["metadata"].get("name", "")}


def _label(obj: Object) -> None:
    metadata = obj.setdefault("metadata", {})
    if name := metadata.get("name"):
        metadata.setdefault("labels", {})[well_known.NAMESPACE_NAME] = name


def _wrong_finalizer(path: str, name: str) -> FieldErrors:
    errors = fields.malformed(path, name, names.qualified_name(name))
    if "/" not in name and name not in names.STANDARD_FINALIZERS:
        errors.append(
            fields.invalid(path, name, "needs a domain and a slash in front, or be a finalizer of Kubernetes")
        )
    return errors
