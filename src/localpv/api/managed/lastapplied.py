"""The annotation of client-side `kubectl apply`, where server-side apply meets it.

Only the manager `kubectl` is treated this way: whoever wants to stay clear of it names another one.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from localpv.api import well_known
from localpv.api.managed import check, compare, fieldset
from localpv.api.managed.compare import Ignored
from localpv.api.managed.fieldset import FieldSet
from localpv.api.managed.shape import Shape
from localpv.api.objects import Object

MANAGER: Final = "kubectl"

_MOST_BYTES: Final = 256 * 1024
"""All annotations of an object together, keys and values."""


def _annotation(obj: Object) -> str:
    text = ((obj.get("metadata") or {}).get("annotations") or {}).get(well_known.LAST_APPLIED)
    return text if isinstance(text, str) else ""


def untouched(live: Object, shape: Shape, api_version: str) -> FieldSet:
    """Fields that client-side apply set last and that still have that value: applying them anew is no conflict."""
    text = _annotation(live)
    if not text:
        return {}
    try:
        last: Any = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    if not isinstance(last, dict) or last.get("apiVersion") != api_version or any(check.problems(last, shape)):
        return {}
    fields = fieldset.mentioned(last, shape)
    changed, removed = compare.objects(last, live, shape, Ignored())
    return fieldset.difference(fieldset.difference(fields, changed), removed)


def renew(obj: Object, applied: Object) -> None:
    """When the object carries the annotation, let it tell what was applied now, for a later client-side apply."""
    if not _annotation(obj):
        return
    metadata = dict(applied.get("metadata") or {})
    if "annotations" in metadata:
        kept = {key: value for key, value in (metadata["annotations"] or {}).items() if key != well_known.LAST_APPLIED}
        metadata["annotations"] = kept
    text = json.dumps({**applied, "metadata": metadata}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    text += "\n"
    annotations = obj["metadata"]["annotations"]
    annotations[well_known.LAST_APPLIED] = text
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _MOST_BYTES:
        del annotations[well_known.LAST_APPLIED]
