"""Two readings are of one disk unless something speaks against it."""

from __future__ import annotations

import dataclasses

import pytest

from localpv.host.model import methods
from localpv.host.model.identity import Identity, Twin, way_out

DISK = Identity(
    by_id=("ata-X_1", "wwn-0x5"),
    wwn="0x5",
    serial="1",
    fs_uuid="f-1",
    major_minor="8:16",
    size_bytes=1000,
    model="X",
)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"by_id": ()},
        {"by_id": ("wwn-0x5",)},
        {"wwn": "", "serial": "", "fs_uuid": "", "model": ""},
        {"major_minor": "8:32"},
        {"part_uuid": "p-1"},
        {"mount_id": 7},
    ],
)
def test_gaps_and_new_numbers_do_not_make_another_disk(change: dict[str, object]) -> None:
    now = dataclasses.replace(DISK, **change)  # type: ignore[arg-type]
    assert DISK.mismatches(now) == () and DISK.same_device(now) and now.same_device(DISK)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("by_id", ("ata-X_2",)),
        ("by_id", ("ata-X_2", "wwn-0x5")),
        ("wwn", "0x6"),
        ("serial", "2"),
        ("fs_uuid", "f-2"),
        ("size_bytes", 999),
        ("model", "Y"),
    ],
)
def test_every_contradiction_makes_another_disk_and_is_told(field: str, value: object) -> None:
    before = dataclasses.replace(DISK, boot_id="b", disk_sequence=4)  # even where the kernel has had it all the time
    now = dataclasses.replace(before, **{field: value})  # type: ignore[arg-type]
    assert not before.same_device(now)
    (found,) = before.mismatches(now)
    assert found.field == field and str(found).startswith(f"{field} was ")


BARE = Identity(major_minor="253:16", size_bytes=1000, boot_id="b", disk_sequence=4)
"""A disk that the kernel knows nothing lasting about: virtio without a serial number."""


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"boot_id": "c"}, "boot_id"),
        ({"disk_sequence": 5}, "disk_sequence"),
        ({"major_minor": "253:32"}, "major_minor"),
        ({"offset_bytes": 4096}, "offset_bytes"),
        ({"boot_id": "", "disk_sequence": 0}, "boot_id"),
        ({"disk_sequence": 0}, "disk_sequence"),
    ],
)
def test_without_a_lasting_name_only_the_same_boot_and_disk_sequence_number_tell(
    change: dict[str, object], field: str
) -> None:
    assert BARE.same_device(BARE)
    now = dataclasses.replace(BARE, **change)  # type: ignore[arg-type]
    for one, other in ((BARE, now), (now, BARE)):
        assert [found.field for found in one.mismatches(other, contents=False)] == [field]


def test_a_record_of_an_older_version_counts_by_its_lasting_names_only() -> None:
    now = dataclasses.replace(DISK, boot_id="b", disk_sequence=4)
    assert DISK.same_device(now)
    old = Identity(major_minor="253:16", size_bytes=1000)
    for other in (old, BARE):
        assert not old.same_device(other, contents=False)
        (found,) = old.mismatches(other, contents=False)
        assert found.of_earlier_version and "earlier version" in str(found)
        assert "--release-finalizers" in way_out([found])
    # Their names of loop devices said nothing of the offset, and were made of a number that is given out anew.
    old_loop = Identity(by_id=("loop-inode-8:1-12",), major_minor="7:0", size_bytes=1000)
    assert not old_loop.same_device(old_loop, contents=False)


def test_directory_that_an_earlier_version_recorded_without_its_device_is_known_by_its_place() -> None:
    """It could not open the device, and wrote down its number and the room of the file system."""
    old = Identity(major_minor="8:1", size_bytes=900)
    now = Identity(
        major_minor="8:1", size_bytes=1000, filesystem_id="u", inode=12, boot_id="b", disk_sequence=4, mount_id=31
    )
    assert old.same_device(now)
    assert not old.same_device(dataclasses.replace(now, major_minor="8:17")), "another file system"
    mounted = dataclasses.replace(old, mount_id=31)
    assert mounted.same_device(now), "it has stayed mounted"
    (found,) = mounted.mismatches(dataclasses.replace(now, mount_id=32))
    assert found.of_earlier_version, "it was mounted anew, and nothing tells what"
    assert not old.same_device(now, contents=False), "a device is not known by its place"


