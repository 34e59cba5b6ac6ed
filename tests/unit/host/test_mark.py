"""A mark is about the disk that it was made for, and about what may be that disk."""

from __future__ import annotations

import dataclasses

import pytest

from localpv.host.marks import Mark
from localpv.host.model.identity import Identity, Twin

DISK = Identity(serial="S1", fs_uuid="f-1", major_minor="8:16", size_bytes=1000, boot_id="b", disk_sequence=4)
BARE = Identity(major_minor="253:16", size_bytes=1000, boot_id="b", disk_sequence=4)
MARK = Mark(volume="pv-1", uid="uid-1", entry="a", identity=DISK)
ON_BARE = dataclasses.replace(MARK, identity=BARE)

SEEN = {
    # The mark, what is seen now; whether it is of that at its own entry and elsewhere; whether it ends there.
    "the disk itself": (MARK, DISK, True, True, True, True),
    "the disk with another file system": (MARK, dataclasses.replace(DISK, fs_uuid="f-2"), True, True, True, True),
    "another disk": (MARK, dataclasses.replace(DISK, serial="S2"), False, False, False, False),
    "a disk that has only the file system in common": (
        MARK,
        Identity(fs_uuid="f-1", major_minor="8:32", size_bytes=2000, boot_id="b", disk_sequence=5),
        False,
        False,
        False,
        False,
    ),
    "the disk, grown": (
        MARK,
        dataclasses.replace(DISK, size_bytes=2000, boot_id="c"),
        True,
        False,
        True,
        False,
    ),
    "a larger disk without a name": (
        ON_BARE,
        dataclasses.replace(BARE, size_bytes=2000, boot_id="c"),
        False,
        False,
        False,
        False,
    ),
    "a disk without a name after a restart": (
        ON_BARE,
        dataclasses.replace(BARE, boot_id="c"),
        True,
        False,
        True,
        False,
    ),
    "one of two disks with its name": (
        MARK,
        dataclasses.replace(DISK, boot_id="c", twins=(Twin("serial S1", "sdc"),)),
        True,
        True,
        True,
        False,
    ),
}


@pytest.mark.parametrize(("mark", "now", "here", "elsewhere", "ends_here", "ends_elsewhere"), SEEN.values(), ids=SEEN)
def test_mark_is_of_what_may_be_its_disk_and_ends_only_with_it(
    mark: Mark, now: Identity, here: bool, elsewhere: bool, ends_here: bool, ends_elsewhere: bool
) -> None:
    assert (mark.is_of("a", now), mark.is_of("b", now)) == (here, elsewhere)
    assert (mark.ends_with("a", now), mark.ends_with("b", now)) == (ends_here, ends_elsewhere)
