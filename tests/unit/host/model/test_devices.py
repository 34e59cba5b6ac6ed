"""Block devices: what could not be read says nothing about a device, and nobody is told that it is in use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from localpv.host.model.devices import BlockDevice, DeviceNumber, Medium, Signature
from localpv.host.model.identity import Identity

BARE = BlockDevice(path=Path("/dev/sdx"), kernel_name="sdx", number=DeviceNumber(8, 7), size_bytes=9)


def test_device_of_which_nothing_could_be_read_has_no_name_that_lasts() -> None:
    assert BARE.identity == Identity(major_minor="8:7", size_bytes=9)
    of_this_boot = replace(BARE, names=Identity(boot_id="boot")).identity
    assert not of_this_boot.same_device(of_this_boot, contents=False), "the kernel did not count it"
    assert BARE.in_use_by == ""
    assert BARE.file_system is None and not (BARE.fs_uuid or BARE.fs_type or BARE.fs_label)
    flags = (BARE.rotational, BARE.read_only, BARE.removable, BARE.swap)
    assert not any(flags) and not (BARE.discard_max_bytes or BARE.write_zeroes_max_bytes)


def test_everything_that_was_read_is_in_the_identity() -> None:
    read = {
        "by_id": ("wwn-1",),
        "wwn": "1",
        "serial": "2",
        "part_uuid": "3",
        "model": "4",
        "filesystem_id": "5",
        "inode": 6,
        "inode_generation": 7,
        "offset_bytes": 8,
        "size_limit_bytes": 9,
        "boot_id": "10",
    }
    table = Signature(type="gpt", usage="partition-table", uuid="no")
    signatures = (table, Signature(type="xfs", usage="filesystem", uuid="11", label="data"))
    names = Identity(disk_sequence=12, **read)  # type: ignore[arg-type]
    device = replace(BARE, signatures=signatures, names=names)
    wanted = Identity(major_minor="8:7", size_bytes=9, fs_uuid="11", disk_sequence=12, **read)  # type: ignore[arg-type]
    assert device.identity == wanted
    assert (device.fs_type, device.fs_uuid, device.fs_label) == ("xfs", "11", "data")


@pytest.mark.parametrize(
    ("read", "says"),
    [
        ({"mounted_at": ("/mnt/a", "/mnt/b")}, "mounted at /mnt/a"),
        ({"holders": ("dm-0", "dm-1")}, "part of dm-0, dm-1"),
        ({"swap": True}, "swap"),
        ({"opens_exclusively": False}, "open for itself"),
        ({"opens_exclusively": True}, ""),
    ],
    ids=str,
)
def test_user_of_a_device_is_told(read: dict[str, object], says: str) -> None:
    told = replace(BARE, **read).in_use_by  # type: ignore[arg-type]
    assert says in told and bool(told) is bool(says)


def test_medium_is_told_by_name_and_by_rotation() -> None:
    assert BARE.medium is Medium.SSD
    assert replace(BARE, rotational=True).medium is Medium.HDD
    assert replace(BARE, kernel_name="nvme0n1", rotational=True).medium is Medium.NVME


def test_number_is_written_and_read_as_the_kernel_does() -> None:
    assert str(DeviceNumber(259, 1)) == "259:1"
    assert DeviceNumber.parse("259:1") == DeviceNumber(259, 1)