@pytest.mark.parametrize("same", ["dm-name-vg-data", "md-name-host:0"])
def test_a_name_that_people_give_does_not_outvote_another_uuid(same: str) -> None:
    family = same[:3] + "uuid-"
    before = Identity(by_id=(same, f"{family}LVM-A"), major_minor="252:0", size_bytes=1000)
    after = dataclasses.replace(before, by_id=(same, f"{family}LVM-B"))
    assert [found.field for found in before.mismatches(after)] == ["by_id"]
    only_given = dataclasses.replace(before, by_id=(same,))
    assert not only_given.same_device(only_given)


def test_parts_of_one_file_are_different_disks() -> None:
    one = Identity(filesystem_id="u", inode=12, inode_generation=3, size_limit_bytes=1000, size_bytes=1000)
    assert one.same_device(dataclasses.replace(one, major_minor="7:9", boot_id="x"))
    for field, value in {
        "offset_bytes": 1000,
        "size_limit_bytes": 0,
        "inode": 13,
        "filesystem_id": "v",
        "inode_generation": 4,
    }.items():
        other = dataclasses.replace(one, **{field: value})  # type: ignore[arg-type]
        assert [found.field for found in one.mismatches(other)] == [field]


@pytest.mark.parametrize(
    ("names", "grows"),
    [
        ({"by_id": ("dm-uuid-LVM-A",)}, True),
        ({"wwn": "0x5"}, True),
        ({"part_uuid": "p"}, True),
        ({"filesystem_id": "u", "inode": 12}, True),
        ({"boot_id": "b", "disk_sequence": 4, "major_minor": "8:0"}, True),
        ({"serial": "1"}, False),
        ({"serial": "1", "wwn": "nvme.1d0f-31-32-00000001"}, False),
    ],
)
def test_what_has_a_name_of_its_own_may_grow_and_nothing_may_shrink(names: dict[str, object], grows: bool) -> None:
    before = Identity(size_bytes=1000, **names)  # type: ignore[arg-type]
    assert before.same_device(dataclasses.replace(before, size_bytes=2000)) is grows
    assert not before.same_device(dataclasses.replace(before, size_bytes=500))


def twins(identity: Identity, device: str) -> tuple[Twin, ...]:
    return tuple(Twin(name, device) for name in identity.names(contents=True))


def test_a_copy_beside_it_makes_names_worthless_until_the_kernel_itself_can_tell() -> None:
    recorded = dataclasses.replace(DISK, boot_id="b", disk_sequence=4)
    original = dataclasses.replace(recorded, twins=twins(DISK, "sdc"))
    copy = dataclasses.replace(recorded, major_minor="8:32", disk_sequence=5, twins=twins(DISK, "sdb"))
    assert recorded.same_device(original)
    (found,) = recorded.mismatches(copy)
    assert found.field == "twins" and "sdb" in str(found)
    after_restart = dataclasses.replace(original, boot_id="c")
    assert not recorded.same_device(after_restart)
    assert recorded.same_device(dataclasses.replace(after_restart, twins=()))


def test_a_serial_number_that_others_have_too_is_none_and_the_other_names_count() -> None:
    shared = (Twin("serial 1", "sdc"),)
    assert DISK.same_device(dataclasses.replace(DISK, twins=shared))
    only_serial = Identity(serial="1", size_bytes=1000)
    assert not only_serial.same_device(dataclasses.replace(DISK, twins=shared))


def test_nothing_known_is_no_match() -> None:
    assert not Identity().same_device(Identity())
    assert not Identity(size_bytes=5).same_device(DISK)
    assert not Identity(size_bytes=1000, model="X").same_device(DISK)


