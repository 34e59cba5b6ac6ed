"""The store: decide writes on the event loop, commit them in groups, then show them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from pathlib import Path

from localpv.engine.store.database import Database, LogRow
from localpv.engine.store.lock import FolderLock
from localpv.engine.store.table import Change, Event, Row, Table, Usage
from localpv.errors import LocalpvError, StoreError, TooManyRequests, Unavailable

log = logging.getLogger(__name__)

MAX_PENDING = 4096
"""Writes that may wait for the disk. When full, further writes are refused with 429 and nothing is queued."""

COMPACT_EVERY = 300.0
"""Seconds between compactions; history older than the previous compaction goes."""

Pending = tuple[Table, Event, "asyncio.Future[Row]"]


class Store:
    """All objects. Everything but the writer thread runs on the event loop."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self._lock = FolderLock(folder)
        self._database = Database(folder / "localpv.db", durable=durable)
        self._tables: dict[str, Table] = {}
        self._uncommitted: dict[tuple[str, str], tuple[int, Row | None]] = {}
        """Newest state of each key that has writes on their way to the disk, with the number of its last write."""
        self.usage = Usage()
        """What the newest state of all objects takes, with the writes that are on their way to the disk."""
        self._next_revision = 1
        self.revision = 0
        """Newest revision that is on disk and visible."""
        self.compacted = 0
        """Watches and lists at this revision or older are refused with 410 Gone."""
        self._last_compaction_mark = 0
        self._last: asyncio.Future[Row] | None = None
        """The newest write of all."""
        self._decided: list[Pending] = []
        """Writes of this turn of the event loop."""
        self._queue: list[Pending] = []
        """Writes for the writer thread to take."""
        self._compact_to = 0
        self._wake = threading.Condition()
        self._stopping = False
        self._failing = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: list[Callable[[str, Event], None]] = []

    # -- opening and closing ---------------------------------------------------------------------------------------

    def open(self) -> None:
        """Take the folder and load what is in it."""
        self._lock.acquire()
        try:
            self._database.open()
            self.compacted = self._database.compacted()
            self.revision = self.compacted
            for revision, prefix, key, change, value in self._database.load():
                table = self.table(prefix)
                event = Event(Change(change), key, Row(revision, value), table.rows.get(key))
                table.apply(event, remember=revision > self.compacted)
                self.usage.add(event)
                self.revision = max(self.revision, revision)
        except BaseException:
            self._database.close()
            self._lock.release()
            raise
        self._next_revision = self.revision + 1
        self._last_compaction_mark = self.revision

    def start(self) -> None:
        """Start to accept writes, on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._write_loop, name="store-writer", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Finish the writes that were accepted, then let go of the folder."""
        self._hand_over(stopping=True)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
            await asyncio.sleep(0)  # the last acknowledgements were handed to this loop
        self._database.close()
        self._lock.release()

    # -- reading ---------------------------------------------------------------------------------------------------

    def table(self, prefix: str) -> Table:
        table = self._tables.get(prefix)
        if table is None:
            table = self._tables[prefix] = Table(prefix)
        return table

    def prefixes(self) -> list[str]:
        return list(self._tables)

    def head(self, prefix: str, key: str) -> Row | None:
        """The newest state, on disk or on its way there: what a write must be decided against."""
        waiting = self._uncommitted.get((prefix, key))
        if waiting is not None:
            return waiting[1]
        return self.table(prefix).rows.get(key)

    def on_event(self, listener: Callable[[str, Event], None]) -> None:
        """Call a function with (prefix, event) for every change that became visible; it must be quick."""
        self._listeners.append(listener)

    def wake_watchers(self) -> None:
        """Let everybody who waits for a change look up, without one."""
        for table in self._tables.values():
            table.wake()

    # -- writing ---------------------------------------------------------------------------------------------------

    def next_revision(self) -> int:
        """The revision that the next `put` or `delete` will have; the object's JSON carries it."""
        return self._next_revision

    def put(self, prefix: str, key: str, value: bytes) -> asyncio.Future[Row]:
        """Create or replace an object; the future completes when it is on disk.

        The caller has read `head` and `next_revision` since it last gave up control, so nothing came in between.
        """
        before = self.head(prefix, key)
        row = Row(self._next_revision, value)
        change = Change.ADDED if before is None else Change.MODIFIED
        return self._enqueue(prefix, Event(change, key, row, before), row)

    def delete(self, prefix: str, key: str, last: bytes) -> asyncio.Future[Row]:
        """Remove an object; `last` is its final state, which watchers get to see."""
        return self._enqueue(
            prefix, Event(Change.DELETED, key, Row(self._next_revision, last), self.head(prefix, key)), None
        )

    def _enqueue(self, prefix: str, event: Event, state: Row | None) -> asyncio.Future[Row]:
        assert self._loop is not None, "start() comes before the first write"
        if self._stopping:
            raise Unavailable("the server is stopping")
        if len(self._queue) + len(self._decided) >= MAX_PENDING:
            raise TooManyRequests("too many writes are waiting for the disk", details={"retryAfterSeconds": 1})
        self._next_revision += 1
        self._uncommitted[(prefix, event.key)] = (event.revision, state)
        self.usage.add(event)
        future: asyncio.Future[Row] = self._loop.create_future()
        if not self._decided:
            # Writes that are decided in the same turn of the loop go to the writer together.
            self._loop.call_soon(self._hand_over)
        self._decided.append((self.table(prefix), event, future))
        self._last = future
        return future

    async def settled(self) -> None:
        """Wait until every write that is decided by now is on disk and visible, or was refused by the disk."""
        if self._uncommitted and self._last is not None:
            await asyncio.wait([self._last])

    def _hand_over(self, *, stopping: bool = False) -> None:
        with self._wake:
            self._queue.extend(self._decided)
            if stopping:
                # Together with the last writes: a writer that is told to stop ends when its queue is empty.
                self._stopping = True
            self._wake.notify()
        self._decided.clear()

    def compact(self, revision: int) -> None:
        """Forget history up to a revision, soon."""
        self.compacted = max(self.compacted, min(revision, self.revision))
        for table in self._tables.values():
            table.forget_until(self.compacted)
        with self._wake:
            self._compact_to = self.compacted
            self._wake.notify()

    async def compact_regularly(self) -> None:
        """Keep between one and two periods of history."""
        while True:
            await asyncio.sleep(COMPACT_EVERY)
            mark, self._last_compaction_mark = self._last_compaction_mark, self.revision
            if mark > self.compacted:
                self.compact(mark)

    # -- the writer thread -----------------------------------------------------------------------------------------

    def _write_loop(self) -> None:
        assert self._loop is not None
        while True:
            with self._wake:
                while self._failing or not (self._queue or self._stopping or self._compact_to):
                    self._wake.wait()
                batch, self._queue = self._queue, []
                compact_to, self._compact_to = self._compact_to, 0
                if not batch and not compact_to:
                    return
            try:
                if batch:
                    self._append(batch)
                if compact_to:
                    self._compact_on_disk(compact_to)
            except RuntimeError:
                return  # the loop is gone, and with it everybody who waited

    def _append(self, batch: list[Pending]) -> None:
        assert self._loop is not None
        try:
            self._database.append([_log_row(table, event) for table, event, _ in batch])
        except Exception as error:
            failure = error if isinstance(error, LocalpvError) else StoreError(f"the database failed: {error!r}")
            with self._wake:
                # Writes decided on top of this batch may be in the queue already: none of them may reach the disk.
                self._failing = True
            self._loop.call_soon_threadsafe(self._failed, batch, failure)
        else:
            self._loop.call_soon_threadsafe(self._committed, batch)

    def _compact_on_disk(self, revision: int) -> None:
        try:
            self._database.compact(revision)
        except LocalpvError as error:
            # The log is longer than it need be, nothing else: the next compaction removes the same rows.
            log.warning("compaction failed revision=%d error=%s", revision, error)

    def _committed(self, batch: list[Pending]) -> None:
        uncommitted = self._uncommitted
        for table, event, future in batch:
            key = (table.prefix, event.key)
            if uncommitted[key][0] == event.revision:
                del uncommitted[key]
            table.apply(event)
            self.revision = event.revision
            for listener in self._listeners:
                listener(table.prefix, event)
            if not future.done():
                future.set_result(event.row)

    def _failed(self, batch: list[Pending], failure: LocalpvError) -> None:
        """Nothing of the batch is on disk, so everything that was decided on top of it fails with it."""
        with self._wake:
            batch = [*batch, *self._queue, *self._decided]
            self._queue.clear()
            self._decided.clear()
            self._uncommitted.clear()
            self._failing = False
            self._wake.notify()
        log.error("writes were refused count=%d error=%s", len(batch), failure)
        for _, event, future in batch:
            self.usage.take_back(event)
            if not future.done():
                future.set_exception(failure)


def _log_row(table: Table, event: Event) -> LogRow:
    return (event.revision, table.prefix, event.key, int(event.change), event.row.value)
