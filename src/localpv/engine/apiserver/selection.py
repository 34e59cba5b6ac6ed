"""Which objects a list, a watch or a deletecollection is about, and as of which resource version."""

from __future__ import annotations

import asyncio
import json

from localpv.api import fields, selectors
from localpv.api.objects import Object
from localpv.engine.apiserver.call import Call
from localpv.engine.store.store import Store
from localpv.engine.store.table import Row
from localpv.errors import BadRequest, GatewayTimeout

PATIENCE = 3.0
"""Seconds that a read waits for a version that the server has not reached yet."""


class Revisions:
    """Knows what the store has reached."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def parse(self, text: str) -> int | None:
        """None when the client did not say."""
        if not text:
            return None
        if not text.isascii() or not text.isdigit() or len(text) > 20 or int(text) >= 1 << 63:
            problem = fields.invalid("resourceVersion", text[:100], "it must be one that the server gave out")
            raise BadRequest(f"invalid resource version: {problem}")
        return int(text)

    async def reach(self, revision: int | None) -> None:
        """Wait until the store has reached a revision; one that is too far ahead is an error, not a long wait."""
        if revision is None or revision <= self._store.revision:
            return
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while self._store.revision < revision:
            if asyncio.get_running_loop().time() >= deadline:
                raise GatewayTimeout(
                    f"Too large resource version: {revision}, current: {self._store.revision}",
                    details={
                        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                        "retryAfterSeconds": 1,
                    },
                )
            await asyncio.sleep(0.02)


class Selection:
    """Label and field selectors of a call.

    Most objects of a long list do not match, and decoding each just to see that would cost more than all the rest.
    So equality requirements are first looked for as text in the stored JSON, which is compact and written by us:
    an object that matches contains `"key":"value"`. Only objects that pass are decoded and really compared.
    """

    def __init__(self, call: Call) -> None:
        self._kind = call.kind
        self.labels = selectors.parse(call.query.get("labelSelector", ""))
        self.fields = selectors.parse_fields(call.query.get("fieldSelector", ""))
        own = call.kind.resource.selectable_fields
        self.fields.check(("metadata.name", "metadata.namespace", *own), named=not own)
        self.name = self.fields.requires("metadata.name") or ""
        self._needles = [
            f"{json.dumps(key)}:{json.dumps(value)}".encode()
            for key, value in self.labels.equalities()
            if value.isascii()
        ]

    @property
    def everything(self) -> bool:
        return self.labels.empty and self.fields.empty

    def may_match(self, value: bytes) -> bool:
        """False only if the stored JSON certainly does not match."""
        return all(needle in value for needle in self._needles)

    def sift(self, rows: list[tuple[str, Row]]) -> list[tuple[str, Row]]:
        """Those rows that may match; a quick first look at many of them."""
        for needle in self._needles:
            rows = [entry for entry in rows if needle in entry[1].value]
        return rows

    def matches(self, obj: Object) -> bool:
        metadata = obj["metadata"]
        if not self.labels.empty and not self.labels.matches(metadata.get("labels")):
            return False
        if self.fields.empty:
            return True
        values = self._kind.strategy.selectable(obj)
        values["metadata.name"] = metadata.get("name", "")
        values["metadata.namespace"] = metadata.get("namespace", "")
        return self.fields.matches(values)
