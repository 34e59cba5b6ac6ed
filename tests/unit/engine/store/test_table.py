"""What the store says its objects take is what they take, whatever happened to the writes."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from pathlib import Path

import msgspec
import pytest

from localpv.engine.apiserver.controllers.garbage_collector import Graph
from localpv.engine.store.store import Store
from localpv.engine.store.table import OBJECT_BYTES, Usage, counted_size, namespace_of
from localpv.errors import StoreFull

KEYS = ["cluster", "a/x", "a/y", "b/x", "b/a/odd"]


def counted(store: Store) -> tuple[int, dict[str, int]]:
    """By looking at every object."""
    namespaces: dict[str, int] = {}
    for prefix in store.prefixes():
        for key in KEYS:
            row = store.head(prefix, key)
            if row is not None:
                taken = OBJECT_BYTES + len(row.value) - len(str(row.revision))
                namespaces[namespace_of(key)] = namespaces.get(namespace_of(key), 0) + taken
    return sum(namespaces.values()), namespaces


def summed(usage: Usage) -> tuple[int, dict[str, int]]:
    return usage.total, {name: usage.of(name) for name in ("", "a", "b") if usage.of(name)}


async def opened(folder: Path) -> Store:
    store = Store(folder, durable=False)
    store.open()
    store.start()
    return store


@pytest.mark.parametrize("seed", range(5))
async def test_the_sums_are_those_of_the_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chance = random.Random(seed)
    store = await opened(tmp_path)
    refused = 0
    for _ in range(60):
        append = store._database.append
        full = chance.random() < 0.3
        if full:

            def no_room(_: object) -> None:
                raise StoreFull("no room")

            monkeypatch.setattr(store._database, "append", no_room)
        waiting = []
        for _ in range(chance.randrange(1, 8)):
            prefix, key = chance.choice(["pods", "nodes"]), chance.choice(KEYS)
            if chance.random() < 0.3 and store.head(prefix, key) is not None:
                waiting.append(store.delete(prefix, key, b"last"))
            else:
                waiting.append(store.put(prefix, key, b"x" * chance.randrange(10, 3000)))
            assert summed(store.usage) == counted(store), "with writes that nobody has acknowledged yet"
            if chance.random() < 0.2:
                await asyncio.sleep(0)
        results = await asyncio.gather(*waiting, return_exceptions=True)
        refused += sum(isinstance(each, StoreFull) for each in results)
        assert summed(store.usage) == counted(store), "after they were acknowledged or refused"
        monkeypatch.setattr(store._database, "append", append)
        if chance.random() < 0.2:
            store.compact(store.revision)
        if chance.random() < 0.1:
            before = summed(store.usage)
            await store.close()
            store = await opened(tmp_path)
            assert summed(store.usage) == before == counted(store), "after a restart"
    assert refused
    for prefix in store.prefixes():
        for key in KEYS:
            if store.head(prefix, key) is not None:
                await store.delete(prefix, key, b"last")
    assert summed(store.usage) == (0, {})
    await store.close()


async def test_a_write_of_the_same_takes_no_more_when_the_revision_has_one_more_digit(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    sizes = set()
    for _ in range(12):
        value = b'{"resourceVersion":"%d"}' % store.next_revision()
        sizes.add(counted_size(await store.put("pods", "a/x", value)))
    assert len(sizes) == 1
    await store.close()


async def test_owners_that_nobody_made_count_with_what_they_take_in_memory(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    names = [f'{{"kind":"None","name":"n","uid":"{number:036}"}}' for number in range(20_000)]
    plain = counted_size(await store.put("pods", "a/x", b"x" * len(",".join(names))))
    graph = Graph()
    tracemalloc.start()
    references = msgspec.json.decode("[" + ",".join(names) + "]")
    before, _ = tracemalloc.get_traced_memory()
    graph.learn(("pods", "a/x"), {"metadata": {"uid": "u", "ownerReferences": references}})
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert counted_size(await store.put("pods", "a/x", ",".join(names).encode())) - plain >= taken / 1.5
    await store.close()
