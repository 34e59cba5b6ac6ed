"""GET with watch=true: what is there, if asked for, and then every change.

There is no queue for each watcher. All read the same bounded history of the resource, each at its own pace, so a
slow one costs nothing and holds up nobody. One that falls so far behind that the history has moved on gets an
ERROR event with code 410 and lists again, as it would on Kubernetes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

from localpv.api import fields, status, well_known
from localpv.api.objects import Object
from localpv.engine.apiserver import responses
from localpv.engine.apiserver.call import Call
from localpv.engine.apiserver.responses import Form
from localpv.engine.apiserver.selection import Revisions, Selection
from localpv.engine.apiserver.storage import decode, encode
from localpv.engine.store.store import Store
from localpv.engine.store.table import Change, Event, Row
from localpv.errors import Gone
from localpv.runtime.turns import Turn

BOOKMARK_EVERY = 60.0
"""Seconds between bookmarks, for watchers that want them."""

DEFAULT_TIMEOUT = (1800.0, 3600.0)
"""Seconds after which a watch ends by itself; spread out so that clients do not all come back at once."""

BATCH = 500
"""Events put into one write at most."""

CHUNK = 256 << 10
"""Bytes after which what is there is written; a few huge objects must not become one huge piece."""

INITIAL_END = {well_known.INITIAL_EVENTS_END: "true"}


class Watch:
    """One watcher."""

    def __init__(self, call: Call, form: Form, *, store: Store, revisions: Revisions) -> None:
        self._call = call
        self._kind = call.kind
        self._form = form
        self._store = store
        self._revisions = revisions
        self._table = store.table(call.kind.resource.storage_prefix)
        self._selection = Selection(call)
        self._scope = call.kind.scope(call.namespace)
        self._bookmarks = call.flag("allowWatchBookmarks")
        self._start = revisions.parse(call.query.get("resourceVersion", ""))
        self._initial, self._announce_end = self._initial_events()
        seconds = call.number("timeoutSeconds")
        self._seconds = float(seconds) if seconds else random.uniform(*DEFAULT_TIMEOUT)
        self._columns_sent = False
        self._raw = not form.as_kind
        self._check_age()

    def _initial_events(self) -> tuple[bool, bool]:
        """(start with what is there, and say when that is done)."""
        query = self._call.query
        match = query.get("resourceVersionMatch", "")
        if "sendInitialEvents" not in query:
            if match:
                raise status.invalid_options(
                    "ListOptions",
                    fields.forbidden("resourceVersionMatch", "a watch takes it with sendInitialEvents only"),
                )
            return not self._start, False
        if match != "NotOlderThan":
            raise status.invalid_options(
                "ListOptions",
                fields.forbidden("resourceVersionMatch", "sendInitialEvents goes with NotOlderThan and nothing else"),
            )
        if self._call.flag("sendInitialEvents"):
            return True, self._bookmarks
        return False, False

    def _check_age(self) -> None:
        if not self._initial and self._start and self._start < max(self._store.compacted, self._table.forgotten):
            oldest = max(self._store.compacted, self._table.forgotten)
            raise Gone(f"too old resource version: {self._start} ({oldest})")

    async def wait_for_start(self) -> None:
        """A watch from a version that is still to come waits for it a little, as a list does."""
        if self._start and self._initial:
            await self._revisions.reach(self._start)

    async def pieces(self, closing: asyncio.Event) -> AsyncIterator[bytes]:
        """JSON lines, each piece one or more whole events, until the time is up or the server closes."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._seconds
        next_bookmark = loop.time() + min(BOOKMARK_EVERY, max(1.0, self._seconds - 2.0))
        seen = self._store.revision if self._start is None or self._initial else self._start
        position, turn = self._table.position_after(seen), Turn()
        if self._initial:
            async for piece in self._present_state():
                yield piece
        if self._announce_end:
            yield self._bookmark(seen, INITIAL_END)
        while True:
            if position < self._table.dropped:
                gone = Gone(f"too old resource version: {seen} ({self._table.forgotten})")
                yield encode({"type": "ERROR", "object": status.to_status(gone)}) + b"\n"
                return
            if seen > self._store.revision:
                # From a version that is still to come: silent until it has come.
                position = self._table.position_after(self._store.revision)
            first = position - self._table.dropped
            events = self._table.events[first : first + BATCH]
            if events:
                told = bytearray()
                for event in events:
                    position += 1
                    if event.revision > seen:
                        told += self._line(event) or b""
                        seen = event.revision
                    await turn.over()
                    if len(told) >= CHUNK:
                        break
                if told:
                    yield bytes(told)
                continue
            now = loop.time()
            if now >= deadline or closing.is_set():
                return
            if self._bookmarks and now >= next_bookmark:
                next_bookmark = now + BOOKMARK_EVERY
                if seen <= self._store.revision:
                    # Else the watch would go back, and tell what is older than where its client wants to begin.
                    seen = self._store.revision
                    yield self._bookmark(seen, None)
                continue
            await self._wait((min(deadline, next_bookmark) if self._bookmarks else deadline) - now)

    async def _wait(self, seconds: float) -> None:
        changed = self._table.changed()
        try:
            async with asyncio.timeout(seconds):
                await changed
        except TimeoutError:
            pass
        finally:
            self._table.no_longer_waiting(changed)

    async def _present_state(self) -> AsyncIterator[bytes]:
        piece, turn = bytearray(), Turn()
        for _, row in list(self._table.scan(self._scope)):
            await turn.over()
            if self._visible(row):
                piece += self._encode("ADDED", row)
            if len(piece) >= CHUNK:
                yield bytes(piece)
                piece.clear()
        if piece:
            yield bytes(piece)

    def _line(self, event: Event) -> bytes | None:
        """What this watcher is told of a change: who came into sight, changed in sight, or left it."""
        if self._scope and not event.key.startswith(self._scope):
            return None
        if self._selection.everything:
            return self._encode(event.change.name, event.row)
        before = event.before is not None and self._visible(event.before)
        if event.change is Change.DELETED:
            return self._encode("DELETED", event.row) if before else None
        after = self._visible(event.row)
        if after:
            return self._encode("MODIFIED" if before else "ADDED", event.row)
        if before and event.before is not None:
            # It left: shown as it was last seen, at the version of the change that took it out of sight.
            last = decode(event.before.value)
            last["metadata"]["resourceVersion"] = str(event.revision)
            return self._encode("DELETED", Row(event.before.revision, encode(last)))
        return None

    def _visible(self, row: Row) -> bool:
        selection = self._selection
        return selection.everything or (selection.may_match(row.value) and selection.matches(self._kind.read(row)))

    def _encode(self, change: str, row: Row) -> bytes:
        if self._raw and self._kind.is_served_as_stored(row):
            return b'{"type":"%b","object":%b}\n' % (change.encode(), row.value)
        include = self._call.query.get("includeObject", "")
        columns = not self._columns_sent
        self._columns_sent = True
        shown = responses.one(self._kind, self._kind.read(row), self._form, include=include, columns=columns)
        return encode({"type": change, "object": shown}) + b"\n"

    def _bookmark(self, revision: int, annotations: dict[str, str] | None) -> bytes:
        resource = self._kind.resource
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        if annotations:
            metadata["annotations"] = annotations
        obj: Object = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        if self._form.as_kind == "Table":
            obj = responses.table(self._kind, [], self._form, include="None", metadata=metadata, columns=False)
        elif self._form.as_kind:
            obj = responses.metadata_only(obj, self._form.version)
        return encode({"type": "BOOKMARK", "object": obj}) + b"\n"
