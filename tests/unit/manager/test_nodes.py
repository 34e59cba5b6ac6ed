"""One node that may be read but not watched."""

from __future__ import annotations

import asyncio
from typing import Any

from localpv import errors
from localpv.api.kinds.cluster import Node
from localpv.client.client import Client
from localpv.manager import nodes
from localpv.manager.nodes import OneNode
from localpv.testing.api import FakeApi
from localpv.testing.clock import FakeClock, settle

PATH = "/api/v1/nodes/n1"


async def test_node_is_read_until_it_is_there_and_then_again_and_again() -> None:
    api, clock = FakeApi(), FakeClock()
    node = OneNode(Client(api, field_manager="test").objects(Node), "n1", clock=clock)
    heard: list[Any] = []
    node.add_event_handler(lambda old, new: heard.append((bool(old), bool(new))))
    api.failures = [errors.ConnectionLost("cut")]
    task = asyncio.create_task(node.run())
    try:
        await settle()
        assert not node.list()
        await clock.advance(1)
        await node.wait_synced()
        assert node.get("n1") is None, "not registered yet"
        api.put(PATH, {"metadata": {"labels": {"a": "b"}}})
        await clock.advance(2)
        found = node.get("n1")
        assert found is not None and found.metadata.labels == {"a": "b"}
        assert node.get("n2") is None
        api.put(PATH, {"metadata": {"labels": {"a": "c"}}})
        await clock.advance(nodes.LOOK_EVERY_SECONDS)
        assert node.list()[0].metadata.labels == {"a": "c"}
        assert heard[0] == (False, True)
        assert all(request.method == "GET" and "watch" not in request.query for request in api.requests)
    finally:
        task.cancel()
        await asyncio.wait({task})
