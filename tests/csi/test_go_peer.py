"""Both ends of the wire against those of Go, with the libraries that kubelets and drivers are made of."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes import build
from tests.unit.csi.random_messages import FACTS, a_message

from localpv.csi import codec
from localpv.csi.channel import Channel
from localpv.csi.server import serve
from localpv.csi.status import Code, RpcError

CREATE = "/csi.v1.Controller/CreateVolume"
DELETE = "/csi.v1.Controller/DeleteVolume"
CAPACITY = "/csi.v1.Controller/GetCapacity"
PUBLISH = "/csi.v1.Node/NodePublishVolume"


@asynccontextmanager
async def peer(*arguments: str | Path) -> AsyncIterator[asyncio.subprocess.Process]:
    try:
        program = build.program("csi-peer")
    except build.Missing as missing:
        pytest.skip(str(missing))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(program, *arguments, stdin=pipe, stdout=pipe, limit=1 << 24)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        # What is still in its pipes goes with them.
        process._transport.close()  # type: ignore[attr-defined]


async def said(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


async def test_every_message_is_written_byte_for_byte_as_go_writes_it() -> None:
    chosen = random.Random(13)
    retired = {"csi.v1.VolumeCondition"}
    """Of an earlier release of the interface: Go's library of the later one does not know it."""
    names = sorted(name for name in FACTS["messages"] if name.startswith(("csi.", "plugin")) and name not in retired)
    written = [(name, codec.encode(name, a_message(name, chosen, without=retired))) for name in names * 20]
    lines = "".join(f"{name} {base64.b64encode(raw).decode()}\n" for name, raw in written)
    async with peer("write") as process:
        out, _ = await process.communicate(lines.encode())
    answers = out.decode().splitlines()
    assert len(answers) == len(written)
    for (name, raw), answer in zip(written, answers, strict=True):
        fresh, unknown = answer.rsplit(" ", 1)
        assert (base64.b64decode(fresh), unknown) == (raw, "0"), name


async def test_a_caller_of_go_is_served(tmp_path: Path) -> None:
    async def create(request: dict[str, Any]) -> dict[str, Any]:
        return {"volume": {"volume_id": request.get("name", "")}}

    async def delete(request: dict[str, Any]) -> dict[str, Any]:
        raise RpcError(Code.FAILED_PRECONDITION, request["volume_id"])

    cancelled = 0

    async def hold(request: dict[str, Any]) -> dict[str, Any]:
        nonlocal cancelled
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled += 1
            raise
        return {}

    path = tmp_path / "csi.sock"
    serving = await serve(path, {CREATE: create, DELETE: delete, PUBLISH: hold})
    async with peer("call", path) as process:
        out, _ = await process.communicate()
    await serving.close()
    assert out.decode().splitlines() == [
        "create 0 OK",
        "create 100 OK",
        "create 70000 OK",
        "create 3000000 OK",
        "too large ResourceExhausted",
        'delete FailedPrecondition "ä 100 %\\n"',
        "unknown Unimplemented",
        "limit DeadlineExceeded",
        "cancelled Canceled",
        "at once 0",
    ]
    assert cancelled == 2


async def test_a_server_of_go_is_called(tmp_path: Path) -> None:
    path = tmp_path / "go.sock"
    async with peer("serve", path) as process:
        assert await said(process) == "serving"
        asking = Channel(path)
        for size in (0, 100, 70_000, 3_000_000):
            request = {"name": "x" * size, "capacity_range": {"required_bytes": -5}, "parameters": {"a": "b"}}
            answer = await asking.call(CREATE, request)
            assert answer["volume"] == {
                "capacity_bytes": -5,
                "volume_context": {"a": "b"},
                **({"volume_id": "x" * size} if size else {}),
            }
        with pytest.raises(RpcError) as raised:
            await asking.call(DELETE, {"volume_id": "ä 100 %\n"})
        assert (raised.value.code, raised.value.message) == (Code.FAILED_PRECONDITION, "ä 100 %\n")
        with pytest.raises(RpcError) as raised:
            await asking.call(CAPACITY, {})
        assert raised.value.code is Code.UNIMPLEMENTED

        task = asyncio.create_task(asking.call(PUBLISH, {}))
        assert await said(process) == "begun true"
        task.cancel()
        assert await said(process) == "ended context canceled"
        with pytest.raises(RpcError) as raised:
            await asking.call(PUBLISH, {}, timeout=0.2)
        assert raised.value.code is Code.DEADLINE_EXCEEDED

        answers = await asyncio.gather(*(asking.call(CREATE, {"name": f"v{n}"}) for n in range(300)))
        assert [answer["volume"]["volume_id"] for answer in answers] == [f"v{n}" for n in range(300)]
        await asking.close()


async def test_a_server_of_go_that_goes_politely_finishes_what_runs(tmp_path: Path) -> None:
    path = tmp_path / "go.sock"
    async with peer("serve", path) as process:
        assert await said(process) == "serving"
        asking = Channel(path)
        task = asyncio.create_task(asking.call(PUBLISH, {}, timeout=2))
        assert await said(process) == "begun true"
        assert process.stdin is not None
        process.stdin.close()
        with pytest.raises(RpcError) as raised:
            while True:
                await asking.call(CREATE, {"name": "v"})
        assert raised.value.code is Code.UNAVAILABLE
        with pytest.raises(RpcError) as raised:
            await task
        assert raised.value.code is Code.DEADLINE_EXCEEDED
        await asking.close()
