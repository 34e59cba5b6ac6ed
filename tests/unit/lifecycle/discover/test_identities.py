"""The index of records by identity finds every record that may be about a disk."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from localpv.api.kinds import ObjectMeta
from localpv.api.kinds.localdisk import LocalDisk, LocalDiskSpec, LocalDiskStatus
from localpv.lifecycle import identity as wire
from localpv.lifecycle.discover.identities import Index
from localpv.lifecycle.discover.sighting import Place
from localpv.model.identity import Identity

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
