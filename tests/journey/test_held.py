"""Volumes that people delete by hand, at a real API server: each goes only when it is known what is on its disk."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.journey.place import Place

from localpv.api.kinds.localdisk import LocalDisk, OfferedVolume, Phase
from localpv.cli.migrate import migrate
from localpv.disk import labels
from localpv.disk.records.api import ApiRecords
from localpv.manager import volumes as offers
from localpv.manager.publish import names as publish_names
from localpv.manager.release import holding


async def forget_uid(place: Place, name: str) -> None:
    """Leave the record as a manager does that dies between making the volume and recording it."""
    disk: LocalDisk = await place.disks.get(name)
    assert disk.spec.volume is not None
    await place.disks.patch(name, {"spec": {"volume": {"uid": None, "reclaimPolicy": None}}})
    left: LocalDisk = await place.disks.get(name)
    assert left.spec.volume == OfferedVolume(name=disk.spec.volume.name)


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
@pytest.mark.seed("DEL-9")
async def test_volume_used_and_deleted_while_the_manager_was_down_comes_back_only_clean(
    place: Place, policy: str
) -> None:
    await place.set_up()
    async with place.managed():
        disk = await place.finds()
        first = await place.published(disk.key)
        assert labels.FINALIZER in first.metadata.finalizers
    await forget_uid(place, disk.key)
    await place.volumes.patch(first.key, {"spec": {"persistentVolumeReclaimPolicy": policy}})
    await place.claims(first.key)
    await place.phase(first.key, "Released")
    await place.volumes.delete(first.key)
    async with place.managed():
        if policy == "Retain":
            await place.until_gone(first.key)
            told = await place.until_disk(disk.key, lambda disk: disk.status.conditions)
            assert told.status.conditions[0].reason == "NotCleaned"
            assert (told.spec.clean, told.spec.volume.uid) == (None, first.metadata.uid)
            return
        ordered = await place.until_disk(disk.key, lambda disk: disk.spec.clean is not None)
        assert ordered.spec.clean.volume_uid == first.metadata.uid
        (still,) = await place.own_volumes()
        assert still.metadata.deleting
        await place.until_told(first.key, holding.WAITS)
        await place.cleans(disk.key)
        await place.until_gone(first.key)
        await place.until_disk(disk.key, lambda disk: disk.spec.volume is None)
        await place.reports(disk.key, phase=Phase.AVAILABLE, eligible=True)
        second = await place.published(disk.key)
        assert second.metadata.uid != first.metadata.uid


async def test_deleted_volume_that_nobody_has_had_is_made_anew_without_cleaning(place: Place) -> None:
    await place.set_up()
    async with place.managed():
        disk = await place.finds()
        first = await place.published(disk.key)
        await place.volumes.delete(first.key)
        await place.until_gone(first.key)
        free = await place.until_disk(disk.key, lambda disk: disk.spec.volume is None)
        assert free.spec.clean is None
        await place.reports(disk.key, phase=Phase.AVAILABLE, eligible=True)
        second = await place.published(disk.key)
        assert (second.key, second.metadata.uid == first.metadata.uid) == (first.key, False)


async def test_used_volume_whose_record_somebody_deletes_stays_until_the_agent_finds_its_disk(place: Place) -> None:
    await place.set_up()
    async with place.managed():
        disk = await place.finds()
        first = await place.published(disk.key)
        await place.claims(first.key)
        await place.phase(first.key, "Released")
        await place.disks.delete(disk.key)
        await place.volumes.delete(first.key)
        await place.until_told(first.key, holding.WAITS)
        again = await place.finds()
        ordered = await place.until_disk(again.key, lambda disk: disk.spec.clean is not None)
        assert ordered.spec.clean.volume_uid == first.metadata.uid
        await place.cleans(disk.key)
        await place.until_gone(first.key)


async def test_unused_volume_whose_record_somebody_deletes_goes(place: Place) -> None:
    await place.set_up()
    async with place.managed():
        disk = await place.finds()
        first = await place.published(disk.key)
        await place.disks.delete(disk.key)
        await place.volumes.delete(first.key)
        await place.until_gone(first.key)


async def test_volume_of_an_earlier_version_is_held_when_the_manager_starts(place: Place) -> None:
    await place.set_up()
    async with place.managed():
        disk = await place.finds()
        first = await place.published(disk.key)
    await place.volumes.patch(first.key, {"metadata": {"finalizers": None}})
    async with place.managed():
        held = await place.until_volume(first.key, offers.is_held)
        assert held.metadata.uid == first.metadata.uid


@pytest.mark.parametrize("named", [True, False], ids=["named", "all"])
async def test_administrator_lets_volumes_go(place: Place, kubeconfig: Path, named: bool) -> None:
    await place.set_up()
    async with place.managed():
        disk = await place.finds()
        used = await place.published(disk.key)
        await place.claims(used.key)
        await place.phase(used.key, "Released")
        other = await place.published((await place.finds("disk2")).key)
        await place.until_disk(disk.key, lambda disk: disk.spec.clean is not None)
    await place.volumes.delete(used.key)

    def run(*options: str) -> str:
        names = [used.key] if named else []
        result = CliRunner().invoke(
            migrate, ["--release-finalizers", "--kubeconfig", str(kubeconfig), *options, *names], catch_exceptions=False
        )
        assert result.exit_code == 0
        return result.output

    shown = await asyncio.to_thread(run, "--dry-run")
    assert f"{used.key}: would be let go" in shown
    assert (other.key in shown) is not named
    assert offers.is_held(await place.volumes.get(used.key))
    done = await asyncio.to_thread(run)
    assert "NOT CLEANED" in done
    await place.until_gone(used.key)
    assert offers.is_held(await place.volumes.get(other.key)) is named
    # The record still knows: a manager that comes back has the disk cleaned before anything else.
    record = await ApiRecords(place.client).get(publish_names.disk_name(place.node, place.storage_class, "disk1"))
    assert record is not None and record.spec.clean is not None
