"""The store: what is acknowledged is kept, what is not is nowhere to be seen."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localpv.engine.store import database
from localpv.engine.store import store as store_module
from localpv.engine.store import table as table_module
from localpv.engine.store.store import Store
from localpv.engine.store.table import Change, Event, Row, Table
from localpv.errors import StoreDamaged, StoreFull, StoreLocked, TooManyRequests, Unavailable
from localpv.testing.waiting import PATIENCE_SECONDS


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = Store(tmp_path, durable=False)
    opened.open()
    opened.start()
    yield opened
    await opened.close()


async def reopened(folder: Path) -> Store:
    again = Store(folder, durable=False)
    again.open()
    again.start()
    return again


async def test_a_write_is_visible_to_readers_only_once_it_is_acknowledged(store: Store) -> None:
    acknowledged = store.put("pods", "a/x", b"1")
    assert store.head("pods", "a/x") is not None, "the next write must be decided on top of it"
    assert "a/x" not in store.table("pods").rows
    row = await acknowledged
    assert store.table("pods").rows["a/x"] is row
    assert store.revision == row.revision


async def test_objects_and_revisions_survive_closing_and_opening(tmp_path: Path) -> None:
    first = await reopened(tmp_path)
    await first.put("pods", "a/x", b"1")
    await first.put("pods", "a/x", b"2")
    await first.put("pods", "a/y", b"3")
    await first.delete("pods", "a/y", b"4")
    revision = first.revision
    await first.close()

    second = await reopened(tmp_path)
    assert {key: row.value for key, row in second.table("pods").rows.items()} == {"a/x": b"2"}
    assert second.table("pods").rows["a/x"].revision == 2
    assert second.revision == revision
    assert second.next_revision() == revision + 1
    await second.close()


async def test_history_survives_too_so_watches_resume_after_a_restart(tmp_path: Path) -> None:
    first = await reopened(tmp_path)
    await first.put("pods", "a/x", b"1")
    await first.put("pods", "a/x", b"2")
    await first.close()
    second = await reopened(tmp_path)
    events = second.table("pods").events
    assert [(event.change, event.revision) for event in events] == [(Change.ADDED, 1), (Change.MODIFIED, 2)]
    assert events[1].before is not None
    assert events[1].before.value == b"1"
    await second.close()


async def test_compaction_keeps_every_object_and_forgets_only_what_was_superseded(tmp_path: Path) -> None:
    first = await reopened(tmp_path)
    for number in range(5):
        await first.put("pods", "a/x", b"%d" % number)
    await first.put("pods", "a/gone", b"soon")
    await first.delete("pods", "a/gone", b"gone")
    await first.put("pods", "a/y", b"later")
    first.compact(7)
    await first.put("pods", "a/z", b"after")
    assert first.compacted == 7
    assert [event.key for event in first.table("pods").events] == ["a/y", "a/z"]
    await first.close()

    with sqlite3.connect(tmp_path / "localpv.db") as connection:
        rows = connection.execute("SELECT revision, key FROM log ORDER BY revision").fetchall()
    connection.close()
    assert rows == [(5, "a/x"), (8, "a/y"), (9, "a/z")]
    second = await reopened(tmp_path)
    assert sorted(second.table("pods").rows) == ["a/x", "a/y", "a/z"]
    assert second.compacted == 7
    await second.close()


async def test_the_revision_does_not_go_back_when_the_last_change_was_a_deletion_that_is_compacted(
    tmp_path: Path,
) -> None:
    first = await reopened(tmp_path)
    await first.put("pods", "a/x", b"1")
    await first.delete("pods", "a/x", b"2")
    first.compact(2)
    await first.close()
    second = await reopened(tmp_path)
    assert second.next_revision() == 3
    await second.close()


async def test_a_second_process_on_the_folder_is_refused_and_told_who_has_it(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreLocked, match=str(os.getpid())) as refused:
        Store(tmp_path).open()
    assert "--data" in refused.value.hint


async def test_a_full_disk_refuses_the_write_and_everything_decided_on_top_of_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.put("pods", "a/x", b"1")
    append = store._database.append

    def full(rows: object) -> None:
        raise StoreFull("no room", hint="make some")

    monkeypatch.setattr(store._database, "append", full)
    first = store.put("pods", "a/x", b"2")
    second = store.put("pods", "a/x", b"3")
    for waiting in (first, second):
        with pytest.raises(StoreFull):
            await waiting
    assert store.head("pods", "a/x") == store.table("pods").rows["a/x"]
    assert store.table("pods").rows["a/x"].value == b"1"

    monkeypatch.setattr(store._database, "append", append)
    await store.put("pods", "a/x", b"4")
    assert store.table("pods").rows["a/x"].value == b"4"


async def test_a_really_full_file_system_is_told_as_such(tmp_path: Path) -> None:
    store = Store(tmp_path, durable=False)
    store.open()
    store._database._db.execute("PRAGMA max_page_count = 12")
    store.start()
    with pytest.raises(StoreFull, match="no room left"):
        for number in range(100):
            await store.put("pods", f"a/{number}", b"x" * 4096)
    kept = len(store.table("pods").rows)
    await store.close()
    again = await reopened(tmp_path)
    assert len(again.table("pods").rows) == kept
    await again.close()


@pytest.mark.parametrize("damage", [b"this is no database at all, whatever its name says" * 100, b"SQLite format 3\0"])
def test_a_damaged_database_is_refused_and_left_as_it_is(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "localpv.db"
    path.write_bytes(damage)
    with pytest.raises(StoreDamaged) as refused:
        Store(tmp_path).open()
    assert "backup" in refused.value.hint
    assert path.read_bytes() == damage


async def test_pages_damaged_in_the_middle_are_noticed_at_start(tmp_path: Path) -> None:
    first = await reopened(tmp_path)
    for number in range(300):
        await first.put("pods", f"a/{number}", b"x" * 1000)
    await first.close()
    path = tmp_path / "localpv.db"
    content = bytearray(path.read_bytes())
    content[40 * 4096 : 44 * 4096] = b"\xff" * (4 * 4096)
    path.write_bytes(content)
    with pytest.raises(StoreDamaged):
        Store(tmp_path).open()
    assert path.read_bytes() == bytes(content)


async def test_too_many_writes_at_once_are_refused_and_not_queued(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MAX_PENDING", 3)
    monkeypatch.setattr(store, "_failing", True)  # the writer pauses
    waiting = [store.put("pods", f"a/{number}", b"1") for number in range(3)]
    with pytest.raises(TooManyRequests):
        store.put("pods", "a/4", b"1")
    with store._wake:
        store._failing = False
        store._wake.notify()
    await asyncio.gather(*waiting)
    assert len(store.table("pods").rows) == 3


async def test_the_last_of_two_writes_on_their_way_is_what_the_next_is_decided_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = []
    store.on_event(lambda _, event: heads.append((event.row.value, store.head("pods", "a/x"))))
    monkeypatch.setattr(store, "_failing", True)  # the writer pauses
    first, second = store.put("pods", "a/x", b"1"), store.put("pods", "a/x", b"2")
    with store._wake:
        store._failing = False
        store._wake.notify()
    await asyncio.gather(first, second)
    assert [(value, head.value) for value, head in heads if head] == [(b"1", b"2"), (b"2", b"2")]


async def test_nothing_is_kept_of_a_write_but_what_is_on_disk(store: Store) -> None:
    await asyncio.gather(*(store.put("pods", f"a/{number % 3}", b"1") for number in range(9)))
    await store.delete("pods", "a/0", b"1")
    assert store._uncommitted == {}
    await asyncio.wait_for(store.settled(), PATIENCE_SECONDS)


async def test_writes_decided_just_before_the_end_are_kept(tmp_path: Path) -> None:
    first = await reopened(tmp_path)
    waiting = [first.put("pods", f"a/{number}", b"1") for number in range(3)]
    await first.close()
    assert [(await one).revision for one in waiting] == [1, 2, 3]
    with pytest.raises(Unavailable):
        first.put("pods", "a/late", b"1")
    second = await reopened(tmp_path)
    assert sorted(second.table("pods").rows) == ["a/0", "a/1", "a/2"]
    await second.close()


async def test_history_of_the_period_before_last_goes_by_itself(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    periods: asyncio.Queue[None] = asyncio.Queue()
    reached = asyncio.Event()

    async def sleep(_: float) -> None:
        reached.set()
        await periods.get()
        reached.clear()

    async def a_period_passes() -> None:
        reached.clear()
        periods.put_nowait(None)
        await reached.wait()

    await store.put("pods", "a/x", b"1")
    monkeypatch.setattr(store_module.asyncio, "sleep", sleep)
    compacting = asyncio.create_task(store.compact_regularly())
    try:
        await reached.wait()
        await a_period_passes()
        assert store.compacted == 0, "a period of history is kept"
        await store.put("pods", "a/x", b"2")
        await a_period_passes()
        assert store.compacted == 1
        await store.put("pods", "a/x", b"3")
        await a_period_passes()
        assert (store.compacted, [event.revision for event in store.table("pods").events]) == (2, [3])
        compacted: list[int] = []
        monkeypatch.setattr(store, "compact", compacted.append)
        await a_period_passes()
        await a_period_passes()
        assert compacted == [3, 3], "only while there is something to forget"
    finally:
        compacting.cancel()
        monkeypatch.undo()


async def test_history_that_was_compacted_does_not_come_back_with_a_restart(tmp_path: Path) -> None:
    first = await reopened(tmp_path)
    for number in range(3):
        await first.put("pods", f"a/{number}", b"1")
    first.compact(2)
    await first.close()
    second = await reopened(tmp_path)
    assert [event.revision for event in second.table("pods").events] == [3]
    await second.close()


@pytest.mark.parametrize("how", ["append", "compact"])
def test_database_goes_on_after_a_transaction_that_failed(tmp_path: Path, how: str) -> None:
    log = database.Database(tmp_path / "localpv.db", durable=False)
    log.open()
    log.append([(1, "pods", "a/x", 0, b"1")])
    if how == "append":
        with pytest.raises(store_module.StoreError):
            log.append([(2, "pods", "a/y", 0, b"1"), (1, "pods", "a/z", 0, b"1")])
    else:
        log._db.execute("CREATE TRIGGER t BEFORE DELETE ON log BEGIN SELECT RAISE(ABORT, 'no'); END")
        log.append([(2, "pods", "a/x", 1, b"2")])
        with pytest.raises(store_module.StoreError):
            log.compact(2)
        log._db.execute("DROP TRIGGER t")
        assert log.compacted() == 0, "the mark goes with what it is about"
    log.append([(3, "pods", "a/y", 0, b"1")])
    assert [row[0] for row in log.load()] == ([1, 3] if how == "append" else [1, 2, 3])
    log.close()


def test_folder_that_could_not_be_opened_is_let_go(tmp_path: Path) -> None:
    (tmp_path / "localpv.db").write_bytes(b"this is no database")
    stores = [Store(tmp_path), Store(tmp_path)]
    for store in stores:
        with pytest.raises(StoreDamaged):
            store.open()
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    opened = [os.readlink(link) for link in links if os.path.lexists(link)]
    assert [path for path in opened if Path(path).is_relative_to(tmp_path)] == []


async def test_a_database_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    first = await reopened(tmp_path)
    first._database._db.execute(f"PRAGMA user_version = {database.FORMAT + 1}")
    await first.close()
    with pytest.raises(store_module.StoreError, match="format"):
        Store(tmp_path).open()


def put(table: Table, revision: int, key: str, value: bytes = b"") -> None:
    before = table.rows.get(key)
    change = Change.ADDED if before is None else Change.MODIFIED
    table.apply(Event(change, key, Row(revision, value or b"%d" % revision), before))


def delete(table: Table, revision: int, key: str) -> None:
    table.apply(Event(Change.DELETED, key, Row(revision, b"-"), table.rows.get(key)))


KEYS = st.sampled_from(["a/x", "a/y", "a-b/x", "a.b/x", "b/x", "ab/x"])


@settings(max_examples=200)
@given(st.lists(st.tuples(st.booleans(), KEYS), max_size=30))
def test_a_table_is_at_any_revision_what_it_was_then(steps: list[tuple[bool, str]]) -> None:
    table, states = Table("pods"), [dict[str, bytes]()]
    for revision, (keep, key) in enumerate(steps, start=1):
        if keep:
            put(table, revision, key)
        elif key in table.rows:
            delete(table, revision, key)
        states.append({key: row.value for key, row in table.rows.items()})
    for revision, state in enumerate(states):
        past = table.at(revision)
        assert {key: row.value for key, row in past.scan()} == state
        assert past.keys == sorted(state)


@settings(max_examples=200)
@given(st.sets(KEYS), st.sampled_from(["a", "a-b", "b", "ab", "zz"]))
def test_a_scan_of_a_namespace_finds_its_keys_and_no_others(keys: set[str], namespace: str) -> None:
    table = Table("pods")
    for revision, key in enumerate(keys, start=1):
        put(table, revision, key)
    scope = f"{namespace}/"
    assert [key for key, _ in table.scan(scope)] == sorted(key for key in keys if key.startswith(scope))


def test_history_is_bounded_in_events_and_in_bytes() -> None:
    table = Table("pods")
    for revision in range(1, 15_000):
        put(table, revision, f"a/{revision}")
    assert 10_000 <= len(table.events) <= 11_001
    assert table.forgotten == 14_999 - len(table.events)
    assert table.dropped + len(table.events) == 14_999

    big = Table("pods")
    for revision in range(1, 200):
        before = big.rows.get("a/x")
        change = Change.ADDED if before is None else Change.MODIFIED
        big.apply(Event(change, "a/x", Row(revision, b"x" * 1_000_000), before))
    assert sum(len(event.before.value) for event in big.events if event.before) <= 9 << 20


def test_history_that_was_forgotten_leaves_room_for_as_much_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "HISTORY_BYTES", 100)
    table = Table("pods")
    for revision in range(1, 12):
        put(table, revision, "a/x", b"0123456789")
    assert (len(table.events), table.forgotten) == (11, 0), "ten versions were superseded, which is the bound"
    table.forget_until(6)
    assert (len(table.events), table.forgotten, table.dropped) == (5, 6, 6)
    for revision in range(12, 17):
        put(table, revision, "a/x", b"0123456789")
    assert (len(table.events), table.forgotten) == (10, 6)
    put(table, 17, "a/x", b"0123456789")
    assert (len(table.events), table.forgotten, table.dropped) == (6, 11, 11), "the older half makes room"
    table.forget_until(3)
    assert (len(table.events), table.forgotten) == (6, 11), "what is forgotten stays so"


async def test_only_those_who_still_wait_are_told_of_a_change() -> None:
    table = Table("pods")
    waits, gave_up, ended = table.changed(), table.changed(), table.changed()
    table.no_longer_waiting(gave_up)
    ended.cancel()
    table.apply(Event(Change.ADDED, "a/x", Row(1, b"1"), None), remember=False)
    assert not waits.done(), "what is only loaded is no change"
    put(table, 2, "a/y")
    assert waits.done() and not gave_up.done()
    later = table.changed()
    assert not later.done()
    table.wake()
    assert later.done()


def test_a_scan_begins_at_a_key_and_stays_in_its_namespace() -> None:
    table = Table("pods")
    for revision, key in enumerate(("a/x", "a/y", "b/x"), start=1):
        put(table, revision, key)
    assert [key for key, _ in table.scan(start_key="a/y")] == ["a/y", "b/x"]
    assert [key for key, _ in table.scan("a/", start_key="a/y")] == ["a/y"]
    assert [key for key, _ in table.scan("b/", start_key="a/y")] == ["b/x"]
    assert [key for key, _ in table.scan("a/", start_key="b/x")] == []


async def test_only_the_owner_can_read_the_files_also_in_a_folder_that_is_open_to_all(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "localpv.db").touch(mode=0o644)
    store = await reopened(tmp_path)
    await store.put("secrets", "a/x", b"1")
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("localpv.db*")}
    await store.close()
    assert set(modes) == {"localpv.db", "localpv.db-wal", "localpv.db-shm"}
    assert set(modes.values()) == {0o600}


async def test_whoever_was_woken_by_a_change_is_not_kept() -> None:
    table = Table("pods")
    waiting = table.changed()
    table.apply(Event(Change.ADDED, "a", Row(1, b"{}"), None))
    assert waiting.done() and not table._waiting
