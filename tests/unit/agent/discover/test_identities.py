"""The index of records by identity finds every record that may be about a disk."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as some

from localpv.agent.discover.entry import Place
from localpv.agent.discover.identities import Index, contradictions, recorded_in
from localpv.api.kinds.localdisk import DiskKind, LocalDisk, LocalDiskSpec, LocalDiskStatus
from localpv.api.kinds.meta import ObjectMeta
from localpv.disk import identity as wire
from localpv.host.model.identity import Identity

few = some.sampled_from(("", "a", "b"))
identities = some.builds(
    Identity,
    by_id=some.lists(some.sampled_from(("wwn-a", "scsi-3b", "ata-c")), unique=True, max_size=2).map(tuple),
    wwn=few,
    serial=few,
    fs_uuid=few,
    part_uuid=few,
    major_minor=some.sampled_from(("", "8:0", "8:16")),
    boot_id=few,
    disk_sequence=some.integers(0, 2),
    inode=some.integers(0, 2),
)
places = some.builds(Place, some.just("fast"), some.sampled_from("abc"))


def record(of: Identity, *, in_spec: bool) -> LocalDisk:
    found = wire.written(of)
    return LocalDisk(
        metadata=ObjectMeta(name="d"),
        spec=LocalDiskSpec(
            node_name="n1",
            storage_class_name="fast",
            entry="d",
            path="/mnt/d",
            volume_mode="Filesystem",
            identity=found if in_spec else None,
        ),
        status=LocalDiskStatus(identity=None if in_spec else found),
    )


@given(some.lists(some.tuples(places, some.none() | identities, some.booleans()), max_size=12), identities)
def test_no_record_of_the_same_disk_is_passed_over(
    writes: list[tuple[Place, Identity | None, bool]], now: Identity
) -> None:
    index, known = Index(), dict[Place, Identity]()
    for place, of, in_spec in writes:
        index.put(place, record(of, in_spec=in_spec) if of is not None else None)
        known.pop(place, None)
        if of is not None:
            known[place] = of
    devices, directories = set(index.alike(now, directory=False)), set(index.alike(now, directory=True))
    for place, of in known.items():
        if of.same_device(now, contents=True) or of.same_device(now, contents=False):
            assert place in devices
        if of.inode == now.inode != 0:
            assert place in directories
    assert directories <= devices <= known.keys()
    for place in known:
        index.put(place, None)
    assert not list(index.alike(now, directory=False))


def test_disk_of_a_record_is_the_one_that_its_volume_got() -> None:
    found, given_out = wire.written(Identity(serial="now")), wire.written(Identity(serial="then"))
    both = record(Identity(serial="then"), in_spec=True)
    both = msgspec.structs.replace(both, status=LocalDiskStatus(identity=found))
    assert recorded_in(both) == given_out
    assert recorded_in(record(Identity(serial="now"), in_spec=False)) == found


def test_file_system_does_not_count_on_a_device_and_counts_in_a_directory() -> None:
    before = wire.written(Identity(serial="S", fs_uuid="a"))
    now = Identity(serial="S", fs_uuid="b")
    assert contradictions(before, now, kind=DiskKind.BLOCK_DEVICE) == ()
    for kind in (DiskKind.DIRECTORY, DiskKind.MOUNT_POINT, None):
        assert [one.field for one in contradictions(before, now, kind=kind)] == ["fs_uuid"]


def test_directories_are_alike_by_their_inode_alone() -> None:
    index, one = Index(), Place("fast", "a")
    index.put(one, record(Identity(serial="S", inode=7), in_spec=True))
    assert list(index.alike(Identity(serial="S", inode=8), directory=True)) == []
    assert list(index.alike(Identity(serial="S", inode=8), directory=False)) == [one]
    assert list(index.alike(Identity(inode=7), directory=True)) == [one]
