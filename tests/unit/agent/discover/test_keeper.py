"""Records of this node, as discovery knows them without asking each time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from localpv import errors
from localpv.agent.discover.entry import Place
from localpv.agent.discover.keeper import Keeper
from localpv.api.kinds.localdisk import LocalDisk, LocalDiskSpec, LocalDiskStatus, OfferedVolume, VolumeMode
from localpv.disk.records.folder import FolderRecords

NODE, PLACE = "node-1", Place("fast", "sdb")
SPEC = LocalDiskSpec(
    node_name=NODE, storage_class_name="fast", entry="sdb", path="/mnt/fast/sdb", volume_mode=VolumeMode.FILESYSTEM
)


class World:
    def __init__(self, folder: Path) -> None:
        self.store = FolderRecords(folder)
        self.store.open()
        self.changes: list[tuple[Place, LocalDisk | None, LocalDisk | None]] = []
        self.keeper = Keeper(node=NODE, records=self.store, on_change=lambda *change: self.changes.append(change))

    async def record(self) -> LocalDisk:
        made = await self.keeper.ensure(PLACE, SPEC)
        assert made is not None
        return made

    async def offer(self, record: LocalDisk) -> LocalDisk:
        """What the manager does, of which the keeper has not heard yet."""
        spec = msgspec.structs.replace(record.spec, volume=OfferedVolume(name="pv", uid="u"))
        return await self.store.write_spec(record, spec)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.store.close()


async def test_write_of_our_own_that_comes_back_is_no_news(world: World) -> None:
    record = await world.record()
    world.keeper._changed(record)
    assert world.changes == []
    offered = await world.offer(record)
    world.keeper._changed(offered)
    assert world.changes == [(PLACE, record, offered)]
    assert world.keeper.records[PLACE] == offered


async def test_record_of_another_node_is_none_of_ours(world: World) -> None:
    record = await world.record()
    other = msgspec.structs.replace(record, metadata=msgspec.structs.replace(record.metadata, name="other"))
    world.keeper._changed(other)
    assert world.changes == [] and world.keeper.records[PLACE] == record


async def test_deleted_record_is_forgotten_at_once_and_told(world: World) -> None:
    record = await world.record()
    await world.keeper.delete(PLACE, record)
    assert dict(world.keeper.records) == {}
    assert world.changes == [(PLACE, record, None)]
    world.keeper._deleted(record)
    assert len(world.changes) == 1, "it is told once"


async def test_record_that_was_made_anew_is_not_forgotten_for_the_old_one(world: World) -> None:
    record = await world.record()
    await world.keeper.delete(PLACE, record)
    again = await world.record()
    world.keeper._deleted(record)
    assert world.keeper.records[PLACE] == again


async def test_disk_that_was_given_to_a_volume_meanwhile_keeps_its_record_which_is_read_again(world: World) -> None:
    record = await world.record()
    offered = await world.offer(record)
    with pytest.raises(errors.Conflict):
        await world.keeper.delete(PLACE, record)
    assert world.keeper.records[PLACE] == offered
    assert world.changes == []


async def test_status_that_somebody_else_has_written_since_is_read_again(world: World) -> None:
    record = await world.record()
    offered = await world.offer(record)
    with pytest.raises(errors.Conflict):
        await world.keeper.write(PLACE, record, LocalDiskStatus(phase="Available"))
    assert world.keeper.records[PLACE] == offered


async def test_status_that_is_written_already_is_not_written_again(world: World) -> None:
    record = await world.record()
    await world.keeper.write(PLACE, record, LocalDiskStatus(phase="Available"))
    written = world.keeper.records[PLACE]
    await world.keeper.write(PLACE, written, LocalDiskStatus(phase="Available"))
    assert await world.store.get(written.metadata.name) == written


async def test_spec_follows_the_class_unless_a_volume_has_the_disk(world: World) -> None:
    await world.record()
    block = msgspec.structs.replace(SPEC, volume_mode=VolumeMode.BLOCK)
    changed = await world.keeper.ensure(PLACE, block)
    assert changed is not None and changed.spec.volume_mode == VolumeMode.BLOCK
    offered = await world.offer(changed)
    world.keeper._changed(offered)
    assert await world.keeper.ensure(PLACE, SPEC) == offered


async def test_name_that_somebody_else_has_is_left_to_them(world: World) -> None:
    record = await world.record()
    await world.keeper.delete(PLACE, record)
    taken = msgspec.structs.replace(record, spec=msgspec.structs.replace(SPEC, entry="sdc"))
    await world.store.create(msgspec.structs.replace(taken, metadata=msgspec.structs.replace(taken.metadata, uid="")))
    assert await world.keeper.ensure(PLACE, SPEC) is None
    assert dict(world.keeper.records) == {}


@pytest.mark.parametrize("early", [True, False], ids=["told before the refusal", "told after it"])
async def test_disk_that_was_given_back_while_a_write_of_ours_was_refused_is_told(world: World, early: bool) -> None:
    """Else what is known of it would be from before it was cleaned."""
    taken = await world.offer(await world.record())
    world.keeper._changed(taken)
    free = await world.store.write_spec(taken, msgspec.structs.replace(taken.spec, volume=None))
    refusing = _Answering(world, free if early else None, errors.Conflict("somebody else wrote"))
    world.changes.clear()
    with pytest.raises(errors.Conflict):
        await refusing.write()
    world.keeper._changed(free)

    assert world.changes == [(PLACE, taken, free)]
    assert world.keeper.records[PLACE] == free


async def test_answer_that_is_older_than_what_others_wrote_on_top_of_it_is_not_gone_back_to(world: World) -> None:
    record = await world.record()
    ours = await world.store.write_status(record, LocalDiskStatus(phase="Available"))
    theirs = await world.offer(ours)
    world.changes.clear()
    await _Answering(world, theirs, ours).write()

    assert world.keeper.records[PLACE] == theirs
    assert world.changes == [(PLACE, ours, theirs)]


class _Answering:
    """A write of ours during which we are told of what others wrote, and then get our answer."""

    def __init__(self, world: World, told: LocalDisk | None, answer: LocalDisk | errors.LocalpvError) -> None:
        self._keeper, self._told, self._answer = world.keeper, told, answer

    async def write(self) -> None:
        await self._keeper._remember(PLACE, self._written())

    async def _written(self) -> LocalDisk:
        if self._told is not None:
            self._keeper._changed(self._told)
        if isinstance(self._answer, errors.LocalpvError):
            raise self._answer
        return self._answer


async def test_disk_that_moves_is_not_fit_before_it_is_judged_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = await world.record()
    fit = msgspec.structs.replace(record.status, eligible=True, phase="Available", reason="Available")
    await world.keeper.write(PLACE, record, fit)
    states: list[tuple[str, bool | None]] = []
    write = world.store.write_spec

    async def write_spec(disk: LocalDisk, spec: LocalDiskSpec) -> LocalDisk:
        stored = await world.store.get(disk.metadata.name)
        assert stored is not None
        states.append((stored.spec.path, stored.status.eligible))
        return await write(disk, spec)

    monkeypatch.setattr(world.store, "write_spec", write_spec)
    moved = await world.keeper.ensure(PLACE, msgspec.structs.replace(SPEC, path="/mnt/raw/sdb", volume_mode="Block"))

    assert states == [("/mnt/fast/sdb", False)], "whoever dies here leaves a disk that nobody offers"
    assert moved is not None
    assert (moved.spec.path, moved.status.eligible, moved.status.reason) == ("/mnt/raw/sdb", False, "Moved")
