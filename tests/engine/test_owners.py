"""Owner references without end: circles and crowds are taken away without anybody else having to wait."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests import engine_process
from tests.contract import builders, wire

from localpv.testing.waiting import PATIENCE_SECONDS

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def engine() -> Iterator[engine_process.Engine]:
    with engine_process.running() as running:
        yield running


@pytest.fixture(scope="module")
def target(engine: engine_process.Engine) -> wire.Target:
    return wire.read_kubeconfig(engine.kubeconfig, controllers=True)


@pytest.fixture
def api(target: wire.Target) -> Iterator[wire.Api]:
    client = wire.Api(target, target.token)
    yield client
    client.close()


def _reference(owner: Any) -> dict[str, Any]:
    metadata = owner["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "blockOwnerDeletion": True,
    }


def _own(api: wire.Api, owner: Any, dependent: Any) -> None:
    patch = {"metadata": {"ownerReferences": [_reference(owner)]}}
    api.merge(f"{CONFIG_MAPS}/{dependent['metadata']['name']}", patch)


def _make(api: wire.Api, names: list[str]) -> list[Any]:
    return [api.post(CONFIG_MAPS, builders.config_map(name)) for name in names]


def _gone(api: wire.Api, prefix: str) -> bool:
    items = api.get(CONFIG_MAPS)["items"]
    return not any(item["metadata"]["name"].startswith(prefix) for item in items)


@pytest.mark.parametrize("length", [1, 2, 3, 300])
def test_a_circle_goes_and_others_are_served_meanwhile(api: wire.Api, length: int) -> None:
    made = _make(api, [f"ring{length}-{number:03}" for number in range(length)])
    for owner, dependent in zip([made[-1], *made], made, strict=False):
        _own(api, owner, dependent)
    api.delete(f"{CONFIG_MAPS}/{made[0]['metadata']['name']}", {"propagationPolicy": "Foreground"})
    wire.eventually(lambda: _gone(api, f"ring{length}-"), "the circle is gone")


def test_a_circle_of_which_all_are_deleted_in_the_foreground_at_once_goes(api: wire.Api) -> None:
    names = [f"atonce-{number}" for number in range(5)]
    made = _make(api, names)
    for owner, dependent in zip([made[-1], *made], made, strict=False):
        _own(api, owner, dependent)
    with ThreadPoolExecutor(5) as pool:
        list(pool.map(lambda name: _delete_alone(api.target, name), names))
    wire.eventually(lambda: _gone(api, "atonce-"), "the circle is gone")


def _delete_alone(target: wire.Target, name: str) -> None:
    client = wire.Api(target, target.token)
    client.send("DELETE", f"{CONFIG_MAPS}/{name}", {"propagationPolicy": "Foreground"})
    client.close()


def test_an_owner_of_thousands_goes_without_holding_up_others(
    api: wire.Api, target: wire.Target, engine: engine_process.Engine
) -> None:
    owner = _make(api, ["crowd-owner"])[0]
    count = 2000
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda part: _dependents(target, owner, range(part, count, 8)), range(8)))
    api.delete(f"{CONFIG_MAPS}/crowd-owner", {"propagationPolicy": "Foreground"})
    longest, deadline = 0.0, time.monotonic() + PATIENCE_SECONDS
    while not api.gone(f"{CONFIG_MAPS}/crowd-owner"):
        began = _processor_seconds(engine.process.pid)
        api.get("/api/v1/namespaces/default")
        longest = max(longest, _processor_seconds(engine.process.pid) - began)
        assert time.monotonic() < deadline, "the owner is still there"
    assert _gone(api, "crowd-")
    # What it has computed meanwhile: how long that took is a matter of the machine.
    assert longest < 2, "somebody had to wait for the garbage collector"


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _dependents(target: wire.Target, owner: Any, numbers: range) -> None:
    client = wire.Api(target, target.token)
    for number in numbers:
        client.post(CONFIG_MAPS, builders.config_map(f"crowd-{number:04}", ownerReferences=[_reference(owner)]))
    client.close()
