"""LocalDisks at an API server: what only this side has."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from msgspec import structs
from tests.contract import wire
from tests.unit.disk.records.conftest import RESOURCE, Side
from tests.unit.disk.records.test_records import SEEN, a_disk

from localpv.api.kinds.localdisk import OfferedVolume

AtServer = Callable[[], AbstractAsyncContextManager[Side]]


async def test_agent_and_manager_are_known_by_the_fields_they_wrote(at_server: AtServer, api: wire.Api) -> None:
    async with at_server() as side:
        made = await side.agent.write_status(await side.agent.create(a_disk(side)), SEEN)
        await side.manager.write_spec(made, structs.replace(made.spec, volume=OfferedVolume(name="pv")))
        managed = api.get(f"{RESOURCE}/{made.key}")["metadata"]["managedFields"]
    by_name = {(entry["manager"], entry.get("subresource", "")): entry["fieldsV1"] for entry in managed}
    assert set(by_name) == {("localpv-agent", ""), ("localpv-agent", "status"), ("localpv-manager", "")}
    assert by_name["localpv-manager", ""] == {"f:spec": {"f:volume": {".": {}, "f:name": {}}}}


async def test_node_reads_only_its_own_records(at_server: AtServer) -> None:
    async with at_server() as one, at_server() as two:
        made = await one.agent.create(a_disk(one))
        await two.agent.create(a_disk(two))
        assert list(await one.agent.list()) == [made]


async def test_fields_of_a_newer_version_survive_our_writes(at_server: AtServer, api: wire.Api) -> None:
    async with at_server() as side:
        made = await side.agent.create(a_disk(side))
        label = {"metadata": {"labels": {"example.com/team": "storage"}}}
        api.send("PATCH", f"{RESOURCE}/{made.key}", body=label, content_type=wire.MERGE_PATCH)
        labelled = await side.agent.get(made.key)
        assert labelled is not None
        await side.manager.write_spec(labelled, structs.replace(made.spec, volume=OfferedVolume(name="pv")))
        assert api.get(f"{RESOURCE}/{made.key}")["metadata"]["labels"] == {"example.com/team": "storage"}


async def test_table_reads_like_lsblk(at_server: AtServer, api: wire.Api) -> None:
    async with at_server() as side:
        status = structs.replace(SEEN, size="931.5Gi", medium="SSD", reason="Clean")
        made = await side.agent.write_status(await side.agent.create(a_disk(side)), status)
        table = json.loads(api.send("GET", f"{RESOURCE}/{made.key}", accept=wire.TABLE).raw)
    shown = dict(zip([column["name"] for column in table["columnDefinitions"]], table["rows"][0]["cells"], strict=True))
    del shown["Age"]
    assert shown == {
        "Name": made.key,
        "Node": side.node,
        "Entry": "sdb",
        "Size": "931.5Gi",
        "Type": "BlockDevice",
        "Medium": "SSD",
        "Model": None,
        "Class": "fast",
        "Phase": "Available",
        "Volume": None,
        "Reason": "Clean",
        "Path": "/mnt/fast/sdb",
        "Serial": "S1",
    }


async def test_server_refuses_a_phase_that_does_not_exist(at_server: AtServer, api: wire.Api) -> None:
    async with at_server() as side:
        made = await side.agent.create(a_disk(side))
        patch = {"status": {"phase": "Teleporting"}}
        answer = api.send("PATCH", f"{RESOURCE}/{made.key}/status", body=patch, content_type=wire.MERGE_PATCH)
    assert answer.code == 422
    assert [cause["field"] for cause in json.loads(answer.raw)["details"]["causes"]] == ["status.phase"]
