"""The answer to an apply that would take fields from others."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Final

from localpv import errors
from localpv.api.managed import entries, fieldset
from localpv.api.managed.entries import Entry
from localpv.api.managed.fieldset import FieldSet
from localpv.api.schema.duplicates import MOST_FINDINGS

_LONGEST: Final = 330


def error(contested: Sequence[tuple[Entry, FieldSet]]) -> errors.Conflict:
    """Names the fields that are contested and who owns each; of very many the first."""
    owners = sorted(contested, key=lambda pair: entries.label(pair[0]))
    fields = []
    count = 0
    for entry, contested_set in owners:
        every = fieldset.paths(contested_set)
        listed = [_cut(fieldset.shown(path)) for path in itertools.islice(every, max(0, MOST_FINDINGS - count))]
        if listed:
            fields.append((_named(entry), listed))
        count += len(listed) + sum(1 for _ in every)
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {owner}", "field": path}
        for owner, paths in fields
        for path in paths
    ]
    if count == 1:
        owner, paths = fields[0]
        message = f"Apply failed with 1 conflict: conflict with {owner}: {paths[0]}"
    else:
        lines = [line for owner, paths in fields for line in (f"conflicts with {owner}:", *(f"- {p}" for p in paths))]
        message = f"Apply failed with {count} conflicts: " + "\n".join(lines)
    return errors.Conflict(message, details={"causes": causes})


def _named(entry: Entry) -> str:
    name = json.dumps(_cut(entry.get("manager", "")), ensure_ascii=False)
    if subresource := entry.get("subresource"):
        name += f" with subresource {json.dumps(_cut(subresource))}"
    if entry["operation"] == "Update":
        name += f" using {_cut(entry['apiVersion'])}"
    return name


def _cut(text: str) -> str:
    """What is told of a name that a client may have made as long as it likes."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