def test_contents_can_be_left_out() -> None:
    formatted = dataclasses.replace(DISK, fs_uuid="f-2")
    assert DISK.same_device(formatted, contents=False)
    plain = Identity(fs_uuid="f-1", size_bytes=1000, major_minor="7:0")
    assert plain.same_device(plain) and not plain.same_device(plain, contents=False)


@pytest.mark.parametrize(
    ("given", "method"),
    [
        (["zero"], methods.Zero()),
        (["zero", "1"], methods.Zero(1)),
        (["zero", "2"], methods.Zero(2)),
        (["zero", "100"], methods.Zero(100)),
        (["/scripts/shred.sh", "5"], methods.Shred(5)),
        (["/scripts/quick_reset.sh"], methods.FsReset()),
        (["discard"], methods.Discard()),
        (["/opt/mine", "-x"], methods.Command(("/opt/mine", "-x"))),
    ],
)
def test_a_method_is_read_from_words_and_written_again(given: list[str], method: methods.Method) -> None:
    assert methods.parse(given) == method
    assert methods.parse(methods.words(method)) == method


@pytest.mark.parametrize(
    "given", [[], [""], ["zero", "0"], ["zero", "x"], ["zero", "1", "2"], ["discard", "1"], ["zreo"], ["zero", "101"]]
)
def test_words_that_name_no_method_are_refused(given: list[str]) -> None:
    with pytest.raises(ValueError):
        methods.parse(given)


def test_inode_names_a_file_only_together_with_its_file_system() -> None:
    assert Identity(inode=7).names(contents=True) == set()
    assert Identity(filesystem_id="fs").names(contents=True) == set()
    assert Identity(inode=7, filesystem_id="fs").names(contents=False) == {"inode fs 7 0 0"}


def test_built_in_methods_are_those_that_no_script_stands_for() -> None:
    assert methods.built_in() == ("zero", "discard", "zeroout", "fs-reset", "shred", "ata-erase", "nvme-format")


FILE = Identity(inode=7, filesystem_id="fs", inode_generation=2)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, True),
        ({"inode_generation": 0}, True),
        ({"inode_generation": 3}, False),
        ({"inode_generation": 1}, False),
        ({"inode": 8}, False),
        ({"filesystem_id": "other"}, False),
    ],
)
def test_file_is_the_same_by_number_file_system_and_generation(change: dict[str, object], same: bool) -> None:
    now = dataclasses.replace(FILE, **change)  # type: ignore[arg-type]
    assert FILE.same_file(now) is now.same_file(FILE) is same


@pytest.mark.parametrize("gap", [{"inode": 0}, {"filesystem_id": ""}, {"inode": 0, "filesystem_id": ""}])
def test_file_of_which_too_little_is_known_is_not_even_itself(gap: dict[str, object]) -> None:
    unknown = dataclasses.replace(FILE, **gap)  # type: ignore[arg-type]
    assert not unknown.same_file(unknown)


def test_directory_has_the_names_of_its_file_system_and_a_place_of_its_own() -> None:
    loop = dataclasses.replace(DISK, inode=1, filesystem_id="around", offset_bytes=512, size_limit_bytes=4096)
    found = loop.of_directory(FILE)
    assert found.same_file(FILE) and found.serial == "1"
    assert (found.offset_bytes, found.size_limit_bytes) == (0, 0)


MEMORY = Identity(major_minor="0:45", size_bytes=1000, boot_id="b")
"""A file system without a device, such as tmpfs."""


