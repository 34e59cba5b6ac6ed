"""What the engine acknowledged is there after kill -9 at any moment, with the same UID and resourceVersion."""

from __future__ import annotations

import http.client
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests import engine_process
from tests.contract import builders, wire

from localpv.testing.waiting import PATIENCE_SECONDS

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class Load:
    """Clients that create, change and delete, and remember what they were told."""

    def __init__(self, target: wire.Target, round_number: int) -> None:
        self._target = target
        self._round = round_number
        self.acknowledged: dict[str, tuple[str, str, str]] = {}
        """name -> (uid, resourceVersion, value) of the last acknowledged write"""
        self.deleted: set[str] = set()
        self.unsure: set[str] = set()
        """Names with a write on its way when the server died: it may or may not be there."""

    def run(self, number: int) -> None:
        client = wire.Api(self._target, self._target.token)
        counter = 0
        try:
            while True:
                counter += 1
                name = f"c{self._round}-{number}-{counter}"
                self.unsure.add(name)
                made = client.send("POST", CONFIG_MAPS, builders.config_map(name, data={"n": "1"}))
                self._remember(name, made)
                if counter % 3 == 0:
                    self.unsure.add(name)
                    changed = client.send("PUT", f"{CONFIG_MAPS}/{name}", {**made.body, "data": {"n": "2"}})
                    self._remember(name, changed)
                if counter % 5 == 0:
                    self.unsure.add(name)
                    gone = client.send("DELETE", f"{CONFIG_MAPS}/{name}")
                    assert gone.code == 200
                    del self.acknowledged[name]
                    self.deleted.add(name)
                    self.unsure.discard(name)
        except (OSError, http.client.HTTPException, ValueError):
            return  # killed
        finally:
            client.close()

    def _remember(self, name: str, answer: wire.Answer) -> None:
        assert answer.code in (200, 201), answer.raw
        metadata = answer.body["metadata"]
        self.acknowledged[name] = (metadata["uid"], metadata["resourceVersion"], answer.body["data"]["n"])
        self.unsure.discard(name)


# A server that dies between connecting and the handshake makes ssl forget to close its socket (CPython 3.11).
@pytest.mark.filterwarnings("ignore:.*SSLSocket:pytest.PytestUnraisableExceptionWarning")
def test_kill_under_load_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    data, chance = tmp_path / "data", random.Random(7)
    expected: dict[str, tuple[str, str, str]] = {}
    gone: set[str] = set()
    unsure: set[str] = set()
    for round_number in range(12):
        with engine_process.running(data=data) as engine:
            target = wire.read_kubeconfig(engine.kubeconfig, controllers=True)
            client = wire.Api(target, target.token)
            _check(client, expected, gone, unsure)
            client.close()
            load = Load(target, round_number)
            threads = [threading.Thread(target=load.run, args=(number,)) for number in range(6)]
            for thread in threads:
                thread.start()
            wire.eventually(lambda load=load: len(load.acknowledged) > 20, "the load is on")  # type: ignore[misc]
            time.sleep(chance.uniform(0, 0.5))
            os.kill(engine.process.pid, signal.SIGKILL)
            engine.process.wait()
            for thread in threads:
                thread.join()
            expected.update(load.acknowledged)
            gone |= load.deleted
            unsure |= load.unsure
    assert len(expected) > 100, "the load was too light to show anything"


def _check(client: wire.Api, expected: dict[str, tuple[str, str, str]], gone: set[str], unsure: set[str]) -> None:
    found: dict[str, Any] = {item["metadata"]["name"]: item for item in client.get(CONFIG_MAPS)["items"]}
    for name, (uid, version, value) in expected.items():
        if name in unsure:
            continue
        metadata = found[name]["metadata"]
        assert (metadata["uid"], metadata["resourceVersion"], found[name]["data"]["n"]) == (uid, version, value)
    assert not (gone - unsure) & set(found)


def test_second_start_keeps_every_object_and_lets_a_watch_go_on(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with engine_process.running(data=data) as engine:
        target = wire.read_kubeconfig(engine.kubeconfig, controllers=True)
        client = wire.Api(target, target.token)
        before = client.post(CONFIG_MAPS, builders.config_map("kept", data={"n": "1"}))
        client.post(CONFIG_MAPS, builders.config_map("later"))
        token = target.token
        client.close()
    with engine_process.running(data=data) as engine:
        target = wire.read_kubeconfig(engine.kubeconfig, controllers=True)
        assert target.token == token, "a kubeconfig that somebody copied still works"
        client = wire.Api(target, target.token)
        assert client.get(f"{CONFIG_MAPS}/kept") == before
        version = before["metadata"]["resourceVersion"]
        with client.watch(CONFIG_MAPS, resourceVersion=version) as watch:
            assert watch.take(1) == [("ADDED", "later")]
        client.close()


def test_sigterm_ends_watches_and_exits_with_success(tmp_path: Path) -> None:
    with engine_process.running(data=tmp_path / "data") as engine:
        target = wire.read_kubeconfig(engine.kubeconfig, controllers=True)
        client = wire.Api(target, target.token)
        with client.watch(CONFIG_MAPS) as watch:
            engine.process.send_signal(signal.SIGTERM)
            list(watch.until_closed())
        assert engine.process.wait(PATIENCE_SECONDS) == 0
        assert "Traceback" not in engine.log_tail()
        client.close()
