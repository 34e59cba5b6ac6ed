"""From which nodes a PersistentVolume can be reached: the only place that reads its node affinity.

Since Kubernetes 1.10 this is spec.nodeAffinity.required. Before, it was an annotation that held the JSON of a
NodeAffinity; Kubernetes has long ignored it. Here it still counts, so that volumes written by provisioners of that time
are not taken for reachable from everywhere. Where a volume has both, both must hold, as in Kubernetes 1.10; an
annotation that cannot be understood lets no node have the volume.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from localpv.api import fields, node_selector
from localpv.api.fields import FieldError
from localpv.api.kinds.volumes import NodeSelector, PersistentVolume
from localpv.api.objects import Object

ANNOTATION = "volume.alpha.kubernetes.io/node-affinity"
ANNOTATION_FIELD = f"metadata.annotations[{ANNOTATION}]"


class _Requirement(msgspec.Struct):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _Term(msgspec.Struct, rename="camel"):
    match_expressions: list[_Requirement] | None = None
    match_fields: list[_Requirement] | None = None


class _Selector(msgspec.Struct, rename="camel"):
    node_selector_terms: list[_Term] | None = None


class _NodeAffinity(msgspec.Struct, rename="camel"):
    """As forgiving about what is absent as the Go programs that wrote and read the annotation."""

    required_during_scheduling_ignored_during_execution: _Selector | None = None
    preferred_during_scheduling_ignored_during_execution: list[Any] | None = None


_decode = msgspec.json.Decoder(_NodeAffinity).decode


class VolumeAffinity:
    """The node affinity of a volume, read once and asked about many nodes."""

    __slots__ = ("_compiled", "_required", "readable")

    def __init__(self, *required: NodeSelector, readable: bool = True) -> None:
        self._required = required
        self._compiled = tuple(node_selector.NodeSelector(msgspec.to_builtins(each)) for each in required)
        self.readable = readable
        """False when there is an annotation that nobody understands."""

    @property
    def names_nodes(self) -> bool:
        """Whether the volume is tied to nodes at all."""
        return bool(self._required) or not self.readable

    def matches(self, labels: Mapping[str, str] | None, name: str = "") -> bool:
        """Whether the volume can be used on a node with these labels; without any affinity it can be on every one."""
        return self.readable and all(each.matches(labels, name) for each in self._compiled)

    def values(self, key: str) -> frozenset[str] | None:
        """The values of a label of which a node must have one; None when it need not have that label at all."""
        if not self.readable:
            return frozenset()
        found = [values for each in self._required if (values := _values(each, key)) is not None]
        return frozenset.intersection(*found) if found else None

    def mentioned(self, key: str) -> tuple[str, ...]:
        """The values of a label that any term asks for, in the order in which they are written."""
        named = (
            value
            for each in self._required
            for term in each.node_selector_terms
            for one in term.match_expressions
            if one.key == key and one.operator == "In"
            for value in one.values
        )
        return tuple(dict.fromkeys(named))

    def anchors(self, *, most: int) -> list[tuple[str, str]]:
        """Labels of which a node must have one, with the value, and not more than `most`; none when that is not so."""
        for each in self._required:
            if len(each.node_selector_terms) != 1:
                continue
            for one in each.node_selector_terms[0].match_expressions:
                if one.operator == "In" and 0 < len(one.values) <= most:
                    return [(one.key, value) for value in dict.fromkeys(one.values)]
        return []


def of(volume: PersistentVolume) -> VolumeAffinity:
    """The affinity of a volume, wherever it is written."""
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity is not None else None
    return _read(required, volume.metadata.annotations.get(ANNOTATION, ""))


@lru_cache(maxsize=4096)
def _read(required: NodeSelector | None, text: str) -> VolumeAffinity:
    own = () if required is None else (required,)
    if not text:
        return VolumeAffinity(*own)
    annotated, _ = parse(text)
    if annotated is None:
        return VolumeAffinity(*own, readable=False)
    return VolumeAffinity(*own, msgspec.convert(annotated, NodeSelector))


def _values(selector: NodeSelector, key: str) -> frozenset[str] | None:
    found: set[str] = set()
    for term in selector.node_selector_terms:
        named = [one for one in term.match_expressions if one.key == key and one.operator == "In"]
        if not named:
            return None
        found.update(named[0].values)
    return frozenset(found)


def annotated(volume: Object) -> str:
    """The annotation's text; empty when there is none."""
    annotations: dict[str, str] = (volume.get("metadata") or {}).get("annotations") or {}
    return annotations.get(ANNOTATION, "")


def annotation(terms: list[Object]) -> str:
    """The annotation's text for these terms."""
    return msgspec.json.encode({node_selector.REQUIRED: {"nodeSelectorTerms": terms}}).decode()


def parse(text: str) -> tuple[Object | None, str]:
    """The node selector in an annotation, as spec.nodeAffinity.required would have it; or None and why not."""
    try:
        selector, wrong = _selector(text), list(annotation_errors(text))
    except (msgspec.MsgspecError, TypeError) as error:
        return None, f"it cannot be read: {error}"
    if selector is None:
        return None, f"it has no {node_selector.REQUIRED}"
    return (None, str(wrong[0])) if wrong else (selector, "")


def _selector(text: str) -> Object | None:
    required = _decode(text).required_during_scheduling_ignored_during_execution
    plain: Object | None = None if required is None else _without_nulls(msgspec.to_builtins(required))
    return plain


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value


def field_errors(affinity: Object, path: str) -> Iterator[FieldError]:
    """What is wrong with spec.nodeAffinity."""
    if "required" not in affinity:
        yield fields.required(f"{path}.required", "say from which nodes the volume can be reached")
    else:
        yield from node_selector.validate(affinity["required"], f"{path}.required")


def annotation_errors(text: str) -> Iterator[FieldError]:
    """What is wrong with the annotation."""
    try:
        affinity, required = _decode(text), _selector(text)
    except msgspec.MsgspecError as error:
        yield fields.invalid(ANNOTATION_FIELD, text, f"must be the JSON of a node affinity: {error}")
        return
    if affinity.preferred_during_scheduling_ignored_during_execution:
        why = "a volume cannot prefer nodes: it can be reached from a node or not, so use required"
        yield fields.forbidden(f"{ANNOTATION_FIELD}.{node_selector.PREFERRED}", why)
    if required is None:
        yield fields.required(
            f"{ANNOTATION_FIELD}.{node_selector.REQUIRED}", "say from which nodes the volume can be reached"
        )
    else:
        yield from node_selector.validate(required, f"{ANNOTATION_FIELD}.{node_selector.REQUIRED}")
