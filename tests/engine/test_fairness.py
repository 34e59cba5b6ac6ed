"""A long list or a slow watcher holds up nobody, and what waits is bounded."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Iterator

import pytest
from tests import engine_process
from tests.contract import builders, wire

from localpv.engine.apiserver import body
from localpv.testing.waiting import PATIENCE_SECONDS

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[engine_process.Engine, wire.Target]]:
    with engine_process.running() as engine:
        yield engine, wire.read_kubeconfig(engine.kubeconfig, controllers=True)


def _raw_get(target: wire.Target, path: str) -> ssl.SSLSocket:
    """A request whose answer nobody reads."""
    plain = socket.create_connection((target.host, target.port))
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    secure = target.tls.wrap_socket(plain, server_hostname=target.host)
    secure.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {target.token}\r\n\r\n".encode())
    return secure


def _memory_kb(pid: int) -> int:
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


def test_readers_that_do_not_read_neither_stall_others_nor_fill_memory(
    server: tuple[engine_process.Engine, wire.Target],
) -> None:
    engine, target = server
    client = wire.Api(target, target.token)
    for number in range(60):
        client.post(CONFIG_MAPS, builders.config_map(f"big-{number}", data={"a": "x" * 200_000}))
    before = _memory_kb(engine.process.pid)
    stuck = [_raw_get(target, CONFIG_MAPS) for _ in range(20)]
    stuck += [_raw_get(target, f"{CONFIG_MAPS}?watch=true&resourceVersion=0") for _ in range(20)]
    slowest = 0.0
    for number in range(100):
        began = time.monotonic()
        client.post(CONFIG_MAPS, builders.config_map(f"meanwhile-{number}"))
        slowest = max(slowest, time.monotonic() - began)
    # 40 answers of 12 MB are on their way to readers that take nothing: held whole they would be 480 MB.
    assert _memory_kb(engine.process.pid) - before < 150_000
    assert slowest < body.TAKE_SECONDS / 2, "a write waited for somebody else's answer"
    for connection in stuck:
        connection.close()
    client.close()


def test_a_watcher_that_falls_too_far_behind_is_told_to_list_again(
    server: tuple[engine_process.Engine, wire.Target],
) -> None:
    _, target = server
    client = wire.Api(target, target.token)
    version = client.get(CONFIG_MAPS, limit=1)["metadata"]["resourceVersion"]
    slow = _raw_get(target, f"{CONFIG_MAPS}?watch=true&resourceVersion={version}&timeoutSeconds=250")
    client.post(CONFIG_MAPS, builders.config_map("churn", data={"a": ""}))
    # More than the history keeps of one resource in bytes (see HISTORY_BYTES), so the slow one cannot catch up.
    for number in range(60):
        client.merge(f"{CONFIG_MAPS}/churn", {"data": {"a": chr(97 + number % 26) * 500_000}})
    slow.settimeout(PATIENCE_SECONDS)
    text = b""
    while b'"code":410' not in text[-2000:]:
        piece = slow.recv(1 << 20)
        assert piece, "the watch ended without a word"
        text += piece
    last = text[text.rindex(b'{"type":"ERROR"') :].split(b"\n")[0]
    status = json.loads(last)["object"]
    assert (status["kind"], status["reason"], status["code"]) == ("Status", "Expired", 410)
    slow.close()
    client.close()


def test_pages_of_a_list_show_one_moment_while_others_write(server: tuple[engine_process.Engine, wire.Target]) -> None:
    _, target = server
    client = wire.Api(target, target.token)
    space = client.post("/api/v1/namespaces", builders.namespace())["metadata"]["name"]
    path = f"/api/v1/namespaces/{space}/secrets"
    for number in range(20):
        client.post(path, builders.secret(f"s{number:02}"))
    seen, token = [], ""
    while True:
        page = client.get(path, limit=3, **({"continue": token} if token else {}))
        seen += [item["metadata"]["name"] for item in page["items"]]
        client.send("DELETE", f"{path}/s{19 - len(seen) // 3:02}")
        client.post(path, builders.secret(f"s{len(seen):02}-new"))
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert seen == [f"s{number:02}" for number in range(20)]
    client.close()
