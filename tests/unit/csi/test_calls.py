"""Calls between a channel and a server over a unix socket."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from localpv import errors
from localpv.csi import channel, connection, server
from localpv.csi.channel import Channel
from localpv.csi.server import Handler, serve
from localpv.csi.status import Code, RpcError
from localpv.testing.waiting import eventually

PUBLISH = "/csi.v1.Node/NodePublishVolume"
INFO = "/csi.v1.Node/NodeGetInfo"
CREATE = "/csi.v1.Controller/CreateVolume"
LIST = "/csi.v1.Controller/ListVolumes"


async def info(request: dict[str, Any]) -> dict[str, Any]:
    return {"node_id": "n1", "accessible_topology": {"segments": {"a": "b"}}}


async def echo(request: dict[str, Any]) -> dict[str, Any]:
    return {"volume": {"volume_id": request["name"], "volume_context": request.get("parameters", {})}}


@asynccontextmanager
async def calling(folder: Path, services: Mapping[str, Handler]) -> AsyncIterator[Channel]:
    serving = await serve(folder / "csi.sock", services)
    asking = Channel(folder / "csi.sock")
    try:
        yield asking
    finally:
        await asking.close()
        await serving.close()
        assert serving.calls == serving.buffered_bytes == 0


async def code_of(asking: Channel, method: str, request: dict[str, Any], **options: Any) -> Code:
    with pytest.raises(RpcError) as raised:
        await asking.call(method, request, **options)
    return raised.value.code


async def test_a_call_is_answered(tmp_path: Path) -> None:
    async with calling(tmp_path, {INFO: info}) as asking:
        assert await asking.call(INFO, {}) == await info({})


async def test_many_calls_at_once_each_get_their_own_answer(tmp_path: Path) -> None:
    async with calling(tmp_path, {CREATE: echo}) as asking:
        answers = await asyncio.gather(*(asking.call(CREATE, {"name": f"v{n}"}) for n in range(300)))
    assert [answer["volume"]["volume_id"] for answer in answers] == [f"v{n}" for n in range(300)]


async def test_messages_larger_than_every_window_come_over(tmp_path: Path) -> None:
    request = {"name": "v", "parameters": {"big": "x" * 3_000_000}}
    async with calling(tmp_path, {CREATE: echo}) as asking:
        answers = await asyncio.gather(*(asking.call(CREATE, request) for _ in range(3)))
    assert [len(answer["volume"]["volume_context"]["big"]) for answer in answers] == [3_000_000] * 3


async def test_an_error_comes_over_with_code_and_words(tmp_path: Path) -> None:
    async def fail(request: dict[str, Any]) -> dict[str, Any]:
        raise RpcError(Code.ALREADY_EXISTS, f"{request['name']} ist schon da: 100 % ✓")

    async with calling(tmp_path, {CREATE: fail}) as asking:
        with pytest.raises(RpcError) as raised:
            await asking.call(CREATE, {"name": "ä"})
    assert (raised.value.code, raised.value.message) == (Code.ALREADY_EXISTS, "ä ist schon da: 100 % ✓")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (errors.DeviceBusy("the device is mounted"), "the device is mounted"),
        (KeyError("a secret"), "unexpected error: KeyError"),
        (TimeoutError("of something inside"), "unexpected error: TimeoutError"),
    ],
)
async def test_an_error_of_a_handler_is_internal_and_tells_no_insides(
    tmp_path: Path, error: Exception, message: str
) -> None:
    async def fail(request: dict[str, Any]) -> dict[str, Any]:
        raise error

    async with calling(tmp_path, {CREATE: fail}) as asking:
        with pytest.raises(RpcError) as raised:
            await asking.call(CREATE, {})
    assert (raised.value.code, raised.value.message) == (Code.INTERNAL, message)


async def test_a_method_that_is_not_served_is_unimplemented(tmp_path: Path) -> None:
    async with calling(tmp_path, {INFO: info}) as asking:
        assert await code_of(asking, PUBLISH, {}) is Code.UNIMPLEMENTED
        assert await code_of(asking, "/csi.v1.Node/Nothing", {}) is Code.UNIMPLEMENTED
        assert await asking.call(INFO, {})


async def test_too_large_a_message_is_refused_on_either_side(tmp_path: Path) -> None:
    async def large(request: dict[str, Any]) -> dict[str, Any]:
        return {"next_token": "x" * (connection.MAX_MESSAGE_BYTES + 1)}

    async with calling(tmp_path, {CREATE: echo, LIST: large, INFO: info}) as asking:
        request = {"name": "x" * (connection.MAX_MESSAGE_BYTES + 1)}
        assert await code_of(asking, CREATE, request) is Code.RESOURCE_EXHAUSTED
        assert await code_of(asking, LIST, {}) is Code.RESOURCE_EXHAUSTED
        assert await asking.call(INFO, {})


async def test_a_server_refuses_what_a_less_careful_caller_sends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "MAX_MESSAGE_BYTES", 1 << 30)
    async with calling(tmp_path, {CREATE: echo, INFO: info}) as asking:
        request = {"name": "x" * (connection.MAX_MESSAGE_BYTES + 1)}
        assert await code_of(asking, CREATE, request) is Code.RESOURCE_EXHAUSTED
        assert await asking.call(INFO, {})


async def test_a_caller_refuses_what_a_less_careful_server_sends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_MESSAGE_BYTES", 1 << 30)

    async def large(request: dict[str, Any]) -> dict[str, Any]:
        return {"next_token": "x" * (connection.MAX_MESSAGE_BYTES + 1)}

    async with calling(tmp_path, {LIST: large, INFO: info}) as asking:
        assert await code_of(asking, LIST, {}) is Code.RESOURCE_EXHAUSTED
        assert await asking.call(INFO, {})


async def test_requests_together_take_no_more_memory_than_their_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_BUFFERED_BYTES", 100_000)
    async with calling(tmp_path, {CREATE: echo, INFO: info}) as asking:
        assert await code_of(asking, CREATE, {"name": "x" * 200_000}) is Code.RESOURCE_EXHAUSTED
        assert await asking.call(CREATE, {"name": "x" * 50_000})


async def test_more_calls_than_the_bound_are_told_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_CALLS", 1)
    begun, held = asyncio.Event(), asyncio.Event()

    async def hold(request: dict[str, Any]) -> dict[str, Any]:
        begun.set()
        await held.wait()
        return {}

    async with calling(tmp_path, {PUBLISH: hold, INFO: info}) as asking, asyncio.TaskGroup() as tasks:
        first = tasks.create_task(asking.call(PUBLISH, {}))
        await begun.wait()
        assert await code_of(asking, INFO, {}) is Code.UNAVAILABLE
        held.set()
        assert await first == {}
        assert await asking.call(INFO, {})


class Held:
    """A handler that stays until it is cancelled, and says so."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return {}


