"""Messages of any sort, filled by chance."""

from __future__ import annotations

import json
from collections.abc import Container
from pathlib import Path
from random import Random
from typing import Any

from localpv.csi import codec

FACTS = json.loads(Path(codec.__file__).with_name("messages.json").read_text())
TEXTS = ("a", "ä", "0", "with space", "x" * 200, "\u20ac/..", "\0")


def a_message(name: str, chosen: Random, *, without: Container[str] = ()) -> dict[str, Any]:
    """About half of the fields of a message."""
    found: dict[str, Any] = {}
    taken: set[str] = set()
    for field, kind, *marks in FACTS["messages"][name].values():
        mark = marks[0] if marks else ""
        if kind in without or chosen.random() < 0.5 or (mark.startswith("o") and mark in taken):
            continue
        taken.add(mark)
        many = range(chosen.randint(1, 3))
        match mark:
            case "m":
                found[field] = {chosen.choice(TEXTS): chosen.choice(TEXTS) for _ in many}
            case "r":
                found[field] = [_value(kind, chosen, without) for _ in many]
            case _:
                found[field] = _value(kind, chosen, without)
    return found


def _value(kind: str, chosen: Random, without: Container[str]) -> Any:
    match kind:
        case "string":
            return chosen.choice(TEXTS)
        case "bool":
            return True
        case "int32":
            return chosen.choice((1, -1, 2**31 - 1, -(2**31)))
        case "int64":
            return chosen.choice((1, -1, 300, 2**63 - 1, -(2**63)))
    if kind in FACTS["enums"]:
        return chosen.choice([name for number, name in FACTS["enums"][kind].items() if number != "0"])
    return a_message(kind, chosen, without=without)
