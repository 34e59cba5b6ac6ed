"""One client's share: whoever floods the server gets 429 or is cut off, and everybody else is served."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import statistics
import threading
import time
from collections.abc import Iterator

import pytest
from tests import engine_process
from tests.contract import builders, wire

from localpv.testing.waiting import PATIENCE_SECONDS

CONNECTIONS, REQUESTS = 64, 16
SHARE_OF_CONNECTIONS, SHARE_OF_REQUESTS = CONNECTIONS // 4, REQUESTS // 4
OPTIONS = ("--max-connections", str(CONNECTIONS), "--max-requests-inflight", str(REQUESTS))


@pytest.fixture(scope="module")
def target() -> Iterator[wire.Target]:
    with engine_process.running(options=OPTIONS) as engine:
        yield wire.read_kubeconfig(engine.kubeconfig, controllers=True)


@pytest.fixture
def admin(target: wire.Target) -> Iterator[wire.Api]:
    client = wire.Api(target, target.token)
    yield client
    client.close()


def _tenant(admin: wire.Api) -> tuple[str, str]:
    """(namespace, token) of somebody who may edit there."""
    space: str = admin.post("/api/v1/namespaces", builders.namespace())["metadata"]["name"]
    path = f"/api/v1/namespaces/{space}"
    admin.post(f"{path}/serviceaccounts", builders.service_account("robot"))
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": space}
    bindings = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{space}/rolebindings"
    admin.post(bindings, builders.role_binding("edit", subject, kind="ClusterRole"))
    token: str = admin.post(f"{path}/serviceaccounts/robot/token", {"spec": {}})["status"]["token"]
    return space, token


def _open(target: wire.Target, token: str, request: str) -> ssl.SSLSocket:
    """A connection with the beginning of a request on it."""
    plain = socket.create_connection((target.host, target.port), timeout=PATIENCE_SECONDS)
    secure = target.tls.wrap_socket(plain, server_hostname=target.host)
    secure.sendall(f"{request} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n".encode())
    return secure


def _head(connection: ssl.SSLSocket) -> str:
    text = b""
    while b"\r\n\r\n" not in text:
        piece = connection.recv(65536)
        if not piece:
            break
        text += piece
    return text.decode(errors="replace")


def _is_open(connection: socket.socket) -> bool:
    connection.settimeout(0.01)
    try:
        return connection.recv(1) != b""
    except (TimeoutError, ssl.SSLWantReadError):
        return True
    except OSError:
        return False


def _is_served(client: wire.Api) -> bool:
    try:
        return client.send("GET", "/api/v1/namespaces/default").code == 200
    except OSError:
        client.close()
        return False


def test_connections_that_say_nothing_push_out_each_other_and_nobody_else(admin: wire.Api, target: wire.Target) -> None:
    watch = admin.watch("/api/v1/nodes", timeoutSeconds=250)
    with contextlib.ExitStack() as stack:
        silent: list[socket.socket] = []
        other = wire.Api(target, target.token)  # a new connection from the same address

        def gets_in_among_new_ones() -> bool:
            # New ones each time: on a busy machine the time of those before is up, which ends them all.
            for _ in range(3 * CONNECTIONS):
                connection = socket.create_connection((target.host, target.port), timeout=PATIENCE_SECONDS)
                silent.append(stack.enter_context(connection))
            for connection in silent[: -3 * CONNECTIONS]:
                connection.close()
            del silent[: -3 * CONNECTIONS]
            return _is_served(other)

        wire.eventually(gets_in_among_new_ones, "a client with a good token gets in")
        wire.eventually(
            lambda: sum(_is_open(connection) for connection in silent) <= SHARE_OF_CONNECTIONS,
            "no more than a share of them is open",
        )
        assert other.get("/api/v1/namespaces/default")
        other.close()
    made = admin.post("/api/v1/nodes", builders.node())["metadata"]["name"]
    with watch:
        assert any(event.name == made for event in watch.until_closed())


def test_a_client_has_its_share_of_watches_and_others_theirs(admin: wire.Api, target: wire.Target) -> None:
    space, token = _tenant(admin)
    path = f"/api/v1/namespaces/{space}/configmaps?watch=1&timeoutSeconds=250"
    with contextlib.ExitStack() as stack:
        heads = []
        for _ in range(SHARE_OF_CONNECTIONS + 4):
            connection = stack.enter_context(_open(target, token, f"GET {path}"))
            connection.sendall(b"\r\n")
            heads.append(_head(connection))
        codes = [head.split(" ", 2)[1] for head in heads]
        assert codes == ["200"] * SHARE_OF_CONNECTIONS + ["429"] * 4
        assert "Retry-After: 1\r\n" in heads[-1]
        neighbour_space, neighbour = _tenant(admin)
        client = wire.Api(target, neighbour)
        with client.watch(f"/api/v1/namespaces/{neighbour_space}/configmaps", timeoutSeconds=1) as watch:
            assert watch.code == 200
        client.close()
        with admin.watch(f"/api/v1/namespaces/{space}/configmaps", timeoutSeconds=1) as watch:
            assert watch.code == 200


def test_watches_of_clients_that_have_gone_do_not_count(admin: wire.Api, target: wire.Target) -> None:
    space, token = _tenant(admin)
    client = wire.Api(target, token)
    for number in range(3 * SHARE_OF_CONNECTIONS):
        path = f"/api/v1/namespaces/{space}/secrets"
        wire.eventually(lambda path=path: _watch_once(client, path), f"watch {number} is taken")  # type: ignore[misc]
    client.close()


def _watch_once(client: wire.Api, path: str) -> bool:
    with client.watch(path, timeoutSeconds=250) as watch:
        return watch.code == 200


def test_a_client_has_its_share_of_requests_under_way_and_others_theirs(admin: wire.Api, target: wire.Target) -> None:
    space, token = _tenant(admin)
    path = f"/api/v1/namespaces/{space}/configmaps"
    body = json.dumps(builders.config_map("late")).encode()
    with contextlib.ExitStack() as stack:
        slow = []
        for _ in range(SHARE_OF_REQUESTS):
            connection = stack.enter_context(_open(target, token, f"POST {path}"))
            head = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body[:5])
            slow.append(connection)
        tenant = wire.Api(target, token)
        refused = wire.eventually(lambda: _refused(tenant, path), "the share is used up")
        assert refused.headers["retry-after"] == "1"
        assert (refused.body["reason"], refused.body["code"]) == ("TooManyRequests", 429)
        _, neighbour = _tenant(admin)
        other = wire.Api(target, neighbour)
        assert other.send("GET", "/api/v1/namespaces/none-such").code == 403
        assert admin.get(path)["items"] is not None
        slow[0].sendall(body[5:])
        assert _head(slow[0]).startswith("HTTP/1.1 201")
        assert tenant.get(path)["items"]
        tenant.close()
        other.close()


def _gets_in(client: wire.Api) -> bool:
    try:
        return client.send("GET", "/api").code == 200
    except OSError:
        client.close()
        return False


def _refused(client: wire.Api, path: str) -> wire.Answer | None:
    answer = client.send("GET", path)
    return answer if answer.code == 429 else None


def test_failed_logins_are_slowed_down_and_good_tokens_are_not(admin: wire.Api, target: wire.Target) -> None:
    stranger = wire.Api(target, "guessed")
    codes = []
    while 429 not in codes:
        assert len(codes) < 100, codes
        began = time.monotonic()
        answer = stranger.send("GET", "/api/v1/secrets")
        codes.append(answer.code)
        took = time.monotonic() - began
    assert codes.count(401) >= 10
    assert took >= 0.9
    assert answer.headers["retry-after"] == "1"
    assert answer.body["reason"] == "TooManyRequests"
    good = wire.Api(target, target.token)
    quickest = took
    for _ in range(10):
        began = time.monotonic()
        assert good.get("/api/v1/namespaces/default")
        quickest = min(quickest, time.monotonic() - began)
    # Who is slowed down waits each time; a busy machine lets one of ten through.
    assert quickest < 0.9
    good.close()
    stranger.close()


def test_a_flood_of_one_tenant_starves_nobody(admin: wire.Api, target: wire.Target) -> None:
    space, token = _tenant(admin)
    path = f"/api/v1/namespaces/{space}/configmaps"
    admin.post(path, builders.config_map("one", data={"a": "x" * 20_000}))
    neighbour_space, neighbour_token = _tenant(admin)
    stop, seen = threading.Event(), dict.fromkeys((200, 429, 0), 0)

    def flood() -> None:
        client = wire.Api(target, token)
        while not stop.is_set():
            try:
                code = client.send("GET", path).code
            except OSError:
                client.close()
                code = 0
            seen[code] = seen.get(code, 0) + 1
        client.close()

    threads = [threading.Thread(target=flood) for _ in range(2 * SHARE_OF_CONNECTIONS)]
    for thread in threads:
        thread.start()
    waited = []
    neighbour = wire.Api(target, neighbour_token)
    try:
        wire.eventually(lambda: seen[429], f"the tenant is told to wait: {seen}")
        # All come from one address, which has a share of its own of connections that nobody has logged in on yet. The
        # flood may have all of them at one moment; who comes again gets in.
        wire.eventually(lambda: _gets_in(neighbour), "the neighbour has logged in")
        for number in range(20):
            began = time.monotonic()
            admin.post(f"/api/v1/namespaces/{neighbour_space}/secrets", builders.secret(f"s{number}"))
            assert neighbour.send("GET", f"/api/v1/namespaces/{neighbour_space}/secrets/s{number}").code == 200
            waited.append(time.monotonic() - began)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        neighbour.close()
    assert statistics.median(waited) < 5, seen
    assert set(seen) == {200, 429, 0}, seen
