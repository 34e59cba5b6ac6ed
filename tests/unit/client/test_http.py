"""The transport on a real socket."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import localpv
from localpv import errors
from localpv.client import config
from localpv.client.config import Connection
from localpv.client.credentials import Credentials, Fixed
from localpv.client.http import HttpTransport
from localpv.client.transport import Request

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handle: Handle, *, credentials: Credentials | None = None) -> AsyncIterator[HttpTransport]:
    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]
    try:
        connection = Connection(url=f"http://{host}:{port}/prefix", credentials=credentials or Fixed())
        async with HttpTransport(connection, component="agent") as transport:
            yield transport
    finally:
        await runner.cleanup()


async def test_request_carries_agent_query_and_body() -> None:
    seen: list[tuple[str, str, str, bytes, str | None]] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        agent = request.headers["User-Agent"]
        seen.append((request.method, request.path_qs, agent, await request.read(), request.headers.get("Content-Type")))
        return web.Response(status=201, body=b"made", headers={"Warning": "299 - careful"})

    async with serving(handle) as transport:
        answer = await transport.request(
            Request(method="POST", path="/x", query={"a": "b=c"}, body=b"{}", content_type="application/json")
        )
    agent = f"localpv-agent/{localpv.__version__}"
    assert seen == [("POST", "/prefix/x?a=b%3Dc", agent, b"{}", "application/json")]
    assert (answer.code, answer.body, answer.headers["warning"]) == (201, b"made", "299 - careful")


async def test_connections_are_used_again() -> None:
    peers: set[object] = set()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return web.Response()

    async with serving(handle) as transport:
        for _ in range(5):
            await transport.request(Request(method="GET", path="/"))
    assert len(peers) == 1


async def test_server_that_is_not_there_is_a_lost_connection_with_a_hint() -> None:
    async with HttpTransport(Connection(url="http://127.0.0.1:1", source="context x"), component="agent") as transport:
        with pytest.raises(errors.ConnectionLost, match=r"GET http://127\.0\.0\.1:1/x") as caught:
            await transport.request(Request(method="GET", path="/x"))
    assert "context x" in caught.value.hint


async def test_answer_that_does_not_come_is_a_lost_connection() -> None:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(30)
        return web.Response()

    async with serving(handle) as transport:
        with pytest.raises(errors.ConnectionLost, match=r"no answer within 0\.05 s"):
            await transport.request(Request(method="GET", path="/", timeout_seconds=0.05))


async def test_stream_gives_bytes_as_they_come_and_a_cut_is_a_lost_connection() -> None:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b"one\n")
        assert request.transport is not None
        request.transport.close()
        return response

    got = b""
    async with serving(handle) as transport:
        with pytest.raises(errors.ConnectionLost):
            async with transport.stream(Request(method="GET", path="/")) as chunks:
                async for chunk in chunks:
                    got += chunk
    assert got == b"one\n"


async def test_stream_that_stays_silent_too_long_is_a_lost_connection() -> None:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(30)
        return response

    async with serving(handle) as transport:
        with pytest.raises(errors.ConnectionLost, match="no answer within"):
            async with transport.stream(Request(method="GET", path="/", timeout_seconds=0.05)) as chunks:
                async for _ in chunks:
                    pass


async def test_stream_that_is_refused_is_the_error_the_server_meant() -> None:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"reason": "Expired", "message": "too old"}, status=410)

    async with serving(handle) as transport:
        with pytest.raises(errors.Gone, match="too old"):
            async with transport.stream(Request(method="GET", path="/")):
                pass


async def test_refused_credentials_are_renewed_and_tried_once_more() -> None:
    class Renewable:
        token = "old"
        refusals = 0

        async def headers(self) -> tuple[tuple[str, str], ...]:
            return (("Authorization", f"Bearer {self.token}"),)

        def refused(self) -> bool:
            self.token, self.refusals = "new", self.refusals + 1
            return True

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=200 if request.headers["Authorization"] == "Bearer new" else 401)

    credentials = Renewable()
    async with serving(handle, credentials=credentials) as transport:
        assert (await transport.request(Request(method="GET", path="/"))).code == 200
    assert credentials.refusals == 1


@asynccontextmanager
async def serving_tls(pair: tuple[Path, Path]) -> AsyncIterator[str]:
    """A server that wants to see the certificate, and says whose it was."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        shown = request.transport.get_extra_info("peercert")
        return web.Response(text=shown["subject"][0][0][1] if shown else "nobody")

    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pair[0]))
    tls.load_cert_chain(*pair)
    tls.verify_mode = ssl.CERT_OPTIONAL
    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def kubeconfig(folder: Path, *, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
    path = folder / "kubeconfig"
    document = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "it", "user": user}],
    }
    path.write_text(json.dumps(document))
    return path


async def ask(path: Path) -> str:
    async with HttpTransport(config.load(path), component="agent") as transport:
        return (await transport.request(Request(method="GET", path="/"))).body.decode()


async def test_client_certificate_is_shown_to_the_server(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    certificate, key = (base64.b64encode(path.read_bytes()).decode() for path in pair)
    async with serving_tls(pair) as url:
        cluster = {"server": url, "certificate-authority-data": certificate}
        user = {"client-certificate-data": certificate, "client-key-data": key}
        assert await ask(kubeconfig(tmp_path, cluster=cluster, user=user)) == "test"
        assert await ask(kubeconfig(tmp_path, cluster=cluster, user={})) == "nobody"


async def test_certificate_of_a_plugin_is_shown_to_the_server(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    status = {"clientCertificateData": pair[0].read_text(), "clientKeyData": pair[1].read_text()}
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    (tmp_path / "answer").write_text(json.dumps(answer))
    plugin = {"apiVersion": answer["apiVersion"], "command": "cat", "args": [str(tmp_path / "answer")]}
    async with serving_tls(pair) as url:
        cluster = {"server": url, "certificate-authority": str(pair[0])}
        assert await ask(kubeconfig(tmp_path, cluster=cluster, user={"exec": plugin})) == "test"


async def test_server_with_another_certificate_is_refused_with_a_hint(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    async with serving_tls(pair) as url:
        path = kubeconfig(tmp_path, cluster={"server": url}, user={})
        with pytest.raises(errors.ConnectionLost) as caught:
            await ask(path)
        assert f"certificate does not fit the authority or the address in context it of {path}" in caught.value.hint
        assert await ask(kubeconfig(tmp_path, cluster={"server": url, "insecure-skip-tls-verify": True}, user={}))


async def test_name_of_the_certificate_can_differ_from_the_address(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    async with serving_tls(pair) as url:
        cluster = {"server": url, "certificate-authority": str(pair[0]), "tls-server-name": "kubernetes"}
        assert await ask(kubeconfig(tmp_path, cluster=cluster, user={})) == "nobody"
        wrong = cluster | {"tls-server-name": "elsewhere"}
        with pytest.raises(errors.ConnectionLost):
            await ask(kubeconfig(tmp_path, cluster=wrong, user={}))
