"""Values that many objects have in common are kept once.

Ten thousand volumes name a hundred nodes, a few classes and the same finalizer. Each kind says which of its fields are
like that (`Kind.shared`); keeping their values once takes three quarters off the memory of a cache of volumes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from msgspec import structs

from localpv.api.kinds.meta import Kind

MOST_VALUES = 4096
"""Beyond it all values are forgotten and collected anew: values of objects that are long gone must not pile up."""


class Sharing:
    """Replaces values of objects that were just read by equal ones that were read before."""

    def __init__(self, kind: type[Kind]) -> None:
        holders: dict[tuple[str, ...], list[str]] = {}
        for path in kind.shared:
            *holder, name = path.split(".")
            holders.setdefault(tuple(holder), []).append(name)
        self._plan = tuple((holder, tuple(names)) for holder, names in holders.items())
        self._values: dict[Hashable, Any] = {}

    def share(self, objects: Iterable[Kind]) -> None:
        """Objects are frozen for whoever reads them; nobody has read these yet."""
        values = self._values
        if len(values) > MOST_VALUES:
            values.clear()
        for obj in objects:
            for path, names in self._plan:
                holder: Any = obj
                for name in path:
                    holder = getattr(holder, name)
                for name in names:
                    value = getattr(holder, name)
                    # What is empty or absent is one for all objects already.
                    if not value:
                        continue
                    key = tuple(value.items()) if type(value) is dict else value
                    known = values.setdefault(key, value)
                    if known is not value:
                        structs.force_setattr(holder, name, known)
