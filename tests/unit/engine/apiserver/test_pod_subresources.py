"""pods/log and pods/exec over a real socket; behind the door are processes of this machine instead of containers."""

from __future__ import annotations

import asyncio
import errno
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from localpv.api.objects import Object
from localpv.api.pod_logs import PodLogOptions
from localpv.engine.apiserver.server import ApiServer, Settings
from localpv.errors import BadRequest, HostError, Unavailable
from localpv.host.containers import Process
from localpv.testing.waiting import PATIENCE_SECONDS, eventually

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "one", "image": "busybox"}, {"name": "two", "image": "busybox"}]},
}
PODS = "/api/v1/namespaces/default/pods"
PROTOCOLS = ("v5.channel.k8s.io",)


class LocalProcess:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.sizes: list[tuple[int, int]] = []
        self.trouble: Exception | None = None
        """What is in the way of reading what it writes."""

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        for channel, stream in ((1, self._process.stdout), (2, self._process.stderr)):
            assert stream is not None
            if self.trouble is not None:
                raise self.trouble
            while data := await stream.read(1 << 16):
                yield channel, data

    async def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        await self._process.stdin.drain()

    async def close_input(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def resize(self, width: int, height: int) -> None:
        self.sizes.append((width, height))

    async def wait(self) -> int:
        return await self._process.wait()

    async def close(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


class LocalPods:
    """Runs commands as they are; the log of a container is what a test has put there."""

    def __init__(self) -> None:
        self.text: list[bytes] = []
        self.asked: list[tuple[str, PodLogOptions]] = []
        self.started: list[LocalProcess] = []
        self.trouble: Exception | None = None
        """What is in the way of every command."""
        self.trouble_of_processes: Exception | None = None
        self.more = asyncio.Event()
        self.left = asyncio.Event()
        """Nobody follows a log any more."""

    async def logs(self, pod: Object, container: str, options: PodLogOptions) -> AsyncIterator[bytes]:
        self.asked.append((container, options))
        if container == "two":
            raise BadRequest('container "two" in pod "web" is waiting to start: ContainerCreating')
        for piece in self.text:
            yield piece
        try:
            if options.follow:
                await self.more.wait()
                yield b"later\n"
        finally:
            self.left.set()

    async def exec(self, pod: Object, container: str, command: tuple[str, ...], *, stdin: bool, tty: bool) -> Process:
        if container == "two":
            raise BadRequest('container "two" of pod web is not running')
        if self.trouble is not None:
            raise self.trouble
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
        self.started.append(LocalProcess(process))
        self.started[-1].trouble = self.trouble_of_processes
        return self.started[-1]


@pytest.fixture
async def pods() -> LocalPods:
    return LocalPods()


@pytest.fixture
async def server(tmp_path: Path, pods: LocalPods) -> AsyncIterator[ApiServer]:
    server = ApiServer(Settings(data=tmp_path, port=0, durable=False))
    await server.start()
    server.look_into_pods_with(pods)
    try:
        yield server
    finally:
        await server.stop()


@pytest.fixture
async def http(server: ApiServer, tmp_path: Path) -> AsyncIterator[aiohttp.ClientSession]:
    context = ssl.create_default_context(cafile=tmp_path / "tls" / "ca.crt")
    headers = {"Authorization": f"Bearer {server.tokens.admin_token}"}
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(server.url, headers=headers, connector=connector) as session:
        async with session.post(PODS, json=POD) as answer:
            assert answer.status == 201
        yield session


def command(*words: str, **options: str) -> list[tuple[str, str]]:
    given = {"container": "one", "stdout": "true", "stderr": "true"} | options
    return [*(("command", word) for word in words), *given.items()]


async def heard(socket: aiohttp.ClientWebSocketResponse) -> dict[int, bytes]:
    """Everything that comes until the server closes, by channel."""
    channels: dict[int, bytes] = {}
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for message in socket:
            channels[message.data[0]] = channels.get(message.data[0], b"") + message.data[1:]
    return channels


async def test_log_is_plain_text_of_the_container_that_is_named(http: aiohttp.ClientSession, pods: LocalPods) -> None:
    pods.text = [b"first\n", b"second\n"]
    query = {"container": "one", "tailLines": "2", "timestamps": "true", "previous": "true", "limitBytes": "100"}
    async with http.get(f"{PODS}/web/log", params=query) as answer:
        assert (answer.status, answer.content_type) == (200, "text/plain")
        assert await answer.text() == "first\nsecond\n"
    wanted = PodLogOptions(tail_lines=2, timestamps=True, previous=True, limit_bytes=100)
    assert pods.asked == [("one", wanted)]


async def test_log_that_is_followed_comes_as_it_is_written(http: aiohttp.ClientSession, pods: LocalPods) -> None:
    pods.text = [b"now\n"]
    async with http.get(f"{PODS}/web/log", params={"container": "one", "follow": "true"}) as answer:
        assert await answer.content.readline() == b"now\n"
        pods.more.set()
        assert await answer.content.readline() == b"later\n"
        assert await answer.content.read() == b""


async def test_log_comes_over_a_web_socket_too(http: aiohttp.ClientSession, pods: LocalPods) -> None:
    pods.text = [b"first\n", b"second\n"]
    query, protocols = {"container": "one"}, ("binary.k8s.io",)
    async with http.ws_connect(f"{PODS}/web/log", params=query, protocols=protocols) as socket:
        assert socket.protocol == "binary.k8s.io"
        assert [message.data async for message in socket] == [b"first\n", b"second\n"]
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await http.ws_connect(f"{PODS}/web/log", params={"container": "two"}, protocols=protocols)
    assert refused.value.status == 400


async def test_log_that_is_followed_ends_when_its_web_socket_is_closed(
    http: aiohttp.ClientSession, pods: LocalPods
) -> None:
    pods.text = [b"now\n"]
    query = {"container": "one", "follow": "true"}
    async with asyncio.timeout(PATIENCE_SECONDS), http.ws_connect(f"{PODS}/web/log", params=query) as socket:
        assert await socket.receive_bytes() == b"now\n"
        await socket.close()
        await pods.left.wait()


async def test_followed_log_does_not_keep_the_server_from_stopping(
    http: aiohttp.ClientSession, server: ApiServer, pods: LocalPods
) -> None:
    pods.text = [b"now\n"]
    async with http.get(f"{PODS}/web/log", params={"container": "one", "follow": "true"}) as answer:
        assert await answer.content.readline() == b"now\n"
        async with asyncio.timeout(PATIENCE_SECONDS):
            await server.stop()
            assert await answer.content.read() == b""


@pytest.mark.parametrize(
    ("query", "code", "sentence"),
    [
        ({}, 400, "choose one of: [one two]"),
        ({"container": "three"}, 400, "container three is not valid for pod web"),
        ({"container": "two"}, 400, "waiting to start: ContainerCreating"),
        ({"container": "one", "tailLines": "-1"}, 422, "tailLines"),
        ({"container": "one", "limitBytes": "0"}, 422, "limitBytes"),
        ({"container": "one", "sinceSeconds": "0"}, 422, "sinceSeconds"),
        ({"container": "one", "sinceTime": "yesterday"}, 400, "sinceTime"),
    ],
)
async def test_log_that_cannot_be_had_is_refused_with_the_reason(
    http: aiohttp.ClientSession, query: dict[str, str], code: int, sentence: str
) -> None:
    async with http.get(f"{PODS}/web/log", params=query) as answer:
        status = await answer.json()
        assert (answer.status, status["kind"]) == (code, "Status")
        assert sentence in status["message"]


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", "v5.channel.k8s.io"])
async def test_command_runs_and_tells_what_it_wrote_and_how_it_ended(
    http: aiohttp.ClientSession, protocol: str
) -> None:
    query = command("sh", "-c", "echo out; echo err >&2; exit 3")
    async with http.ws_connect(f"{PODS}/web/exec", params=query, protocols=(protocol,)) as socket:
        assert socket.protocol == protocol
        channels = await heard(socket)
    assert (channels[1], channels[2]) == (b"out\n", b"err\n")
    outcome = json.loads(channels[3])
    assert (outcome["status"], outcome["reason"]) == ("Failure", "NonZeroExitCode")
    assert outcome["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


@pytest.mark.parametrize("protocols", [("channel.k8s.io",), ()])
async def test_first_version_of_the_protocol_tells_only_what_went_wrong(
    http: aiohttp.ClientSession, protocols: tuple[str, ...]
) -> None:
    async with http.ws_connect(f"{PODS}/web/exec", params=command("echo", "out"), protocols=protocols) as socket:
        assert socket.protocol == (protocols[0] if protocols else None)
        assert await heard(socket) == {1: b"out\n"}
    query = command("sh", "-c", "exit 3")
    async with http.ws_connect(f"{PODS}/web/exec", params=query, protocols=protocols) as socket:
        assert await heard(socket) == {3: b"command terminated with non-zero exit code: exit code 3"}


async def test_command_reads_input_until_the_client_closes_it(http: aiohttp.ClientSession, pods: LocalPods) -> None:
    query = command("cat", stdin="true")
    async with http.ws_connect(f"{PODS}/web/exec", params=query, protocols=("v5.channel.k8s.io",)) as socket:
        await socket.send_bytes(b"\x00some ")
        await socket.send_bytes(b"\x04" + json.dumps({"Width": 80, "Height": 24}).encode())
        for odd in ({"Width": 70_000, "Height": 24}, {"Width": 80, "Height": -1}, {"Width": 80}, []):
            await socket.send_bytes(b"\x04" + json.dumps(odd).encode())
        await socket.send_bytes(b"\x00words")
        await socket.send_bytes(b"\xff\x00")
        channels = await heard(socket)
    assert channels[1] == b"some words"
    assert json.loads(channels[3])["status"] == "Success"
    assert pods.started[0].sizes == [(80, 24)]


async def test_command_ends_when_its_client_goes(http: aiohttp.ClientSession, pods: LocalPods) -> None:
    query = command("sleep", "3600")
    async with http.ws_connect(f"{PODS}/web/exec", params=query, protocols=("v5.channel.k8s.io",)):
        await eventually(lambda: pods.started, what="the command runs")
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await pods.started[0].wait() != 0


async def test_exec_without_a_command_or_a_socket_is_refused(http: aiohttp.ClientSession, pods: LocalPods) -> None:
    async with http.post(f"{PODS}/web/exec", params=command("true")) as answer:
        assert answer.status == 400
        assert "WebSocket" in (await answer.json())["message"]
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await http.ws_connect(f"{PODS}/web/exec", params=command())
    assert refused.value.status == 400
    assert not pods.started


async def test_what_is_wrong_with_a_command_is_said_whatever_protocol_is_spoken(http: aiohttp.ClientSession) -> None:
    """Clients try SPDY when a WebSocket is refused, and people read the last answer."""
    async with http.post(f"{PODS}/web/exec", params=command("true", container="three")) as answer:
        assert answer.status == 400
        assert "container three is not valid" in (await answer.json())["message"]


async def test_container_that_does_not_run_is_told_as_the_outcome(http: aiohttp.ClientSession) -> None:
    query = command("true", container="two")
    async with http.ws_connect(f"{PODS}/web/exec", params=query, protocols=("v5.channel.k8s.io",)) as socket:
        channels = await heard(socket)
    outcome = json.loads(channels[3])
    assert (outcome["kind"], outcome["status"], outcome["code"]) == ("Status", "Failure", 400)
    assert outcome["message"] == 'container "two" of pod web is not running'


TROUBLES: list[tuple[Exception, int, str]] = [
    (HostError("runc broke"), 500, "runc broke"),
    (OSError(errno.E2BIG, "Argument list too long"), 500, "Argument list too long"),
    (ValueError("embedded null byte"), 500, "embedded null byte"),
    (KeyError("x"), 500, "the server met an error of its own; its log has more"),
    (Unavailable("later"), 503, "later"),
]


@pytest.mark.parametrize("during", [False, True], ids=["at the start", "on the way"])
@pytest.mark.parametrize(("trouble", "code", "sentence"), TROUBLES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "channel.k8s.io"])
async def test_whatever_fails_after_the_handshake_is_told_as_the_outcome(
    http: aiohttp.ClientSession,
    pods: LocalPods,
    trouble: Exception,
    code: int,
    sentence: str,
    protocol: str,
    during: bool,
) -> None:
    pods.trouble, pods.trouble_of_processes = (None, trouble) if during else (trouble, None)
    async with http.ws_connect(f"{PODS}/web/exec", params=command("true"), protocols=(protocol,)) as socket:
        channels = await heard(socket)
        assert socket.close_code == 1000
    assert list(channels) == [3]
    if protocol == "channel.k8s.io":
        assert sentence in channels[3].decode()
        return
    outcome = json.loads(channels[3])
    assert (outcome["kind"], outcome["status"], outcome["code"]) == ("Status", "Failure", code)
    assert sentence in outcome["message"]


async def test_word_with_a_nul_is_told_as_the_outcome(http: aiohttp.ClientSession) -> None:
    async with http.ws_connect(f"{PODS}/web/exec", params=command("true", "a\0b"), protocols=PROTOCOLS) as socket:
        outcome = json.loads((await heard(socket))[3])
    assert (outcome["code"], outcome["reason"]) == (500, "InternalError")
    assert outcome["message"] == "the command cannot be run: embedded null byte"


@pytest.mark.parametrize("path", ["log", "exec"])
@pytest.mark.parametrize("lacking", ["Sec-WebSocket-Key", "Sec-WebSocket-Version", "Connection"])
async def test_malformed_handshake_is_a_bad_request(
    http: aiohttp.ClientSession, pods: LocalPods, path: str, lacking: str
) -> None:
    headers = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    headers[lacking] = "close" if lacking == "Connection" else "odd"
    pods.text = [b"first\n"]
    async with http.get(f"{PODS}/web/{path}", params=command("true", follow="true"), headers=headers) as answer:
        assert answer.status == 400
        assert (await answer.json())["reason"] == "BadRequest"
    assert not pods.started
    assert not pods.asked, "no log is left open"


async def test_who_may_only_read_pods_cannot_run_commands_in_them(http: aiohttp.ClientSession, pods: LocalPods) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    rules = [{"apiGroups": [""], "resources": ["pods", "pods/exec", "pods/log"], "verbs": ["get"]}]
    async with http.post(roles, json={"metadata": {"name": "reader"}, "rules": rules}) as answer:
        assert answer.status == 201
    bound = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"kind": "User", "name": "eve", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    async with http.post(roles.replace("roles", "rolebindings"), json=bound) as answer:
        assert answer.status == 201
    headers = {"Impersonate-User": "eve"}
    pods.text = [b"read\n"]
    async with http.get(f"{PODS}/web/log", params={"container": "one"}, headers=headers) as answer:
        assert await answer.text() == "read\n"
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await http.ws_connect(f"{PODS}/web/exec", params=command("true"), headers=headers)
    assert refused.value.status == 403
    assert not pods.started


async def test_without_anybody_who_runs_pods_the_answer_says_so(tmp_path: Path) -> None:
    server = ApiServer(Settings(data=tmp_path, port=0, durable=False))
    await server.start()
    try:
        context = ssl.create_default_context(cafile=tmp_path / "tls" / "ca.crt")
        headers = {"Authorization": f"Bearer {server.tokens.admin_token}"}
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(server.url, headers=headers, connector=connector) as http:
            async with http.post(PODS, json=POD) as answer:
                assert answer.status == 201
            async with http.get(f"{PODS}/web/log", params={"container": "one"}) as answer:
                assert answer.status == 503
                assert "nobody runs pods" in (await answer.json())["message"]
    finally:
        await server.stop()
