"""What PoolVolumes and PoolSnapshots of a node ask for is made, grown, kept and removed."""

from __future__ import annotations

import json
import shutil

import pytest
from tests.unit.agent.pools.node import MIB, NODE, POOL, PoolNode

from localpv.agent.pools.reconciler import wipe_method
from localpv.api.kinds.localpool import PoolSnapshot, PoolSource, PoolVolume
from localpv.config.settings import Configuration
from localpv.disk import labels
from localpv.host.model import methods


async def test_a_volume_is_made_told_and_removed_with_its_bytes(node: PoolNode) -> None:
    async with node.agent():
        await node.ask("pvc-1", 8 * MIB)
        ready = await node.until_ready("pvc-1")
        assert (ready.status.size_bytes, ready.status.observed_generation) == (8 * MIB, ready.metadata.generation)
        assert node.data("pvc-1").read_bytes() == bytes(8 * MIB)
        await node.client.objects(PoolVolume).delete("pvc-1")
        await node.until_gone("pvc-1")
        assert node.folders() == set()


async def test_the_pool_is_told_with_what_others_have_in_it_and_nothing_counted_twice(node: PoolNode) -> None:
    async with node.agent() as pools:
        told = await node.until_pool(lambda pool: pool.status.observed_at is not None)
        assert (told.spec.kind, told.spec.class_names, told.spec.node_name) == ("file", ("fast",), NODE)
        assert (told.status.capacity_bytes, told.status.extent_bytes) == (64 * MIB, MIB)
        assert told.status.snapshots
        await node.ask("pvc-1", 8 * MIB)
        await node.until_ready("pvc-1")
        pool = pools.get(POOL)
        assert pool is not None
        await pool.create("by-csi", 4 * MIB)
        await node.ask("pvc-2", 8 * MIB)
        told = await node.until_pool(lambda pool: pool.status.foreign_bytes == 4 * MIB)
        await pool.remove("by-csi", method=methods.ZeroOut())
        await node.ask("pvc-3", 8 * MIB)
        await node.until_pool(lambda pool: pool.status.foreign_bytes == 0)


async def test_a_pool_that_is_full_says_so_and_makes_nothing(node: PoolNode) -> None:
    async with node.agent():
        await node.ask("pvc-1", 60 * MIB)
        await node.until_ready("pvc-1")
        await node.ask("pvc-2", 5 * MIB)
        failed = await node.until("pvc-2", lambda one: one.status.phase == "Failed")
        assert failed.status.code == "RESOURCE_EXHAUSTED"
        assert "4194304 bytes left" in failed.status.message
        assert node.folders() == {"pvc-1"}
        await node.client.objects(PoolVolume).delete("pvc-2")
        await node.until_gone("pvc-2")


async def test_a_volume_grows_when_its_spec_does_and_one_that_cannot_stays_ready_and_says_why(node: PoolNode) -> None:
    async with node.agent():
        await node.ask("pvc-1", 8 * MIB)
        await node.until_ready("pvc-1")
        await node.client.objects(PoolVolume).patch("pvc-1", {"spec": {"sizeBytes": 16 * MIB}})
        await node.until("pvc-1", lambda one: one.status.size_bytes == 16 * MIB)
        await node.client.objects(PoolVolume).patch("pvc-1", {"spec": {"sizeBytes": 65 * MIB}})
        refused = await node.until("pvc-1", lambda one: one.status.code == "RESOURCE_EXHAUSTED")
        assert (refused.status.phase, refused.status.size_bytes) == ("Ready", 16 * MIB)
        assert refused.status.observed_generation == refused.metadata.generation
        await node.client.objects(PoolVolume).patch("pvc-1", {"spec": {"sizeBytes": 32 * MIB}})
        grown = await node.until("pvc-1", lambda one: one.status.size_bytes == 32 * MIB)
        assert grown.status.code == ""


async def test_a_snapshot_and_what_is_restored_of_it_have_the_bytes_of_the_moment(node: PoolNode) -> None:
    async with node.agent():
        await node.ask("pvc-1", 8 * MIB)
        await node.until_ready("pvc-1")
        with node.data("pvc-1").open("r+b") as file:
            file.write(b"then")
        await node.ask_snapshot("snapshot-1", 8 * MIB)
        taken = await node.until_ready("snapshot-1", PoolSnapshot)
        assert (taken.status.size_bytes, taken.status.restore_bytes) == (8 * MIB, 8 * MIB)
        assert taken.status.created_at
        with node.data("pvc-1").open("r+b") as file:
            file.write(b"now.")
        await node.ask("pvc-2", 12 * MIB, source=PoolSource(snapshot="snapshot-1"))
        await node.ask("pvc-3", 8 * MIB, source=PoolSource(volume="pvc-1"))
        await node.until_ready("pvc-2")
        await node.until_ready("pvc-3")
        assert node.data("pvc-2").read_bytes() == b"then" + bytes(12 * MIB - 4)
        assert node.data("pvc-3").read_bytes() == b"now." + bytes(8 * MIB - 4)
        await node.client.objects(PoolSnapshot).delete("snapshot-1")
        await node.until_gone("snapshot-1", PoolSnapshot)
        assert node.folders() == {"pvc-1", "pvc-2", "pvc-3"}


