"""The answer to an apply that would take fields from others."""

from __future__ import annotations

import json
from collections.abc import Sequence

from localpv import errors
from localpv.api.managed import entries, fieldset
from localpv.api.managed.entries import Entry
from localpv.api.managed.fieldset import FieldSet


def error(contested: Sequence[tuple[Entry, FieldSet]]) -> errors.Conflict:
    """Names every field that is contested and who owns it."""
    owners = sorted(contested, key=lambda pair: entries.label(pair[0]))
    fields = [
        (_named(entry), [fieldset.shown(path) for path in fieldset.paths(contested_set)])
        for entry, contested_set in owners
    ]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {owner}", "field": path}
        for owner, paths in fields
        for path in paths
    ]
    if len(causes) == 1:
        owner, paths = fields[0]
        message = f"Apply failed with 1 conflict: conflict with {owner}: {paths[0]}"
    else:
        lines = [line for owner, paths in fields for line in (f"conflicts with {owner}:", *(f"- {p}" for p in paths))]
        message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    return errors.Conflict(message, details={"causes": causes})


def _named(entry: Entry) -> str:
    name = json.dumps(entry.get("manager", ""), ensure_ascii=False)
    if subresource := entry.get("subresource"):
        name += f" with subresource {json.dumps(subresource)}"
    if entry["operation"] == "Update":
        name += f" using {entry['apiVersion']}"
    return name
