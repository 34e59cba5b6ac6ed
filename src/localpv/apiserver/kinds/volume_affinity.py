"""From which nodes a PersistentVolume can be reached.

Since Kubernetes 1.10 this is spec.nodeAffinity.required. Before, it was an annotation that held the JSON of a
NodeAffinity; Kubernetes has long ignored it. The embedded engine still reads it, so that volumes written
by provisioners of that time are neither refused nor taken for reachable from everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from localpv.api import fields, node_selector
from localpv.api.fields import FieldError
from localpv.api.objects import Object

Errors = Iterator[FieldError]

ANNOTATION = "volume.alpha.kubernetes.io/node-affinity"
ANNOTATION_FIELD = f"metadata.annotations[{ANNOTATION}]"

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class _Requirement(msgspec.Struct):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _Term(msgspec.Struct):
    matchExpressions: list[_Requirement] | None = None
    matchFields: list[_Requirement] | None = None


class _Selector(msgspec.Struct):
    nodeSelectorTerms: list[_Term] | None = None


class _NodeAffinity(msgspec.Struct):
    requiredDuringSchedulingIgnoredDuringExecution: _Selector | None = None
    preferredDuringSchedulingIgnoredDuringExecution: list[Any] | None = None


_decode = msgspec.json.Decoder(_NodeAffinity).decode


def annotated(volume: Object) -> str:
    """The annotation's text; empty when there is none."""
    annotations: dict[str, str] = volume.get("metadata", {}).get("annotations") or {}
    return annotations.get(ANNOTATION, "")


def selector(volume: Object) -> Object | None:
    """The node selector that a volume is tied to, wherever it is written; None means every node.

    For volumes that the server has accepted: an annotation that does not parse counts as absent.
    """
    affinity: Object = volume.get("spec", {}).get("nodeAffinity") or {}
    if found := affinity.get("required"):
        return dict(found)
    text = annotated(volume)
    if not text:
        return None
    try:
        return _required_of(_decode(text))
    except msgspec.MsgspecError:
        return None


def _required_of(affinity: _NodeAffinity) -> Object | None:
    required = affinity.requiredDuringSchedulingIgnoredDuringExecution
    if required is None:
        return None
    plain: Object = _without_nulls(msgspec.to_builtins(required))
    return plain


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value


def field_errors(affinity: Object, path: str) -> Errors:
    """What is wrong with spec.nodeAffinity."""
    if "required" not in affinity:
        yield fields.required(f"{path}.required", "say from which nodes the volume can be reached")
    else:
        yield from node_selector.validate(affinity["required"], f"{path}.required")


def annotation_errors(text: str) -> Errors:
    """What is wrong with the annotation."""
    try:
        affinity = _decode(text)
    except msgspec.MsgspecError as error:
        yield fields.invalid(ANNOTATION_FIELD, text, f"must be the JSON of a node affinity: {error}")
        return
    if affinity.preferredDuringSchedulingIgnoredDuringExecution:
        why = "a volume cannot prefer nodes: it can be reached from a node or not, so use required"
        yield fields.forbidden(f"{ANNOTATION_FIELD}.{_PREFERRED}", why)
    required = _required_of(affinity)
    if required is None:
        yield fields.required(f"{ANNOTATION_FIELD}.{_REQUIRED}", "say from which nodes the volume can be reached")
    else:
        yield from node_selector.validate(required, f"{ANNOTATION_FIELD}.{_REQUIRED}")