async def test_a_volume_that_was_ready_and_is_gone_is_told_and_never_made_anew(node: PoolNode) -> None:
    async with node.agent():
        await node.ask("pvc-1", 8 * MIB)
        await node.until_ready("pvc-1")
    shutil.move(node.directory / "pvc-1", node.directory.parent / "aside")
    async with node.agent():
        lost = await node.until("pvc-1", lambda one: one.status.phase == "Failed")
        assert lost.status.code == "DATA_LOSS"
        assert node.folders() == set()
    shutil.move(node.directory.parent / "aside", node.directory / "pvc-1")
    async with node.agent():
        back = await node.until_ready("pvc-1")
        assert back.status.code == ""


async def test_a_volume_that_somebody_deletes_by_hand_keeps_its_bytes_until_the_manager_lets_go(node: PoolNode) -> None:
    async with node.agent():
        await node.ask("pvc-1", 8 * MIB)
        await node.until_ready("pvc-1")
        kept = {"metadata": {"finalizers": [labels.POOL_VOLUME, labels.PROTECTED]}}
        await node.client.objects(PoolVolume).patch("pvc-1", kept)
        await node.client.objects(PoolVolume).delete("pvc-1")
        await node.ask("pvc-2", 8 * MIB)
        await node.until_ready("pvc-2")
        assert node.folders() == {"pvc-1", "pvc-2"}
    async with node.agent():
        await node.ask("pvc-3", 8 * MIB)
        await node.until_ready("pvc-3")
        assert (await node.until("pvc-1", lambda one: True)).status.phase == "Ready"
        assert node.data("pvc-1").exists()
        await node.client.objects(PoolVolume).patch("pvc-1", {"metadata": {"finalizers": [labels.POOL_VOLUME]}})
        await node.until_gone("pvc-1")
        assert node.folders() == {"pvc-2", "pvc-3"}


async def test_volumes_of_other_nodes_are_nobody_elses_business(node: PoolNode) -> None:
    async with node.agent():
        await node.ask("pvc-2", 8 * MIB, node="node-2")
        await node.ask("pvc-1", 8 * MIB)
        await node.until_ready("pvc-1")
        other = await node.volume("pvc-2")
        assert other is not None
        assert other.status.phase == ""
        assert node.folders() == {"pvc-1"}


async def test_a_pool_that_no_class_names_offers_nothing_and_goes_with_its_last_volume(node: PoolNode) -> None:
    async with node.agent():
        await node.ask("pvc-1", 8 * MIB)
        await node.until_ready("pvc-1")
        await node.until_pool(lambda pool: pool.status.observed_at is not None)
    async with node.agent(Configuration()):
        await node.until_pool(lambda pool: "no class" in pool.status.error)
        await node.client.objects(PoolVolume).delete("pvc-1")
        waits = await node.until("pvc-1", lambda one: bool(one.status.message))
        assert waits.status.code == "UNAVAILABLE"
        assert node.folders() == {"pvc-1"}
    async with node.agent():
        await node.until_gone("pvc-1")
        assert node.folders() == set()


async def test_a_burst_of_claims_gets_exactly_what_fits(node: PoolNode) -> None:
    async with node.agent():
        for number in range(24):
            await node.ask(f"pvc-{number}", 4 * MIB)
        for number in range(24):
            await node.until(f"pvc-{number}", lambda one: one.status.phase in ("Ready", "Failed"))
    phases = [(await node.volume(f"pvc-{number}")).status.phase for number in range(24)]  # type: ignore[union-attr]
    assert (phases.count("Ready"), phases.count("Failed"), len(node.folders())) == (16, 8, 16)


async def test_what_is_told_of_a_pool_is_written_when_it_changes_and_not_at_each_look(node: PoolNode) -> None:
    async with node.agent() as pools:
        before = await node.until_pool(lambda pool: pool.status.observed_at is not None)
        for _ in range(3):
            pools.configure(node.configuration())
        await node.ask("pvc-1", 8 * MIB)
        await node.until_ready("pvc-1")
        await node.client.objects(PoolVolume).delete("pvc-1")
        await node.until_gone("pvc-1")
        after = await node.until_pool(lambda pool: True)
        assert after.metadata.resource_version == before.metadata.resource_version


@pytest.mark.parametrize(
    ("words", "method"),
    [
        ((), methods.ZeroOut()),
        (("zeroout",), methods.ZeroOut()),
        (("dd-zero", "2"), methods.Zero(2)),
        (("shred", "1"), methods.Shred(1)),
        (("blkdiscard",), methods.Discard()),
        (("fs-reset",), methods.ZeroOut()),
        (("/bin/true",), methods.ZeroOut()),
        (("hdparm",), methods.ZeroOut()),
        (("rm -rf /",), methods.ZeroOut()),
    ],
)
def test_a_volume_is_wiped_to_zeroes_whatever_its_method_says(words: tuple[str, ...], method: methods.Method) -> None:
    assert wipe_method(words) == method


async def test_the_record_says_what_the_volume_is(node: PoolNode) -> None:
    async with node.agent():
        await node.ask("pvc-1", 8 * MIB)
        await node.until_ready("pvc-1")
    record = json.loads((node.directory / "pvc-1" / "localpv.json").read_text())
    assert (record["name"], record["sizeBytes"], record["state"]) == ("pvc-1", 8 * MIB, "ready")
