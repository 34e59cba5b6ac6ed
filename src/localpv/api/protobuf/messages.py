"""Which fields a message has: generated facts, read when the first binary body comes and decoded message by message."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from localpv.errors import BadRequest, UnsupportedMediaType

MAGIC: Final = b"k8s\x00"
"""The first bytes of every body in this form."""

JSON_SCHEMA: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"

SCALARS: Final = frozenset({"bool", "bytes", "double", "int32", "int64", "string"})

_NAMES: Final = "io.k8s."


class Field:
    """One field of a message. `type` is a scalar, a form that `special` knows, or the name of a message."""

    __slots__ = ("drops_zero", "inline", "is_message", "mapped", "name", "pointer", "repeated", "type")

    def __init__(self, home: str, name: str, kind: str, marks: str = "") -> None:
        self.name = name
        # A capital without dots is a message of the same package.
        self.type = home + kind if kind[0].isupper() else kind
        self.is_message = self.type.startswith(_NAMES)
        self.mapped = "m" in marks
        self.repeated = "r" in marks

        self.inline = "i" in marks
        """JSON shows the fields of this message among those of the message around it."""

        self.pointer = "p" in marks
        """Go knows absent from zero here. Elsewhere it sends zero too, and cannot tell them apart."""

        self.drops_zero = "o" in marks and not self.pointer and not self.repeated and self.type in SCALARS
        """Zero means the same as absent, and JSON leaves it out."""


Message = dict[int, Field]
"""The fields of a message by number, in ascending order."""


class _Facts(msgspec.Struct):
    kinds: dict[str, str]
    messages: dict[str, msgspec.Raw]


def name_of(api_version: str, kind: str) -> str:
    """The message that a kind is, or why there is none."""
    kinds = _facts().kinds
    name = kinds.get(f"{api_version} {kind}") or kinds.get(f"* {kind}")
    if name is not None:
        return name
    if any(known.startswith(f"{api_version} ") for known in kinds):
        raise BadRequest(f'no kind "{kind}" is registered for version "{api_version}"')
    raise UnsupportedMediaType(
        f"only built-in kinds have a binary form, and {kind} in {api_version} is none that this server knows: "
        "send application/json"
    )


@cache
def message(name: str) -> Message:
    facts = msgspec.json.decode(_facts().messages[name], type=dict[int, list[str]])
    home = name.rpartition(".")[0] + "."
    return {number: Field(home, *field) for number, field in facts.items()}


@cache
def _facts() -> _Facts:
    return msgspec.json.decode(Path(__file__).with_name("messages.json").read_bytes(), type=_Facts)
