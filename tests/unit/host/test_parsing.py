"""What the kernel and its tools write is read exactly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from localpv import errors
from localpv.host import blkid, erasure, mounts, openat, sysfs, uevents
from localpv.host.model.devices import DeviceKind, DeviceNumber, RuleMatch
from localpv.host.sysfs import Attributes


def test_a_line_with_escapes_and_any_number_of_optional_fields_is_read() -> None:
    table = mounts.parse(
        b"36 35 98:0 /mnt1 /mnt/my\\040disk\\134x\\011 rw,noatime shared:1 master:2 unbindable"
        b" - ext4 /dev/root rw,errors=continue\n"
        b"37 36 0:44 / /mnt/plain ro - tmpfs none rw\n"
        b"38 36 0:45 / /mnt/odd\xff rw,relatime - fuse.x a\\043b \n"
    )
    first, second, third = table
    assert first.mount_point == Path("/mnt/my disk\\x\t")
    assert first.device == DeviceNumber(98, 0)
    assert first.root == "/mnt1"
    assert first.super_options == ("rw", "errors=continue")
    assert second.read_only
    assert third.source == "a#b" and bytes(third.mount_point) == b"/mnt/odd\xff"


@pytest.mark.parametrize(
    "line", [b"1 2 3:4 / /mnt rw", b"x 2 3:4 / /mnt rw - ext4 a rw", b"1 2 34 / /mnt rw - ext4 a rw"]
)
def test_a_line_that_makes_no_sense_is_an_error(line: bytes) -> None:
    with pytest.raises(ValueError, match="mount table"):
        mounts.parse(line)


def test_a_mount_point_is_found_by_whole_components_and_the_last_mount_is_seen() -> None:
    table = mounts.parse(
        b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
        b"2 1 8:16 / /mnt/disks/a rw - ext4 /dev/sdb rw\n"
        b"3 2 8:32 / /mnt/disks/a rw - xfs /dev/sdc rw\n"
        b"4 3 0:9 / /mnt/disks/a/sub rw - tmpfs none rw\n"
    )
    seen = table.at(Path("/mnt/disks/a"))
    assert seen is not None and seen.fs_type == "xfs"
    assert not table.is_mount_point(Path("/mnt/disks"))
    assert [mount.mount_id for mount in table.below(Path("/mnt/disks/a"))] == [4]
    assert table.below(Path("/mnt/disks/a/su")) == ()
    holding = table.containing(Path("/mnt/disks/b/file"))
    assert holding is not None and holding.mount_id == 1
    assert [mount.mount_id for mount in table.of(DeviceNumber(8, 16))] == [2]


def test_a_uevent_is_read() -> None:
    message = (
        b"add@/devices/x/block/sdb\0ACTION=add\0DEVPATH=/devices/x\0SUBSYSTEM=block\0MAJOR=8\0MINOR=16\0DEVNAME=sdb\0"
    )
    event = uevents.parse(message)
    assert event is not None
    assert (event.action, event.subsystem, event.device_name, event.device) == ("add", "block", "sdb", (8, 16))
    assert uevents.parse(b"libudev\0\xfe\xed\xca\xfe") is None
    assert uevents.parse(b"") is None


def test_the_export_of_blkid_is_read() -> None:
    assert blkid.parse_export("DEVNAME=/dev/sdb\nUUID=1-2\nTYPE=ext4\nLABEL=my\\ disk\n\n") == {
        "DEVNAME": "/dev/sdb",
        "UUID": "1-2",
        "TYPE": "ext4",
        "LABEL": "my disk",
    }


def security(*lines: str) -> str:
    return (
        "ATA device\n\tModel Number: X\nSecurity: \n" + "".join(f"\t{line}\n" for line in lines) + "Checksum: correct\n"
    )


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (
            security(
                "Master password revision code = 65534", "\tsupported", "not\tenabled", "not\tlocked", "not\tfrozen"
            ),
            "",
        ),
        (security("\tsupported", "not\tenabled", "not\tlocked", "\tfrozen"), "frozen"),
        (security("\tsupported", "not\tenabled", "\tlocked", "not\tfrozen"), "locked"),
        (security("\tsupported", "\tenabled", "not\tlocked", "not\tfrozen"), "password"),
        (security("not\tsupported", "not\tenabled", "not\tlocked", "not\tfrozen"), "not support"),
        ("ATA device\n\tModel Number: X\n", "no security"),
        ("", "no security"),
    ],
)
def test_a_drive_that_cannot_erase_itself_says_why(text: str, refusal: str) -> None:
    reason = erasure.ata_refusal(text)
    assert refusal in reason and bool(reason) == bool(refusal)


@pytest.mark.parametrize(
    ("oacs", "fna", "spaces", "refusal"),
    [(2, 0, 1, ""), (2, 0, 3, ""), (2, 1, 1, ""), (2, 1, 2, "all its"), (2, 2, 2, "all its"), (1, 0, 1, "not support")],
)
def test_a_format_that_would_hit_other_namespaces_is_refused(oacs: int, fna: int, spaces: int, refusal: str) -> None:
    namespaces = json.dumps({"nsid_list": [{"nsid": number + 1} for number in range(spaces)]})
    reason = erasure.nvme_refusal(json.dumps({"oacs": oacs, "fna": fna}), namespaces)
    assert refusal in reason and bool(reason) == bool(refusal)


def test_a_disk_looks_the_same_with_and_without_udev(tmp_path: Path) -> None:
    device = tmp_path / "device"
    device.mkdir()
    (device / "wwid").write_text("naa.5000C500A1B2C3D4\n")
    (device / "vpd_pg80").write_bytes(b"\x00\x80\x00\x08  ABC123")
    disk = Attributes(tmp_path)
    udev = {"ID_WWN": "0x5000c500a1b2c3d4", "ID_SERIAL_SHORT": "5000c500a1b2c3d4"}
    assert sysfs.wwn(disk, {}) == sysfs.wwn(disk, udev) == "0x5000c500a1b2c3d4"
    assert sysfs.serial(disk, {}) == sysfs.serial(disk, udev) == "ABC123"


def test_the_record_of_udev_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "udev" / "data"
    folder.mkdir(parents=True)
    (folder / "b8:16").write_text("S:disk/by-id/wwn-0x5\nS:disk/by-path/pci-0\nE:ID_SERIAL=X_1\nE:A=b=c\nG:systemd\n")
    properties, links = sysfs.udev_record(DeviceNumber(8, 16), run=tmp_path)
    assert properties == {"ID_SERIAL": "X_1", "A": "b=c"}
    assert links == ("disk/by-id/wwn-0x5", "disk/by-path/pci-0")
    assert sysfs.udev_record(DeviceNumber(8, 17), run=tmp_path) == ({}, ())


def test_kinds_of_devices_are_told_by_the_kernels_names(tmp_path: Path) -> None:
    (tmp_path / "sda1").mkdir()
    (tmp_path / "sda1" / "partition").write_text("1\n")
    assert sysfs.kind("sda1", Attributes(tmp_path / "sda1")) is DeviceKind.PARTITION
    for name, kind in (("sda", "disk"), ("loop0", "loop"), ("dm-3", "dm"), ("md127", "md"), ("nvme0n1", "disk")):
        assert sysfs.kind(name, Attributes(tmp_path)) == kind


def test_swaps_are_read() -> None:
    text = "Filename\tType\tSize\n/dev/sdb1   partition 1 0 -2\n/my\\040swap file 1 0 -3\n"
    assert sysfs.swaps(text) == ("/dev/sdb1", "/my swap")


@pytest.mark.parametrize(
    "path",
    ["/mnt/disks2/a", "/mnt/disks", "/mnt", "/mnt/disks/../x", "/mnt/disks/a/../../x", "disks/a"],
)
@pytest.mark.seed("CLN-7")
def test_a_path_that_is_not_inside_is_refused(path: str) -> None:
    with pytest.raises(errors.OutsideFolder):
        openat.names_below(Path("/mnt/disks"), Path(path))


@pytest.mark.parametrize("folder", ["/", "mnt", "/mnt/../"])
def test_a_folder_that_cannot_be_managed_is_refused(folder: str) -> None:
    with pytest.raises(errors.OutsideFolder):
        openat.names_below(Path(folder), Path("/mnt/disks/a"))


def test_the_components_below_a_folder_are_told() -> None:
    assert openat.names_below(Path("/mnt/disks/"), Path("/mnt/disks/a/b")) == ("a", "b")


@pytest.mark.parametrize(
    ("page", "found"),
    [
        (b"\x00\x80\x00\x04ABCD", "ABCD"),
        (b"\x00\x80\x00\x03ABCD", "ABC"),
        (b"\x00\x80\x00\x08ABCD", "ABCD"),
        (b"\x00\x80\x01\x00" + b"A" * 256 + b"B", "A" * 256),
        (b"\x00\x80\x00\x04AB\x00\x00", "AB"),
        (b"\x00\x80\x00\x040000", ""),
        (b"\x00\x80\x00\x00", ""),
        (b"", ""),
    ],
)
def test_serial_number_of_a_scsi_disk_is_read_to_the_byte(tmp_path: Path, page: bytes, found: str) -> None:
    (tmp_path / "device").mkdir()
    (tmp_path / "device" / "vpd_pg80").write_bytes(page)
    assert sysfs.serial(Attributes(tmp_path), {}) == found
    assert sysfs.serial(Attributes(tmp_path), {"ID_SERIAL_SHORT": "udev"}) == (found or "udev")


def test_a_match_of_a_rule_says_which_engine_of_the_machine_has_it() -> None:
    properties = {
        "KUBERNETES_LOCAL_STORAGE_RULE_0123abcd": "a/b nodes[0].devices[0].udevRules[0]",
        "KUBERNETES_STORAGE_CLASS_0123abcd": "fast",
        "KUBERNETES_LOCAL_STORAGE_RULE_ffffffff0123abcd": "a/c nodes[0].devices[0].udevRules[0]",
        "KUBERNETES_STORAGE_CLASS_ffffffff0123abcd": "slow",
        "KUBERNETES_LOCAL_STORAGE_RULE_76543210": "a/d nodes[0].devices[0].udevRules[0]",
    }
    assert sysfs.rule_matches(properties) == (
        RuleMatch("fast", "a/b nodes[0].devices[0].udevRules[0]"),
        RuleMatch("slow", "a/c nodes[0].devices[0].udevRules[0]", "ffffffff"),
    )
