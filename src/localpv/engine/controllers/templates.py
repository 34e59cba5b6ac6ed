"""From a template to a pod, and how templates are told apart."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import msgspec

from localpv.api import names
from localpv.api.kinds.meta import Kind
from localpv.api.objects import Object
from localpv.engine.controllers import controller_refs

TEMPLATE_HASH = "pod-template-hash"

_HASH_LENGTH = 10
_LONGEST_NAME = 253
_LONGEST_PREFIX = 58
"""What a name that the server completes may begin with: together with five random letters it must be a DNS label."""


def pod(template: Mapping[str, Any], owner: Kind, *, name: str = "") -> Object:
    """A pod as a template describes it, controlled by its owner; the server makes up a name where none is given."""
    meta = template.get("metadata") or {}
    metadata: Object = {
        "namespace": owner.metadata.namespace,
        "generateName": f"{owner.metadata.name[: _LONGEST_PREFIX - 1]}-",
        "labels": dict(meta.get("labels") or {}),
        "annotations": dict(meta.get("annotations") or {}),
        "finalizers": list(meta.get("finalizers") or ()),
        "ownerReferences": [controller_refs.reference(owner)],
    }
    if name:
        metadata["name"] = name
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(template.get("spec") or {})}


def fingerprint(value: object, collisions: int = 0) -> str:
    """A short name for a content: equal contents have the same; another number of collisions gives another one."""
    text = msgspec.json.encode(value, order="deterministic") + (f"/{collisions}".encode() if collisions else b"")
    number = int.from_bytes(hashlib.sha256(text).digest()[:8])
    letters = []
    for _ in range(_HASH_LENGTH):
        number, rest = divmod(number, len(names.GENERATED_ALPHABET))
        letters.append(names.GENERATED_ALPHABET[rest])
    return "".join(letters)


def named(owner: str, suffix: str) -> str:
    """`OWNER-SUFFIX`, as far as it fits."""
    return f"{owner[: _LONGEST_NAME - len(suffix) - 1]}-{suffix}"


def without_hash(template: Mapping[str, Any]) -> Object:
    """A template without the label that a Deployment adds to it."""
    metadata = dict(template.get("metadata") or {})
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != TEMPLATE_HASH}
    metadata.pop("labels", None)
    if labels:
        metadata["labels"] = labels
    return {**template, "metadata": metadata}


def amount(share: int | str, whole: int, *, up: bool) -> int:
    """A number of pods; a percentage is taken of the whole, rounded up or down."""
    if isinstance(share, int):
        return share
    exact = whole * int(share.removesuffix("%")) / 100
    return math.ceil(exact) if up else math.floor(exact)
