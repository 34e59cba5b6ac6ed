"""Versions that the server has forgotten are 410 Gone, for watches, exact lists and later pages alike."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from localpv.engine.apiserver.server import ApiServer, Settings
from localpv.testing.waiting import eventually

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class Client:
    def __init__(self, server: ApiServer, session: aiohttp.ClientSession) -> None:
        self._server, self._session = server, session

    async def call(self, method: str, path: str, body: Any = None, **query: str) -> tuple[int, Any]:
        async with self._session.request(
            method,
            f"{self._server.url}{path}",
            json=body,
            params=query,
            ssl=False,
            headers={"Authorization": f"Bearer {self._server.tokens.admin_token}"},
        ) as response:
            text = await response.text()
            return response.status, [
                json.loads(line) for line in text.splitlines()
            ] if "watch" in query else json.loads(text)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    started = ApiServer(Settings(data=tmp_path, port=0, durable=False))
    await started.start()
    yield started
    await started.stop()


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession() as session:
        yield Client(server, session)


async def _fill(client: Client, count: int = 5) -> str:
    version = ""
    for number in range(count):
        _, made = await client.call("POST", CONFIG_MAPS, {"metadata": {"name": f"c{number}"}})
        version = version or made["metadata"]["resourceVersion"]
    return version


async def test_watch_from_a_compacted_version_is_gone(server: ApiServer, client: Client) -> None:
    version = await _fill(client)
    server.store.compact(server.store.revision)
    code, answer = await client.call("GET", CONFIG_MAPS, watch="true", resourceVersion=version, timeoutSeconds="1")
    assert (code, answer[0]["reason"]) == (410, "Expired")


async def test_watch_from_the_version_of_a_list_goes_on_after_a_compaction(server: ApiServer, client: Client) -> None:
    await _fill(client)
    _, listed = await client.call("GET", CONFIG_MAPS)
    server.store.compact(server.store.revision)
    version = listed["metadata"]["resourceVersion"]
    await client.call("POST", CONFIG_MAPS, {"metadata": {"name": "new"}})
    _, events = await client.call("GET", CONFIG_MAPS, watch="true", resourceVersion=version, timeoutSeconds="1")
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [("ADDED", "new")]


async def test_next_page_of_a_compacted_version_is_gone_and_says_how_to_go_on(
    server: ApiServer, client: Client
) -> None:
    await _fill(client)
    kind = server.kinds.find("", "v1", "configmaps")
    assert kind is not None
    there = server.store.table(kind.resource.storage_prefix).rows
    await eventually(lambda: "default/kube-root-ca.crt" in there, what="the server's certificate is there")
    _, page = await client.call("GET", CONFIG_MAPS, limit="2")
    await client.call("POST", CONFIG_MAPS, {"metadata": {"name": "d"}})
    server.store.compact(server.store.revision)
    code, gone = await client.call("GET", CONFIG_MAPS, limit="2", **{"continue": page["metadata"]["continue"]})
    assert (code, gone["reason"]) == (410, "Expired")
    code, rest = await client.call("GET", CONFIG_MAPS, **{"continue": gone["metadata"]["continue"]})
    assert code == 200
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c2", "c3", "c4", "d", "kube-root-ca.crt"]


async def test_exact_list_of_a_compacted_version_is_gone(server: ApiServer, client: Client) -> None:
    version = await _fill(client)
    query = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    code, past = await client.call("GET", CONFIG_MAPS, **query)
    assert code == 200
    assert "c0" in [item["metadata"]["name"] for item in past["items"]]
    assert "c1" not in [item["metadata"]["name"] for item in past["items"]]
    server.store.compact(server.store.revision)
    code, gone = await client.call("GET", CONFIG_MAPS, **query)
    assert (code, gone["reason"]) == (410, "Expired")
