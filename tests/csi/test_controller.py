"""What a provisioner asks: volumes and snapshots made, listed, grown and removed, with the codes that CSI has."""

from __future__ import annotations

from typing import Any

import pytest
from tests.csi.driver import MIB, NODE, Driver

from localpv.csi.status import Code, RpcError

CAPABILITIES = [{"mount": {}, "access_mode": {"mode": "SINGLE_NODE_WRITER"}}]
SIZE = 8 * MIB


def a_volume(name: str = "pvc-1", *, size: int = SIZE, **request: Any) -> dict[str, Any]:
    return {
        "name": name,
        "capacity_range": {"required_bytes": size} if size else {},
        "volume_capabilities": CAPABILITIES,
        **request,
    }


async def made(driver: Driver, name: str = "pvc-1", **request: Any) -> str:
    answer = await driver.call("CreateVolume", **a_volume(name, **request))
    return str(answer["volume"]["volume_id"])


async def test_a_volume_says_what_it_is_and_where(driver: Driver) -> None:
    answer = await driver.call("CreateVolume", **a_volume(size=SIZE - 1, parameters={"fsType": "xfs", "pool": "fast"}))
    assert answer["volume"] == {
        "volume_id": "fast/pvc-1",
        "capacity_bytes": SIZE,
        "volume_context": {"fsType": "xfs"},
        "accessible_topology": [{"segments": {"topology.localpv.dev/node": NODE}}],
    }
    assert await driver.call("CreateVolume", **a_volume(parameters={"fsType": "xfs"})) == answer


@pytest.mark.parametrize("name", ["Any Name/../x", "ä" * 64, "x" * 128, "snapshot-1", "csi-volume-1"])
async def test_a_volume_may_have_any_name(driver: Driver, name: str) -> None:
    volume_id = await made(driver, name)
    assert await made(driver, name) == volume_id
    assert await made(driver, name + "x") != volume_id
    snapshot = await driver.call("CreateSnapshot", name=name, source_volume_id=volume_id)
    assert snapshot["snapshot"]["snapshot_id"] != volume_id


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"name": ""}, Code.INVALID_ARGUMENT),
        ({"volume_capabilities": []}, Code.INVALID_ARGUMENT),
        ({"volume_capabilities": [{"mount": {}}]}, Code.INVALID_ARGUMENT),
        ({"parameters": {"replicas": "3"}}, Code.INVALID_ARGUMENT),
        ({"parameters": {"fsType": "ntfs"}}, Code.INVALID_ARGUMENT),
        ({"mutable_parameters": {"iops": "3"}}, Code.INVALID_ARGUMENT),
        ({"parameters": {"pool": "slow"}}, Code.RESOURCE_EXHAUSTED),
        ({"capacity_range": {"required_bytes": 1 << 60}}, Code.RESOURCE_EXHAUSTED),
        ({"capacity_range": {"required_bytes": -1}}, Code.INVALID_ARGUMENT),
        ({"capacity_range": {"required_bytes": 5 * MIB, "limit_bytes": 4 * MIB}}, Code.OUT_OF_RANGE),
        ({"capacity_range": {"required_bytes": MIB + 1, "limit_bytes": MIB + 2}}, Code.OUT_OF_RANGE),
        (
            {"accessibility_requirements": {"requisite": [{"segments": {"topology.localpv.dev/node": "other"}}]}},
            Code.RESOURCE_EXHAUSTED,
        ),
        ({"volume_content_source": {"volume": {"volume_id": "fast/pvc-0"}}}, Code.NOT_FOUND),
        ({"volume_content_source": {"snapshot": {"snapshot_id": "fast/pvc-0"}}}, Code.NOT_FOUND),
        ({"volume_content_source": {"snapshot": {"snapshot_id": "../../etc"}}}, Code.NOT_FOUND),
        ({"volume_content_source": {}}, Code.INVALID_ARGUMENT),
    ],
)
async def test_what_cannot_be_made_is_refused_with_the_right_code(
    driver: Driver, request_: dict[str, Any], code: Code
) -> None:
    assert await driver.refused("CreateVolume", **a_volume() | request_) is code
    assert (await driver.call("ListVolumes")).get("entries", []) == []