@pytest.mark.parametrize(
    ("now", "fields"),
    [
        (MEMORY, []),
        (dataclasses.replace(MEMORY, size_bytes=10), []),
        (dataclasses.replace(MEMORY, boot_id="c"), []),
        (dataclasses.replace(MEMORY, boot_id="c", major_minor="0:46"), []),
        (dataclasses.replace(MEMORY, major_minor="0:46"), ["major_minor"]),
        (dataclasses.replace(MEMORY, fs_uuid="f"), []),
        (dataclasses.replace(DISK, boot_id="b", size_bytes=1000), ["disk_sequence"]),
    ],
)
def test_file_system_without_a_device_is_known_by_its_number_until_the_next_start(
    now: Identity, fields: list[str]
) -> None:
    assert [found.field for found in MEMORY.mismatches(now)] == fields
    unknown = dataclasses.replace(MEMORY, boot_id="")
    assert unknown.same_device(dataclasses.replace(unknown, major_minor="0:46")), "nobody knows which start it was"


def test_disk_is_not_taken_for_a_file_system_without_a_device() -> None:
    assert not DISK.same_device(MEMORY) and not BARE.same_device(MEMORY)


def test_devices_of_one_moment_are_alike_while_no_lasting_name_tells_them_apart() -> None:
    same = Identity(serial="1", size_bytes=500)
    assert DISK.alike(same) and same.alike(DISK)
    assert DISK.alike(dataclasses.replace(same, fs_uuid="f-9")), "whatever is written on them"
    assert not DISK.alike(dataclasses.replace(same, wwn="0x9")), "a name that differs"
    assert not DISK.alike(Identity(size_bytes=1000, model="X")), "no name in common"
    assert not DISK.alike(Identity(fs_uuid="f-1")), "what is written on them is none"


def test_place_on_a_disk_counts_where_both_readings_know_it() -> None:
    part = Identity(part_uuid="p", offset_bytes=1024)
    assert part.same_device(Identity(part_uuid="p"))
    assert [one.field for one in part.mismatches(Identity(part_uuid="p", offset_bytes=2048))] == ["offset_bytes"]
    behind_a_file = dataclasses.replace(part, inode=7, filesystem_id="fs", offset_bytes=0)
    assert part.same_device(behind_a_file) and behind_a_file.same_device(part)


def test_name_that_does_not_last_contradicts_nothing() -> None:
    one = Identity(by_id=("dm-name-a", "dm-uuid-LVM-A"), major_minor="252:0")
    assert one.same_device(dataclasses.replace(one, by_id=("dm-name-b", "dm-uuid-LVM-A")))
    loop = Identity(by_id=("loop-inode-8:1-12",), serial="S")
    assert loop.same_device(dataclasses.replace(loop, by_id=("loop-inode-8:1-13",)))


def test_only_those_who_have_the_recorded_name_are_called_twins() -> None:
    recorded = Identity(serial="1", size_bytes=1000)
    now = dataclasses.replace(recorded, twins=(Twin("serial 1", "sdc"), Twin("wwn 0x9", "sdd")))
    (found,) = recorded.mismatches(now)
    assert (found.field, found.now) == ("twins", "sdc")
    assert str(found) == "sdc goes by the same names, so nobody can tell which of them was recorded"
    assert "put the right disk back" in way_out([found])


def test_mismatch_says_when_nothing_lasting_tells_and_what_is_not_known() -> None:
    (restarted,) = BARE.mismatches(dataclasses.replace(BARE, boot_id="c"))
    assert not restarted.of_earlier_version
    assert str(restarted) == "it has no lasting name by which it was recorded, and boot_id was b, is c"
    (unknown,) = BARE.mismatches(dataclasses.replace(BARE, disk_sequence=0))
    assert unknown.now == "not known"
    (unrecorded,) = dataclasses.replace(BARE, disk_sequence=0).mismatches(BARE)
    assert (unrecorded.was, unrecorded.of_earlier_version) == ("not recorded", False)


def test_devices_of_one_name_are_alike_unless_something_that_lasts_tells_them_apart() -> None:
    assert Identity(serial="1", fs_uuid="a").alike(Identity(serial="1", fs_uuid="b")), "anybody can write that"
    assert not Identity(fs_uuid="a").alike(Identity(fs_uuid="a"))
    assert not Identity(serial="1", wwn="0x5").alike(Identity(serial="1", wwn="0x6"))
    assert not Identity().alike(Identity())
