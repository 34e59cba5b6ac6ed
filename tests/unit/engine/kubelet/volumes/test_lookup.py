"""What the node asks a real API server."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.engine.binder import engines
from tests.unit.engine.binder.engines import SPACE, Engine

from localpv import errors
from localpv.api.kinds.cluster import ConfigMap, Secret
from localpv.api.kinds.containers import Container
from localpv.api.kinds.meta import ObjectMeta, read_time
from localpv.api.kinds.pods import Pod, PodSpec
from localpv.api.resources import BUILT_IN
from localpv.engine.kubelet.volumes import ApiLookup

ACCOUNTS = next(resource for resource in BUILT_IN if resource.kind == "ServiceAccount")


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    async with engines.running(tmp_path / "data") as made:
        yield made


@pytest.fixture
async def lookup(engine: Engine) -> ApiLookup:
    return ApiLookup(engine.client, node="node-1")


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def test_what_is_not_there_is_none(lookup: ApiLookup) -> None:
    assert await lookup.claim(SPACE, "none") is None
    assert await lookup.volume("none") is None
    assert await lookup.volume_source("none") == ""
    assert await lookup.config_map(SPACE, "none") is None
    assert await lookup.secret(SPACE, "none") is None
    assert await lookup.node() is None


async def test_claims_volumes_and_the_node_are_found(lookup: ApiLookup, engine: Engine) -> None:
    await engine.node("node-1")
    await engine.volume("pv")
    await engine.claim("claim")
    claim, volume, node = await lookup.claim(SPACE, "claim"), await lookup.volume("pv"), await lookup.node()
    assert claim is not None and claim.metadata.uid
    assert volume is not None and volume.spec.local is not None
    assert await lookup.volume_source("pv") == "local"
    assert node is not None and node.metadata.name == "node-1"


async def test_keys_are_bytes_whatever_they_hold(lookup: ApiLookup, engine: Engine) -> None:
    await engine.client.objects(ConfigMap).create(
        ConfigMap(
            metadata=ObjectMeta(name="settings", namespace=SPACE),
            data={"text": "ü"},
            binary_data={"bytes": encoded(b"\xff\x00")},
        )
    )
    await engine.client.objects(Secret).create(
        Secret(metadata=ObjectMeta(name="keys", namespace=SPACE), data={"key": encoded(b"\x01secret")})
    )
    assert await lookup.config_map(SPACE, "settings") == {"text": "ü".encode(), "bytes": b"\xff\x00"}
    assert await lookup.secret(SPACE, "keys") == {"key": b"\x01secret"}


async def test_a_token_is_the_pods_own_and_ends(lookup: ApiLookup, engine: Engine) -> None:
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "runner", "namespace": SPACE},
    }
    await engine.client.untyped(ACCOUNTS).create(account)
    pod = await engine.client.objects(Pod).create(
        Pod(
            metadata=ObjectMeta(name="web", namespace=SPACE),
            spec=PodSpec(
                containers=(Container(name="main", image="busybox"),),
                service_account_name="runner",
                node_name="node-1",
            ),
        )
    )
    token, ends = await lookup.token(pod, audience="", seconds=600)
    assert token.count(".") == 2 and read_time(ends)
    await engine.client.untyped(ACCOUNTS).delete("runner", SPACE)
    with pytest.raises(errors.NotFound):
        await lookup.token(pod, audience="", seconds=600)


@pytest.mark.parametrize("answer", [{}, {"status": {}}, {"status": {"token": ""}}])
async def test_server_that_gives_no_token_is_told(
    lookup: ApiLookup, monkeypatch: pytest.MonkeyPatch, answer: dict[str, object]
) -> None:
    async def call(*_: object) -> dict[str, object]:
        return answer

    monkeypatch.setattr(lookup._accounts, "call", call)
    pod = Pod(metadata=ObjectMeta(name="web", namespace=SPACE, uid="u"))
    with pytest.raises(errors.InternalError, match="no token for service account default"):
        await lookup.token(pod, audience="", seconds=600)
