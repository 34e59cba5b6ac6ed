"""The entries of metadata.managedFields: who they belong to, their order, and how many there may be."""

from __future__ import annotations

import json
from typing import Any, Final

from localpv.api.managed import fieldset
from localpv.api.managed.fieldset import FieldSet
from localpv.api.objects import Object

Entry = dict[str, Any]

MOST_UPDATERS: Final = 10
"""Entries of ordinary writes that one object keeps; beyond that the oldest become one."""

_ANCIENT: Final = "ancient-changes"

_TEXT: Final = ("manager", "operation", "apiVersion", "time", "fieldsType", "subresource")


class NotManagedFields(ValueError):
    """A client sent managedFields that cannot be read."""


def of(obj: Object) -> list[Entry]:
    """The entries of an object as it is stored."""
    entries: list[Entry] | None = (obj.get("metadata") or {}).get("managedFields")
    return entries or []


def are_reset(given: Any) -> bool:
    """Whether a client asks to forget all owners: an empty list, or a list of one empty entry."""
    return isinstance(given, list) and (not given or (len(given) == 1 and not given[0]))


def read(given: Any) -> list[Entry]:
    """Entries that a client sent, checked and put in order."""
    if not isinstance(given, list):
        raise NotManagedFields("managedFields is not a list")
    found: dict[tuple[str, ...], Entry] = {}
    for entry in given:
        if not isinstance(entry, dict) or entry.get("operation") not in ("Apply", "Update"):
            raise NotManagedFields("operation is neither Apply nor Update")
        if not entry.get("apiVersion"):
            raise NotManagedFields("apiVersion is empty")
        if entry.get("fieldsType") != "FieldsV1":
            raise NotManagedFields("fieldsType is not FieldsV1")
        if not all(isinstance(entry.get(field, ""), str) for field in _TEXT):
            raise NotManagedFields("an entry has a field of a wrong type")
        try:
            fields = fieldset.parse(entry.get("fieldsV1") or {})
        except fieldset.NotAFieldSet as error:
            raise NotManagedFields(str(error)) from error
        found[identity(entry)] = made(
            entry.get("manager", ""),
            entry["operation"],
            entry["apiVersion"],
            fields,
            time=entry.get("time", ""),
            subresource=entry.get("subresource", ""),
        )
    return list(found.values())


def made(
    manager: str, operation: str, api_version: str, fields: FieldSet, *, time: str = "", subresource: str = ""
) -> Entry:
    """One entry, its fields in the order of the wire."""
    entry: Entry = {"manager": manager, "operation": operation, "apiVersion": api_version}
    if time:
        entry["time"] = time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = fields
    if subresource:
        entry["subresource"] = subresource
    return entry


def identity(entry: Entry) -> tuple[str, ...]:
    """What makes two entries the same. One that applies keeps its entry when it moves to another version."""
    operation = entry["operation"]
    version = "" if operation == "Apply" else entry["apiVersion"]
    return entry.get("manager", ""), operation, version, entry.get("subresource", "")


def label(entry: Entry) -> str:
    """The identity as the text by which Kubernetes sorts managers where time does not decide."""
    manager, operation, version, subresource = identity(entry)
    parts = (("manager", manager), ("operation", operation), ("apiVersion", version), ("subresource", subresource))
    return json.dumps({name: value for name, value in parts if value}, separators=(",", ":"), ensure_ascii=False)


def in_order(entries: list[Entry]) -> list[Entry]:
    """Apply before Update, then the older before the newer."""
    if len(entries) > 1:
        entries.sort(key=_order)
    return entries


def _order(entry: Entry) -> tuple[str, ...]:
    # Times are UTC in whole seconds, so they sort as text.
    return (
        entry["operation"],
        entry.get("time") or "",
        entry.get("manager", ""),
        entry["apiVersion"],
        entry.get("subresource", ""),
    )


def capped(entries: list[Entry]) -> list[Entry]:
    """The entries, with the oldest updaters of each version merged until there are no more than ten."""
    updaters = [entry for entry in entries if entry["operation"] == "Update"]
    surplus = len(updaters) - MOST_UPDATERS
    if surplus <= 0:
        return entries
    updaters.sort(key=lambda entry: (entry.get("time") or "", label(entry)))
    kept = {identity(entry): entry for entry in entries}
    first: dict[str, Entry] = {}
    merged: dict[tuple[str, str, str, str], list[fieldset.FieldSet]] = {}
    for entry in updaters:
        if surplus <= 0:
            break
        version = entry["apiVersion"]
        if version not in first:
            first[version] = entry
            continue
        bucket = (_ANCIENT, "Update", version, "")
        if bucket not in kept:
            kept[bucket] = kept.pop(identity(first[version]))
        merged.setdefault(bucket, [kept[bucket]["fieldsV1"]]).append(entry["fieldsV1"])
        del kept[identity(entry)]
        # The younger of the two times: the bucket is as new as the newest change in it.
        kept[bucket] = made(_ANCIENT, "Update", version, {}, time=entry.get("time", ""))
        surplus -= 1
    for bucket, sets in merged.items():
        kept[bucket]["fieldsV1"] = fieldset.unions(sets)
    return list(kept.values())
