"""Keeps metadata.managedFields right through create, update and patch."""

from __future__ import annotations

from localpv.api.managed import compare, entries, fieldset
from localpv.api.managed import shape as shapes
from localpv.api.managed.compare import Comparison
from localpv.api.managed.entries import Entry
from localpv.api.objects import Object
from localpv.api.schema.node import Node


def on_update(
    new_obj: Object,
    old_obj: Object | None,
    node: Node,
    *,
    manager: str,
    operation: str = "Update",
    subresource: str = "",
    time: str,
    api_version: str,
    status_subresource: bool = True,
) -> None:
    """Write into `new_obj` who owns what, after a create (`old_obj` is None), an update or a patch.

    To be called when defaults are filled in and before the kind prepares the object: what the server itself puts
    in belongs to nobody. `status_subresource` is False for a custom kind without `/status`, whose status is then a
    field like any other.
    """
    metadata = new_obj.setdefault("metadata", {})
    shape = shapes.root(node)
    before = entries.settled(_owners(metadata, old_obj, subresource), shape)
    if not before and old_obj is not None:
        # Nobody kept track of this object so far, and a change to it is no reason to start.
        metadata.pop("managedFields", None)
        return
    ignored = compare.put_back(node, subresource, status_subresource=status_subresource)
    comparison = compare.objects(old_obj or {}, new_obj, shape, ignored)
    after = _after(before, comparison, manager or "unknown", operation, subresource, time, api_version)
    if after:
        metadata["managedFields"] = after
    else:
        metadata.pop("managedFields", None)


def _owners(metadata: Object, old_obj: Object | None, subresource: str) -> list[Entry]:
    """The entries to start from: those of the stored object, unless the client sent its own."""
    live = entries.of(old_obj) if old_obj is not None else []
    given = metadata.get("managedFields")
    # A client echoes what it read, as a rule. It cannot change owners through a subresource.
    if subresource or given is None or given == live:
        return live
    if entries.are_reset(given):
        return []
    try:
        return entries.read(given) or live
    except entries.NotManagedFields:
        return live


def _after(
    before: list[Entry],
    comparison: Comparison,
    manager: str,
    operation: str,
    subresource: str,
    time: str,
    api_version: str,
) -> list[Entry]:
    after: list[Entry] = []
    if subresource == "scale":
        time = ""  # Kubernetes gives the entries of scaling no time
    mine = entries.made(manager, operation, api_version, comparison.changed, time=time, subresource=subresource)
    who = entries.identity(mine) if before else ()
    for entry in before:
        left = fieldset.difference(fieldset.difference(entry["fieldsV1"], comparison.changed), comparison.removed)
        if not left:
            continue
        if comparison.changed and entries.identity(entry) == who:
            mine["fieldsV1"] = fieldset.union(left, comparison.changed)
        elif left is entry["fieldsV1"]:
            after.append(entry)
        else:
            after.append({**entry, "fieldsV1": left})
    if comparison.changed:
        after.append(mine)
    return entries.in_order(entries.capped(after))


def keep_times(new_obj: Object, old_obj: Object) -> None:
    """Put the old times back when nothing but times in managedFields would change, so that nothing is written.

    To be called last, on the object as it would be stored.
    """
    new, old = entries.of(new_obj), entries.of(old_obj)
    if not new or len(new) != len(old):
        return
    for entry, was in zip(new, old, strict=True):
        if entry is not was and {**entry, "time": ""} != {**was, "time": ""}:
            return
    if {**new_obj, "metadata": None} != {**old_obj, "metadata": None}:
        return
    metadata, was = new_obj["metadata"], old_obj["metadata"]
    if {**metadata, "managedFields": None} == {**was, "managedFields": None}:
        metadata["managedFields"] = was["managedFields"]
