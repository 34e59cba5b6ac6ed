"""What kube-scheduler is told about free space."""

from __future__ import annotations

from tests.unit.manager.provision.pool_world import PoolWorld
from tests.unit.volume.pools import GI

from localpv.api.kinds.csi import CSIStorageCapacity
from localpv.api.kinds.localpool import LocalPool
from localpv.api.kinds.meta import ObjectMeta
from localpv.api.kinds.volumes import StorageClass
from localpv.manager.provision.capacity import DRIVER_LABEL, MANAGED_BY_LABEL

NAMESPACE = "default"


async def _capacities(world: PoolWorld) -> dict[str, tuple[str | None, str | None]]:
    found = (await world.client.objects(CSIStorageCapacity).list()).items
    return {
        one.node_topology.match_labels["topology.localpv.dev/node"]: (one.capacity, one.maximum_volume_size)
        for one in found
        if one.node_topology is not None
    }


async def _until(world: PoolWorld, **wanted: tuple[str, str]) -> None:
    expected = {node.replace("_", "-"): said for node, said in wanted.items()}

    async def said() -> bool:
        return await _capacities(world) == expected

    await world.until(said, f"{expected}")


async def test_each_class_and_node_has_its_capacity_and_a_reservation_changes_it(world: PoolWorld) -> None:
    await world.storage_class()
    await world.node_with_pool("node-1", size=10 * GI, extentBytes=GI)
    await world.node_with_pool("node-2", size=20 * GI + 5, extentBytes=GI)
    async with world.everybody(capacity_in=NAMESPACE):
        await _until(world, node_1=("10Gi", "10Gi"), node_2=("21474836485", "20Gi"))
        await world.claim(size="4Gi")
        await world.bound()
        await _until(world, node_1=("10Gi", "10Gi"), node_2=("17179869189", "16Gi"))
        await world.measures("node-1", capacityBytes=10 * GI, error="The disk is gone.")
        await _until(world, node_1=("0", "0"), node_2=("17179869189", "16Gi"))
        await world.delete_claim()
        await _until(world, node_1=("0", "0"), node_2=("21474836485", "20Gi"))
        await world.client.objects(LocalPool).delete("node-1-fast")
        await _until(world, node_2=("21474836485", "20Gi"))
        await world.client.objects(StorageClass).delete("fast")
        await _until(world)


async def test_what_an_earlier_manager_left_goes(world: PoolWorld) -> None:
    await world.storage_class()
    await world.node_with_pool(size=GI)
    stale = CSIStorageCapacity(
        metadata=ObjectMeta(
            name="csisc-old",
            namespace=NAMESPACE,
            labels={DRIVER_LABEL: "localpv.dev", MANAGED_BY_LABEL: "localpv-manager"},
        ),
        storage_class_name="gone",
        capacity="1Gi",
    )
    await world.client.objects(CSIStorageCapacity).create(stale)
    async with world.everybody(capacity_in=NAMESPACE):
        await _until(world, node_1=("1Gi", "1Gi"))

        async def gone() -> bool:
            found = (await world.client.objects(CSIStorageCapacity).list()).items
            return [one.storage_class_name for one in found] == ["fast"]

        await world.until(gone, "what is not wanted is gone")