async def test_parameters_of_sidecars_are_theirs(driver: Driver) -> None:
    assert await made(driver, parameters={"csi.storage.k8s.io/pvc/name": "data"})


async def test_the_same_name_for_something_else_exists_already(driver: Driver) -> None:
    first = await made(driver)
    assert await driver.refused("CreateVolume", **a_volume(size=2 * SIZE)) is Code.ALREADY_EXISTS
    clone = {"volume_content_source": {"volume": {"volume_id": first}}}
    assert await driver.refused("CreateVolume", **a_volume(**clone)) is Code.ALREADY_EXISTS
    other = await made(driver, "pvc-2")
    await driver.call("CreateSnapshot", name="s", source_volume_id=first)
    assert await driver.refused("CreateSnapshot", name="s", source_volume_id=other) is Code.ALREADY_EXISTS


async def test_a_volume_of_which_no_size_is_asked_has_one_within_the_limit(driver: Driver) -> None:
    answer = await driver.call("CreateVolume", **a_volume(size=0, capacity_range={"limit_bytes": 3 * MIB}))
    assert answer["volume"]["capacity_bytes"] == 3 * MIB


async def test_a_clone_is_at_least_as_large_as_its_source(driver: Driver) -> None:
    source = {"volume_content_source": {"volume": {"volume_id": await made(driver)}}}
    assert await driver.refused("CreateVolume", **a_volume("pvc-2", size=MIB, **source)) is Code.OUT_OF_RANGE
    answer = await driver.call("CreateVolume", **a_volume("pvc-2", size=0, **source))
    assert answer["volume"]["capacity_bytes"] == SIZE
    assert answer["volume"]["content_source"] == source["volume_content_source"]


async def test_volumes_are_told_in_pages_that_stay_right_while_others_come_and_go(driver: Driver) -> None:
    ids = [await made(driver, f"pvc-{number}", size=MIB) for number in range(5)]
    first = await driver.call("ListVolumes", max_entries=2)
    assert [entry["volume"]["volume_id"] for entry in first["entries"]] == ids[:2]
    await driver.call("DeleteVolume", volume_id=ids[1])
    await made(driver, "pvc-00", size=MIB)
    second = await driver.call("ListVolumes", max_entries=2, starting_token=first["next_token"])
    assert [entry["volume"]["volume_id"] for entry in second["entries"]] == ids[2:4]
    last = await driver.call("ListVolumes", max_entries=2, starting_token=second["next_token"])
    assert [entry["volume"]["volume_id"] for entry in last["entries"]] == ids[4:]
    assert "next_token" not in last
    assert await driver.refused("ListVolumes", starting_token="7") is Code.ABORTED
    assert await driver.refused("ListVolumes", max_entries=-1) is Code.INVALID_ARGUMENT


async def test_a_volume_and_a_snapshot_are_not_taken_for_each_other(driver: Driver) -> None:
    volume_id = await made(driver)
    answer = await driver.call("CreateSnapshot", name="snapshot-1", source_volume_id=volume_id)
    snapshot_id = answer["snapshot"]["snapshot_id"]
    assert await driver.refused("ControllerGetVolume", volume_id=snapshot_id) is Code.NOT_FOUND
    assert await driver.refused("GetSnapshot", snapshot_id=volume_id) is Code.NOT_FOUND
    await driver.call("DeleteVolume", volume_id=snapshot_id)
    await driver.call("DeleteSnapshot", snapshot_id=volume_id)
    assert (await driver.call("GetSnapshot", snapshot_id=snapshot_id))["snapshot"] == answer["snapshot"]
    found = await driver.call("ControllerGetVolume", volume_id=volume_id)
    assert found["status"] == {"volume_condition": {"message": "healthy"}}


