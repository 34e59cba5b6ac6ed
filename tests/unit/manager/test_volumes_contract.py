"""What the manager relies on of volumes: at an API server, and in the fake that its other tests use."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.contract import wire
from tests.unit.manager.worlds import FakeVolumes, Weather

from localpv import errors
from localpv.api.kinds.volumes import PersistentVolume
from localpv.client import client as clients
from localpv.client import config
from localpv.client.informer_factory import InformerFactory
from localpv.disk import labels
from localpv.manager import volumes as offers
from localpv.manager.volumes import ApiVolumes, Volumes
from localpv.runtime.clock import SystemClock

LOST = labels.LOST_SINCE


@pytest.fixture(params=["fake", "api"])
async def volumes(request: pytest.FixtureRequest) -> AsyncIterator[Volumes]:
    if request.param == "fake":
        yield FakeVolumes(Weather())
        return
    target: wire.Target = request.getfixturevalue("target")
    async with clients.connect(config.load(Path(target.kubeconfig)), component="manager") as client:
        yield ApiVolumes(client, informers=InformerFactory(client, clock=SystemClock()), clock=SystemClock())


def a_volume(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pv-{uuid.uuid4().hex[:8]}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "persistentVolumeReclaimPolicy": "Delete",
            "local": {"path": "/mnt/disks/a"},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}
                    ]
                }
            },
            **spec,
        },
    }


async def now(volumes: Volumes, volume: PersistentVolume) -> PersistentVolume:
    """As it is now: the server's own parts write to volumes too."""
    found = await volumes.find(volume.key)
    assert found is not None
    return found


async def changed(volumes: Volumes, volume: PersistentVolume, value: str | None) -> PersistentVolume:
    while True:
        try:
            await volumes.annotate(await now(volumes, volume), LOST, value)
            return await now(volumes, volume)
        except errors.Conflict:
            continue


async def test_new_volume_is_held_and_has_its_name_for_itself(volumes: Volumes) -> None:
    body = a_volume()
    made = await volumes.create(body)
    assert offers.is_held(made) and made.metadata.uid and made.metadata.resource_version
    assert (await now(volumes, made)).metadata.uid == made.metadata.uid
    with pytest.raises(errors.AlreadyExists):
        await volumes.create(body)


async def test_volume_that_is_not_there_is_none(volumes: Volumes) -> None:
    assert await volumes.find("nothing") is None


async def test_annotation_is_set_and_taken_off(volumes: Volumes) -> None:
    made = await volumes.create(a_volume())
    assert (await changed(volumes, made, "then")).metadata.annotations[LOST] == "then"
    assert LOST not in (await changed(volumes, made, None)).metadata.annotations


async def test_everything_that_was_decided_for_an_older_state_is_a_conflict(volumes: Volumes) -> None:
    old = await volumes.create(a_volume())
    await changed(volumes, old, "then")
    with pytest.raises(errors.Conflict):
        await volumes.annotate(old, LOST, "later")
    with pytest.raises(errors.Conflict):
        await volumes.free(old)
    with pytest.raises(errors.Conflict):
        await volumes.let_go(old)
    with pytest.raises(errors.Conflict):
        await volumes.take_over(old, "n1")
    with pytest.raises(errors.Conflict):
        await volumes.delete(old)
    assert (await now(volumes, old)).metadata.annotations[LOST] == "then"


async def test_held_volume_stays_until_we_let_go(volumes: Volumes) -> None:
    made = await volumes.create(a_volume())
    while True:
        try:
            assert not await volumes.delete(await now(volumes, made)), "it is held"
            break
        except errors.Conflict:
            continue
    going = await now(volumes, made)
    assert going.metadata.deleting and offers.is_held(going)
    while (found := await volumes.find(made.key)) is not None and offers.is_held(found):
        try:
            assert not offers.is_held(await volumes.let_go(found))
        except errors.Conflict:
            continue


async def test_deleting_what_is_gone_is_fine(volumes: Volumes) -> None:
    made = await volumes.create(a_volume())
    while (found := await volumes.find(made.key)) is not None:
        try:
            await volumes.delete(await volumes.let_go(found))
        except errors.Conflict:
            continue
    assert await volumes.delete(made)
    assert not offers.is_held(await volumes.let_go(made)), "nor is there anything to let go"
    with pytest.raises(errors.NotFound):
        await volumes.annotate(made, LOST, "then")


async def test_taking_over_labels_and_holds_once(volumes: Volumes) -> None:
    made = await volumes.create(a_volume())
    while True:
        try:
            loose = await volumes.let_go(await now(volumes, made))
            taken = await volumes.take_over(loose, "n1")
            break
        except errors.Conflict:
            continue
    assert taken.metadata.labels[labels.NODE] == "n1" and offers.is_held(taken)
    again = await now(volumes, made)
    assert await volumes.take_over(again, "n1") == again
    assert await volumes.take_over(again, "") == again


async def test_freed_volume_has_no_claim(volumes: Volumes) -> None:
    made = await volumes.create(a_volume(claimRef={"namespace": "default", "name": "data"}))
    assert made.spec.claim_ref is not None
    while True:
        try:
            await volumes.free(await now(volumes, made))
            break
        except errors.Conflict:
            continue
    assert (await now(volumes, made)).spec.claim_ref is None