async def test_the_time_limit_of_a_caller_ends_the_call_at_both_ends(tmp_path: Path) -> None:
    held = Held()
    async with calling(tmp_path, {PUBLISH: held, INFO: info}) as asking:
        assert await code_of(asking, PUBLISH, {}, timeout=0.05) is Code.DEADLINE_EXCEEDED
        await held.cancelled.wait()
        assert await asking.call(INFO, {})


async def test_the_server_keeps_the_time_limit_when_the_caller_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localpv.csi.status.write_timeout", lambda seconds: "50m")
    held = Held()
    async with calling(tmp_path, {PUBLISH: held}) as asking:
        with pytest.raises(RpcError, match="the time that the caller waits is over"):
            await asking.call(PUBLISH, {})
    assert held.cancelled.is_set()


async def test_a_cancelled_call_is_cancelled_at_the_server(tmp_path: Path) -> None:
    held = Held()
    async with calling(tmp_path, {PUBLISH: held, INFO: info}) as asking:
        task = asyncio.create_task(asking.call(PUBLISH, {}))
        await held.begun.wait()
        task.cancel()
        await held.cancelled.wait()
        assert await asking.call(INFO, {})


async def test_calls_end_with_the_connection_and_the_next_one_connects_anew(tmp_path: Path) -> None:
    held = Held()
    path = tmp_path / "csi.sock"
    serving = await serve(path, {PUBLISH: held})
    asking = Channel(path)
    task = asyncio.create_task(asking.call(PUBLISH, {}))
    await held.begun.wait()
    await serving.close(drain_seconds=0)
    with pytest.raises(RpcError) as raised:
        await task
    assert raised.value.code is Code.UNAVAILABLE
    assert held.cancelled.is_set()
    assert await code_of(asking, INFO, {}) is Code.UNAVAILABLE
    again = await serve(path, {INFO: info})
    assert await asking.call(INFO, {})
    await asking.close()
    await again.close()


async def test_a_server_that_goes_answers_what_runs_and_takes_no_more(tmp_path: Path) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: dict[str, Any]) -> dict[str, Any]:
        begun.set()
        await go_on.wait()
        return {"volume": {"volume_id": "x" * 300_000}}

    path = tmp_path / "csi.sock"
    serving = await serve(path, {CREATE: slow, INFO: info})
    asking = Channel(path)
    running = asyncio.create_task(asking.call(CREATE, {"name": "v"}))
    await begun.wait()
    closing = asyncio.create_task(serving.close(drain_seconds=60))
    await eventually(lambda: not path.exists())
    assert await code_of(asking, INFO, {}) is Code.UNAVAILABLE
    assert not running.done()
    go_on.set()
    assert len((await running)["volume"]["volume_id"]) == 300_000
    await closing
    await asking.close()


async def test_the_socket_is_for_its_owner_and_goes_with_the_server(tmp_path: Path) -> None:
    path = tmp_path / "csi.sock"
    serving = await serve(path, {})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    await serving.close()
    assert not path.exists()


async def test_a_socket_that_was_left_behind_is_replaced_and_one_in_use_is_not(tmp_path: Path) -> None:
    path = tmp_path / "csi.sock"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    serving = await serve(path, {INFO: info})
    with pytest.raises(errors.StartError, match="another process answers"):
        await serve(path, {})
    asking = Channel(path)
    assert await asking.call(INFO, {})
    await asking.close()
    await serving.close()


async def test_a_file_in_place_of_the_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "csi.sock"
    path.write_text("precious")
    with pytest.raises(errors.StartError):
        await serve(path, {})
    assert path.read_text() == "precious"


async def test_a_path_that_is_too_long_for_a_socket_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(errors.StartError, match="too long"):
        await serve(tmp_path / ("x" * 120), {})


async def test_the_socket_of_one_that_came_after_stays(tmp_path: Path) -> None:
    path = tmp_path / "csi.sock"
    first = await serve(path, {})
    os.unlink(path)
    second = await serve(path, {INFO: info})
    await first.close()
    asking = Channel(path)
    assert await asking.call(INFO, {})
    await asking.close()
    await second.close()
