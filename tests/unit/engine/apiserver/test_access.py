"""What was concluded from an object is forgotten when it changes, and only then."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from localpv.engine.apiserver.access import Access
from localpv.engine.apiserver.auth import lookup


class Concluded:
    """Takes the place of the authorizer and of tokens."""

    def __init__(self) -> None:
        self.told: list[tuple[str, ...]] = []

    def invalidate(self) -> None:
        self.told.append(("rights",))

    def changed(self, prefix: str, namespace: str, name: str) -> None:
        self.told.append((prefix, namespace, name))


@pytest.mark.parametrize(
    ("prefix", "key", "told"),
    [
        *((prefix, "x/y", [("rights",)]) for prefix in sorted(lookup.RBAC_PREFIXES)),
        *((prefix, "x/y", [(prefix, "x", "y")]) for prefix in sorted(lookup.TOKEN_PREFIXES)),
        (lookup.NODES, "node-1", [(lookup.NODES, "", "node-1")]),
        ("configmaps", "x/y", []),
    ],
)
def test_change_is_told_to_whoever_concluded_something_from_it(
    prefix: str, key: str, told: list[tuple[str, ...]]
) -> None:
    concluded: Any = Concluded()
    access = Access(tokens=concluded, objects=concluded, authorizer=concluded)
    event: Any = SimpleNamespace(key=key)
    access.changed(prefix, event)
    assert concluded.told == told
