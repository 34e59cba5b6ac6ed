"""Field managers and their entries in metadata.managedFields: names, order, how many there may be."""

from __future__ import annotations

import json
from typing import Any, Final

from localpv.api import fields
from localpv.api.fields import FieldErrors
from localpv.api.managed import fieldset
from localpv.api.managed.fieldset import FieldSet
from localpv.api.managed.shape import Kind, Shape
from localpv.api.objects import Object

LONGEST = 128
"""Bytes in the name of a field manager."""


def manager_from_user_agent(user_agent: str) -> str:
    """The manager of a client that names none: its program, as the User-Agent tells."""
    name, size = "", 0
    for char in user_agent.split("/", 1)[0]:
        if not char.isprintable():
            continue
        size += len(char.encode())
        if size > LONGEST:
            break
        name += char
    return name


def name_of(field_manager: str, user_agent: str) -> str:
    """Who writes: the manager that the request names, else the client's program, else `unknown`."""
    return field_manager or manager_from_user_agent(user_agent) or "unknown"


def validate_name(field_manager: str, field: str = "fieldManager") -> FieldErrors:
    """What is wrong with a name."""
    found: FieldErrors = []
    if len(field_manager.encode()) > LONGEST:
        found.append(fields.too_long(field, LONGEST))
    place = 0
    # Of a name that is too long the rest does not matter: each problem repeats it.
    shown = field_manager[:LONGEST]
    for char in shown:
        if not char.isprintable():
            problem = f"invalid character U+{ord(char):04X} (at position {place})"
            found.append(fields.invalid(field, shown, problem))
        place += len(char.encode())
    return found


def validate_patch(field_manager: str, *, force: bool | None, is_apply: bool) -> FieldErrors:
    """What is wrong with the options of a patch, as far as managers go. `force` is None when it was not given."""
    found: FieldErrors = []
    if is_apply and not field_manager:
        found.append(fields.required("fieldManager", "is required for apply patch"))
    if not is_apply and force is not None:
        found.append(fields.forbidden("force", "may not be specified for non-apply patch"))
    return found + validate_name(field_manager)


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


def settled(found: list[Entry], shape: Shape) -> list[Entry]:
    """The entries as they are by the present schema. Kubernetes' own kinds do not change under a running server."""
    if shape.implied is not None:
        return found
    settled = []
    for entry in found:
        fields = _settled(entry["fieldsV1"], shape)
        settled.append(entry if fields is entry["fieldsV1"] else {**entry, "fieldsV1": fields})
    return settled


def _settled(fields: FieldSet, shape: Shape) -> FieldSet:
    if shape.kind is Kind.LEAF:
        return {}
    changed: FieldSet = {}
    for name, below in fields.items():
        if not below:
            continue
        if name.startswith("f:"):
            inner = shape.fields[name[2:]] if shape.kind in (Kind.STRUCT, Kind.MAP) else None
        else:
            inner = shape.item if shape.kind is Kind.KEYED else None
        if inner is not None and (deeper := _settled(below, inner)) is not below:
            changed[name] = deeper
    return {**fields, **changed} if changed else fields
