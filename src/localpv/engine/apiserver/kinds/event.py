"""Events of both API groups. One event, two spellings: it is stored in the core/v1 form.

`from_core` and `to_core` translate whole objects; the strategies accept either spelling and judge by the rules of
the API group through which the request came.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

from localpv.api import fields, names
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds.base import Strategy

_GROUP = "events.k8s.io/v1"
_CORE_NAME_OF = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_GROUP_NAME_OF = {core: group for group, core in _CORE_NAME_OF.items()}

_SHORT = 128
_NOTE = 1024
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_FIXED = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)


def to_core(obj: Object) -> Object:
    """An events.k8s.io/v1 Event in the core/v1 form; a core one comes back as it is."""
    if obj.get("apiVersion") != _GROUP:
        return obj
    return {**_renamed(obj, _CORE_NAME_OF), "apiVersion": "v1"}


def from_core(obj: Object) -> Object:
    """A stored (core/v1) event as events.k8s.io/v1 shows it."""
    if obj.get("apiVersion") == _GROUP:
        return obj
    return {**_renamed(obj, _GROUP_NAME_OF), "apiVersion": _GROUP}


def _renamed(obj: Object, new: Mapping[str, str]) -> Object:
    return {new.get(key, key): value for key, value in obj.items()}


class CoreEvent(Strategy):
    """core/v1: anything that older clients ever sent is still taken."""

    generation = False
    allow_create_on_update = True

    def default(self, obj: Object) -> None:
        # These are always shown, also when empty.
        grouped = obj.get("apiVersion") == _GROUP
        for key, empty in (
            ("source", {}),
            ("involvedObject", {}),
            ("reportingComponent", ""),
            ("reportingInstance", ""),
        ):
            name = _GROUP_NAME_OF.get(key, key) if grouped else key
            if name not in obj:
                obj[name] = copy(empty)

    def validate(self, obj: Object) -> FieldErrors:
        return _validate(to_core(obj), controller="reportingComponent")

    def validate_name(self, name: str) -> list[str]:
        return names.path_segment(name)

    def selectable(self, obj: Object) -> dict[str, str]:
        event = to_core(obj)
        about = event.get("involvedObject", {})
        controller = event.get("reportingComponent", "")
        values = {f"involvedObject.{key}": about.get(key, "") for key in _REFERENCE}
        values["reason"] = event.get("reason", "")
        values["reportingComponent"] = controller
        values["source"] = event.get("source", {}).get("component") or controller
        values["type"] = event.get("type", "")
        return values


class GroupEvent(CoreEvent):
    """events.k8s.io/v1: the strict rules, and nothing but the series may change."""

    def validate(self, obj: Object) -> FieldErrors:
        return _validate(to_core(obj), controller="reportingController")

    def validate_create(self, obj: Object) -> FieldErrors:
        """What only holds for new events: those written through core/v1 may be updated here all the same."""
        event = to_core(obj)
        errors = _wrong_series(event)
        if not event.get("eventTime"):
            errors.append(fields.required("eventTime"))
        if event.get("type") not in ("Normal", "Warning"):
            errors.append(fields.invalid("type", event.get("type", ""), "must be Normal or Warning"))
        unset = "belongs to the older events and must not be set"
        errors += [
            fields.invalid(key, event[key], unset)
            for key in ("firstTimestamp", "lastTimestamp", "count")
            if event.get(key)
        ]
        source = event.get("source") or {}
        if source.get("component") or source.get("host"):
            errors.append(fields.invalid("source", source, unset))
        return errors

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        event, before = to_core(obj), to_core(old)
        errors = []
        if event.get("series") != before.get("series"):
            errors += _wrong_series(event)
        for key in _FIXED:
            if (event.get(key) or None) != (before.get(key) or None):
                name = "reportingController" if key == "reportingComponent" else key
                errors.append(fields.invalid(name, event.get(key), "field is immutable"))
        return errors

    def validate_name(self, name: str) -> list[str]:
        return names.dns_subdomain(name)

    def selectable(self, obj: Object) -> dict[str, str]:
        event = to_core(obj)
        about = event.get("involvedObject", {})
        values = {f"regarding.{key}": about.get(key, "") for key in _REFERENCE}
        values["reason"] = event.get("reason", "")
        values["reportingController"] = event.get("reportingComponent", "")
        values["type"] = event.get("type", "")
        return values


def _validate(event: Object, *, controller: str) -> FieldErrors:
    """What both groups ask of an event; only one with an eventTime has to be complete."""
    namespace = event["metadata"].get("namespace", "")
    about = event.get("involvedObject", {}).get("namespace", "")
    elsewhere = fields.invalid("involvedObject.namespace", about, "is not the namespace of the event")
    errors: FieldErrors = []
    if not event.get("eventTime"):
        if namespace != about and (about or namespace != "default"):
            errors.append(elsewhere)
        return errors
    if not about and namespace not in ("default", "kube-system"):
        errors.append(elsewhere)
    reporter = event.get("reportingComponent", "")
    if not reporter:
        errors.append(fields.required(controller))
    errors += fields.malformed(controller, reporter, names.qualified_name(reporter))
    for key in ("reportingInstance", "action", "reason"):
        value = event.get(key, "")
        if not value:
            errors.append(fields.required(key))
        if len(value.encode()) > _SHORT:
            errors.append(fields.invalid(key, "", f"may have at most {_SHORT} characters"))
    if len(event.get("message", "").encode()) > _NOTE:
        errors.append(fields.invalid("message", "", f"may have at most {_NOTE} characters"))
    return errors


def _wrong_series(event: Object) -> FieldErrors:
    series = event.get("series")
    if series is None:
        return []
    errors = []
    if series.get("count", 0) < 2:
        errors.append(fields.invalid("series.count", series.get("count", 0), "a series has at least 2 events"))
    if not series.get("lastObservedTime"):
        errors.append(fields.required("series.lastObservedTime"))
    return errors
