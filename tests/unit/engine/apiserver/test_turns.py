"""Work on many objects is done in turns: in between, others are served."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from localpv.api.objects import Object
from localpv.engine.apiserver.call import Call
from localpv.engine.apiserver.controllers.worker import Worker
from localpv.engine.apiserver.registry import Kind
from localpv.engine.apiserver.responses import PLAIN, Form
from localpv.engine.apiserver.selection import Revisions
from localpv.engine.apiserver.server import ApiServer, Settings
from localpv.engine.apiserver.verbs import delete, watch
from localpv.engine.apiserver.verbs import list as listing
from localpv.engine.apiserver.verbs.create import create_object
from localpv.engine.apiserver.verbs.delete import Deletion
from localpv.runtime.clock import SystemClock
from localpv.runtime.controller import Controller, Done
from localpv.runtime.queue import WorkQueue
from localpv.testing.waiting import eventually

COUNT = 6000
LONGEST = 0.1
"""Seconds of processor time in one piece. A turn is a tenth of that."""

LARGEST_SHARE = 0.6
"""Of the whole work in a piece that takes longer, on a slow machine: where there are no turns it is all of it."""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    started = ApiServer(Settings(data=tmp_path, port=0, durable=False))
    await started.start()
    kind = _kind(started)
    for first in range(0, COUNT, 500):
        await asyncio.gather(*(_create(started, kind, number) for number in range(first, first + 500)))
    yield started
    await started.stop()


def _kind(server: ApiServer) -> Kind:
    kind = server.kinds.find("", "v1", "configmaps")
    assert kind is not None
    return kind


async def _create(server: ApiServer, kind: Kind, number: int) -> None:
    obj: Object = {"apiVersion": "v1", "kind": "ConfigMap", "data": {f"key{n}": "x" * 20 for n in range(30)}}
    obj["metadata"] = {"name": f"c{number:05}", "labels": {"a": "b"}}
    await create_object(Call(kind=kind, namespace="default"), obj, storage=server.storage)


async def _assert_in_turns(work: Callable[[], Awaitable[object]], longest_allowed: float = LONGEST) -> None:
    """Fail when a piece of the work between two turns of somebody else takes too much processor time."""
    longest, busy = 0.0, True
    gc.collect()  # what earlier tests of this process left is not the work that is measured
    gc.disable()

    async def others() -> None:
        nonlocal longest
        before = time.thread_time()
        while busy:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, before = max(longest, now - before), now

    began, waiting = time.thread_time(), asyncio.create_task(others())
    await asyncio.sleep(0)
    try:
        await work()
    finally:
        gc.enable()
        busy = False
        await waiting
    assert longest < max(longest_allowed, LARGEST_SHARE * (time.thread_time() - began))


async def _list(server: ApiServer, form: Form, **query: str) -> int:
    call = Call(kind=_kind(server), namespace="default", query=query)
    page = await listing.select(call, store=server.store, revisions=Revisions(server.store))
    return sum([len(piece) async for piece in listing.body(page, call, form)])


async def test_long_lists_are_made_in_turns(server: ApiServer) -> None:
    await _assert_in_turns(lambda: _list(server, PLAIN))
    await _assert_in_turns(lambda: _list(server, PLAIN, labelSelector="a=b"))
    await _assert_in_turns(lambda: _list(server, Form("Table")))
    await _assert_in_turns(lambda: _list(server, Form("PartialObjectMetadataList")))


@pytest.mark.parametrize("start", ["0", "1"])
async def test_watches_catch_up_in_turns(server: ApiServer, start: str) -> None:
    query = {"resourceVersion": start, "timeoutSeconds": "1", "labelSelector": "a in (b)"}
    call = Call(kind=_kind(server), namespace="default", query=query)
    watching = watch.Watch(call, Form("Table"), store=server.store, revisions=Revisions(server.store))
    closing = asyncio.Event()
    closing.set()
    pieces: list[bytes] = []

    async def catch_up() -> None:
        pieces.extend([piece async for piece in watching.pieces(closing)])

    await _assert_in_turns(catch_up)
    assert sum(piece.count(b'{"type":"ADDED"') for piece in pieces) == COUNT
    assert max(len(piece) for piece in pieces) < 2 * watch.CHUNK


async def test_collections_are_deleted_in_turns(server: ApiServer) -> None:
    call = Call(kind=_kind(server), namespace="default", dry_run=True)

    async def clear() -> None:
        revisions = Revisions(server.store)
        await delete.delete_collection(call, Deletion(), storage=server.storage, revisions=revisions)

    await _assert_in_turns(clear, 2 * LONGEST)  # 500 are decided in one go


async def test_workers_that_find_nothing_to_do_let_others_in() -> None:
    def idle() -> None:
        sum(range(2000))

    async def look(key: int) -> bool:
        idle()
        return False

    async def reconcile(key: int) -> Done:
        idle()
        return Done()

    worker: Worker[int] = Worker("idle", look)
    queue: WorkQueue[int] = WorkQueue(clock=SystemClock())
    controller = Controller("idle", reconcile, queue=queue, clock=SystemClock())
    for run, add, waiting in (
        (worker.run, worker.add, lambda: worker._keys),
        (controller.run, queue.add, lambda: len(queue)),
    ):
        for key in range(10_000):
            add(key)
        task = asyncio.create_task(run())

        async def done(waiting: Callable[[], object] = waiting) -> None:
            await eventually(lambda: not waiting(), what="all keys were looked at")

        await _assert_in_turns(done)
        task.cancel()
