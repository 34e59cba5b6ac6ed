"""Server-side apply: merge what a manager wants into the live object, mind what others own.

It meets the annotation of client-side `kubectl apply` here. Only the manager `kubectl` is treated this way: whoever
wants to stay clear of it names another one.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from localpv import errors
from localpv.api import well_known
from localpv.api.managed import compare, entries, fieldset, merge
from localpv.api.managed import shape as shapes
from localpv.api.managed.compare import Ignored
from localpv.api.managed.entries import Entry
from localpv.api.managed.fieldset import FieldSet
from localpv.api.managed.shape import Kind, Shape
from localpv.api.objects import Object
from localpv.api.schema.duplicates import MOST_FINDINGS
from localpv.api.schema.node import Node, Type

_LONGEST: Final = 330


def conflict_error(contested: Sequence[tuple[Entry, FieldSet]]) -> errors.Conflict:
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
    if not isinstance(last, dict) or last.get("apiVersion") != api_version or any(merge.problems(last, shape)):
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


_BEFORE: Final = "before-first-apply"
"""Owner of everything in an object that nobody kept track of."""


class NotOfSchema(errors.InternalError):
    """The applied configuration cannot be read by the schema. Kubernetes answers 500 here, without a reason."""

    reason = ""


def apply(
    live: Object | None,
    applied: Object,
    node: Node,
    *,
    manager: str,
    force: bool,
    time: str,
    api_version: str,
    subresource: str = "",
    kind: str = "",
    status_subresource: bool = True,
) -> Object:
    """The object as it is to be stored, before defaults; `live` is None when it does not exist yet.

    `applied` is the configuration as it came, neither pruned nor with defaults: those would become the manager's.
    The result shares nothing with the arguments. When it equals `live`, there is nothing to write.
    """
    shape = shapes.root(node)
    check_fits(applied, node, api_version=api_version, kind=kind)
    ignored = compare.put_back(node, subresource, status_subresource=status_subresource)
    before = _owners(live, shape, ignored, time=time, api_version=api_version, subresource=subresource)
    mine = entries.made(manager, "Apply", api_version, {}, subresource=subresource)
    who = entries.identity(mine)
    last = next((entry for entry in before if entries.identity(entry) == who), None)
    others = [entry for entry in before if entry is not last]

    wanted = _without(fieldset.mentioned(applied, shape), ignored)
    merged: Object = merge.merge(live or {}, applied, shape)
    if last is not None:
        owned = wanted
        for entry in others:
            owned = fieldset.union(owned, entry["fieldsV1"])
        merge.abandoned(merged, shape, last=last["fieldsV1"], owned=owned)

    changed, removed = compare.objects(live or {}, merged, shape, ignored, literal=True)
    if not force:
        _refuse_conflicts(live, others, changed, shape, manager=manager, api_version=api_version)
    after = []
    for entry in others:
        left = fieldset.difference(fieldset.difference(entry["fieldsV1"], changed), removed)
        if left:
            after.append(entry if left is entry["fieldsV1"] else {**entry, "fieldsV1": left})

    _tidy(merged, shape)
    if manager == MANAGER:
        renew(merged, applied)
    mine["fieldsV1"] = fieldset.without_identity(wanted)
    if mine["fieldsV1"]:
        same = live is not None and not changed and not removed and compare.same(merged, live)
        after.append(_timed(mine, (last or {}).get("time", "") if same else time))
    metadata = merged.setdefault("metadata", {})
    metadata.pop("managedFields", None)
    if after:
        metadata["managedFields"] = entries.in_order(after)
    return merged


def check_fits(applied: Object, node: Node, *, api_version: str, kind: str = "") -> None:
    """Refuse a configuration that is of another kind, or of which the schema does not know a field."""
    given_version, given_kind = applied.get("apiVersion") or "", applied.get("kind") or ""
    if given_version != api_version or (kind and given_kind != kind):
        group, _, version = given_version.rpartition("/")
        raise errors.BadRequest(f"invalid object type: {group}/{version}, Kind={given_kind}")
    metadata = applied.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    if metadata.get("managedFields") is not None:
        raise errors.BadRequest("metadata.managedFields must be nil")
    found = list(itertools.islice(merge.problems(applied, shapes.root(node)), MOST_FINDINGS))
    if found:
        group, _, version = api_version.rpartition("/")
        name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {group}/{version}, Kind={given_kind}"
        text = found[0] if len(found) == 1 else "errors:\n" + "\n".join(f"  {problem}" for problem in found)
        raise NotOfSchema(f"failed to create typed patch object ({name}): {text}")


def _owners(
    live: Object | None, shape: Shape, ignored: Ignored, *, time: str, api_version: str, subresource: str
) -> list[Entry]:
    if live is None:
        return []
    found = entries.of(live)
    if found:
        return entries.settled(found, shape)
    fields = compare.objects({}, live, shape, ignored).changed
    return [entries.made(_BEFORE, "Update", api_version, fields, time=time, subresource=subresource)] if fields else []


def _without(fields: FieldSet, ignored: Ignored) -> FieldSet:
    names: FieldSet = {"f:" + field: {} for field in ignored.fields}
    if ignored.metadata:
        names["f:metadata"] = {"f:" + field: {} for field in ignored.metadata}
    return fieldset.recursive_difference(fields, names) if names else fields


def _refuse_conflicts(
    live: Object | None, others: list[Entry], changed: FieldSet, shape: Shape, *, manager: str, api_version: str
) -> None:
    contested = [(entry, both) for entry in others if (both := fieldset.intersection(entry["fieldsV1"], changed))]
    if contested and manager == MANAGER and live is not None:
        allowed = untouched(live, shape, api_version)
        contested = [(entry, left) for entry, both in contested if (left := fieldset.difference(both, allowed))]
    if contested:
        raise conflict_error(contested)


def _timed(entry: Entry, time: str) -> Entry:
    manager, operation, _, subresource = entries.identity(entry)
    return entries.made(manager, operation, entry["apiVersion"], entry["fieldsV1"], time=time, subresource=subresource)


def _tidy(value: Any, shape: Shape, *, go: bool = False) -> None:
    """Drop what a Go struct would: what is null or empty is as good as absent there, and would look like a change.

    A null in a custom kind stays: whether it may be there is for its schema to say.
    """
    match shape.kind:
        case Kind.STRUCT | Kind.MAP if isinstance(value, dict):
            go = shape.implied is not None or (go and shape.kind is Kind.MAP)
            for key, child in list(value.items()):
                inner = shape.fields[key]
                if go and child is None and shape.kind is Kind.MAP and inner.node.type is Type.STRING:
                    value[key] = ""
                elif go and (child is None or (inner.bulk and not child and key not in (shape.implied or ()))):
                    del value[key]
                else:
                    _tidy(child, inner, go=go)
        case Kind.KEYED if isinstance(value, list):
            for child in value:
                _tidy(child, shape.item)