async def test_a_snapshot_says_when_it_was_made_and_of_what(driver: Driver) -> None:
    volume_id = await made(driver)
    snapshot = (await driver.call("CreateSnapshot", name="snapshot-1", source_volume_id=volume_id))["snapshot"]
    assert snapshot.pop("creation_time")["seconds"] > 1_700_000_000
    assert snapshot == {
        "snapshot_id": "fast/snapshot-1",
        "source_volume_id": volume_id,
        "size_bytes": SIZE,
        "ready_to_use": True,
    }
    listed = await driver.call("ListSnapshots", source_volume_id=volume_id)
    assert len(listed["entries"]) == 1
    assert (await driver.call("ListSnapshots", source_volume_id="fast/other")).get("entries", []) == []


async def test_what_was_never_there_is_gone(driver: Driver) -> None:
    for volume_id in ("fast/pvc-9", "slow/pvc-9", "../../etc", "x" * 5000):
        await driver.call("DeleteVolume", volume_id=volume_id)
        await driver.call("DeleteSnapshot", snapshot_id=volume_id)


async def test_the_capacity_is_what_can_still_be_promised(driver: Driver) -> None:
    before = (await driver.call("GetCapacity"))["available_capacity"]
    await made(driver, size=64 * MIB)
    after = await driver.call("GetCapacity", parameters={"pool": "fast"})
    assert before - after["available_capacity"] == 64 * MIB
    assert after["maximum_volume_size"] == {"value": after["available_capacity"]}
    assert (await driver.call("GetCapacity", parameters={"pool": "slow"})).get("available_capacity", 0) == 0
    elsewhere = {"segments": {"topology.localpv.dev/node": "other"}}
    assert await driver.call("GetCapacity", accessible_topology=elsewhere) == {}


async def test_a_volume_grows_within_what_is_allowed(driver: Driver) -> None:
    volume_id = await made(driver)
    expand = {"volume_id": volume_id, "volume_capability": {"block": {}, "access_mode": {"mode": "SINGLE_NODE_WRITER"}}}
    answer = await driver.call("ControllerExpandVolume", **expand, capacity_range={"required_bytes": 2 * SIZE})
    assert answer == {"capacity_bytes": 2 * SIZE}
    assert await driver.call("ControllerExpandVolume", **expand, capacity_range={"required_bytes": SIZE}) == answer
    for wanted, code in (
        ({"required_bytes": 1 << 60}, Code.RESOURCE_EXHAUSTED),
        ({"required_bytes": 1, "limit_bytes": SIZE}, Code.OUT_OF_RANGE),
        ({}, Code.INVALID_ARGUMENT),
    ):
        assert await driver.refused("ControllerExpandVolume", **expand, capacity_range=wanted) is code


async def test_capabilities_are_confirmed_or_not_with_the_reason(driver: Driver) -> None:
    volume_id = await made(driver)
    confirmed = await driver.call(
        "ValidateVolumeCapabilities", volume_id=volume_id, volume_capabilities=CAPABILITIES, volume_context={"a": "b"}
    )
    assert confirmed == {"confirmed": {"volume_capabilities": CAPABILITIES, "volume_context": {"a": "b"}}}
    many = [{"mount": {}, "access_mode": {"mode": "MULTI_NODE_MULTI_WRITER"}}]
    refused = await driver.call("ValidateVolumeCapabilities", volume_id=volume_id, volume_capabilities=many)
    assert set(refused) == {"message"}


async def test_a_volume_that_was_cut_short_is_finished_by_the_next_call(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = driver.pools[0]

    def die(record: object) -> None:
        raise OSError(5, "died")

    with monkeypatch.context() as patched:
        patched.setattr(pool, "_finish", die)
        with pytest.raises(RpcError):
            await driver.call("CreateVolume", **a_volume())
    assert (await driver.call("ListVolumes")).get("entries", []) == []
    assert await made(driver) == "fast/pvc-1"
    assert len((await driver.call("ListVolumes"))["entries"]) == 1
