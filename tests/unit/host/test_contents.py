"""What is called empty: known without reading it, or read from a file in the place of the device."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from localpv.host import commands, contents
from localpv.host.contents import BLANK, Contents
from localpv.host.model.devices import BlockDevice, DeviceNumber, Signature

EXT4 = Signature(type="ext4", usage="filesystem", uuid="u")
SWAP = Signature(type="swap", usage="other", uuid="")


@pytest.mark.parametrize(
    ("signatures", "said"),
    [
        ((), None),
        ((EXT4,), None),
        ((SWAP,), "it holds swap (other)"),
        ((EXT4, SWAP), "it holds ext4 (filesystem) and swap (other)"),
        ((EXT4, EXT4), "it holds ext4 (filesystem) and ext4 (filesystem)"),
    ],
)
def test_device_with_anything_but_one_file_system_is_not_looked_into(
    signatures: tuple[Signature, ...], said: str | None
) -> None:
    device = BlockDevice(
        path=Path("/dev/sdb"),
        kernel_name="sdb",
        number=DeviceNumber(8, 16),
        size_bytes=1 << 20,
        signatures=signatures,
    )
    found = contents.not_looked_into(device)
    assert (str(found) if found else None) == said


DEVICE = BlockDevice(path=Path("/dev/sdb"), kernel_name="sdb", number=DeviceNumber(8, 16), size_bytes=1 << 20)


def test_device_in_use_or_with_partitions_is_not_looked_into() -> None:
    in_use = contents.not_looked_into(replace(DEVICE, holders=("dm-0",), partitions=("sdb1",)))
    assert in_use is not None and in_use.unknown == "it is part of dm-0"
    parted = contents.not_looked_into(replace(DEVICE, partitions=("sdb1", "sdb2")))
    assert parted is not None and parted.data == "partitions (sdb1, sdb2)"


class Disk:
    """A file as a device with a file system, whose top is a directory."""

    def __init__(self, root: Path) -> None:
        self.top = root / "top"
        self.top.mkdir()
        self.fd = os.open(root / "disk", os.O_RDWR | os.O_CREAT)
        os.truncate(self.fd, 1 << 20)
        os.pwrite(self.fd, struct.pack("<H", 1), 1024 + 0x3A)  # of ext4: unmounted, without errors
        self.mounted: list[str] = []

    def write(self, place: int, text: str, number: int) -> None:
        os.pwrite(self.fd, struct.pack(text, number), place)

    def mount(self, device: Path, kind: str) -> int:
        self.mounted.append(kind)
        return os.open(self.top, os.O_RDONLY | os.O_DIRECTORY)

    def look(self, kind: str, **how: bool | None) -> Contents:
        signature = Signature(type=kind, usage="filesystem", uuid="u")
        return contents.of_file_system(self.fd, replace(DEVICE, signatures=(signature,)), **how)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    made = Disk(tmp_path)
    monkeypatch.setattr(contents, "_mount", made.mount)
    opened = len(os.listdir("/proc/self/fd"))
    yield made
    assert len(os.listdir("/proc/self/fd")) == opened
    os.close(made.fd)


@pytest.mark.parametrize(
    ("kind", "how", "mounted"),
    [("ext2", {}, "ext4"), ("ext4", {}, "ext4"), ("btrfs", {}, "btrfs"), ("xfs", {"log_is_clean": True}, "xfs")],
)
def test_file_system_that_was_unmounted_cleanly_is_looked_into(
    disk: Disk, kind: str, how: dict[str, bool], mounted: str
) -> None:
    assert disk.look(kind, **how) == BLANK
    (disk.top / "a").touch()
    (disk.top / "lost+found").mkdir()
    assert disk.look(kind, **how).names == ("a",)
    (disk.top / "lost+found" / "#12").touch()
    assert disk.look(kind, **how).names == ("a", "lost+found/#12")
    assert disk.mounted == [mounted] * 3


@pytest.mark.parametrize(
    ("place", "text", "number"),
    [
        (1024 + 0x3A, "<H", 0),
        (1024 + 0x3A, "<H", 3),
        (1024 + 0x60, "<I", 0x4),
        (1024 + 0x64, "<I", 0x10000),
        (1024 + 0xE8, "<I", 12),
    ],
    ids=["mounted", "errors", "journal", "orphan file", "orphan inode"],
)
def test_ext_with_anything_to_mend_is_not_mounted(disk: Disk, place: int, text: str, number: int) -> None:
    disk.write(place, text, number)
    assert "not unmounted cleanly" in disk.look("ext3").unknown
    assert disk.mounted == []


def test_other_features_of_ext_are_nothing_to_mend(disk: Disk) -> None:
    disk.write(1024 + 0x60, "<I", 0xFFFFFFFF & ~0x4)
    disk.write(1024 + 0x64, "<I", 0xFFFFFFFF & ~0x10000)
    assert disk.look("ext4") == BLANK


def test_btrfs_with_a_log_and_xfs_without_a_clean_one_are_not_mounted(disk: Disk) -> None:
    disk.write(0x10000 + 0x60, "<Q", 1 << 40)
    for kind, clean in (("btrfs", None), ("xfs", False), ("xfs", None)):
        assert "not unmounted cleanly" in disk.look(kind, log_is_clean=clean).unknown
    assert disk.mounted == []


def test_file_system_of_another_kind_is_never_mounted(disk: Disk) -> None:
    assert disk.look("f2fs").unknown == "file systems of type f2fs are not looked into"
    assert disk.mounted == []


def test_file_system_that_does_not_mount_is_not_called_empty(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(device: Path, kind: str) -> int:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(contents, "_mount", fails)
    assert disk.look("ext4").unknown.endswith("cannot be mounted to look into it: Invalid argument")


@pytest.mark.parametrize(("said", "clean"), [("log tail: 2 head: 2 state: <CLEAN>", True), ("state: <DIRTY>", False)])
async def test_log_of_an_xfs_is_clean_when_its_tool_says_so(
    monkeypatch: pytest.MonkeyPatch, said: str, clean: bool
) -> None:
    async def run(argv: list[str], **how: Any) -> commands.Output:
        assert argv == ["xfs_logprint", "-t", "/dev/sdb"] and how["ok"] == (0, 1)  # it ends with 1 for a dirty one
        return commands.Output(exit_code=0, stdout=said, stderr="")

    monkeypatch.setattr(commands, "run", run)
    assert await contents.xfs_log_is_clean(Path("/dev/sdb")) is clean


def test_lost_and_found_counts_anywhere_but_at_the_top_and_as_no_directory(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    assert contents.of_directory(tmp_path, top=True) == BLANK
    assert contents.of_directory(tmp_path, top=False).names == ("lost+found",)
    (tmp_path / "lost+found").rmdir()
    (tmp_path / "lost+found").symlink_to("/")
    assert contents.of_directory(tmp_path, top=True).names == ("lost+found",)


def test_lost_and_found_that_cannot_be_read_is_not_called_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lost+found").mkdir()
    real = os.open

    def opened(path: Any, *rest: Any, **more: Any) -> int:
        if path == "lost+found":
            raise PermissionError(13, "no")
        return real(path, *rest, **more)

    with monkeypatch.context() as broken:
        broken.setattr(os, "open", opened)
        found = contents.of_directory(tmp_path, top=True)
    assert found.names == ("lost+found/?",)


BLOCKS = 4 * contents.ENDS


@pytest.mark.parametrize(
    ("place", "found"),
    [
        (0, True),
        (contents.ENDS - 1, True),
        (contents.ENDS, True),
        (contents.ENDS + contents.SAMPLE - 1, True),
        (contents.ENDS + contents.SAMPLE, False),
        (BLOCKS // contents.SAMPLES * 17, True),
        (BLOCKS - contents.ENDS - 1, False),
        (BLOCKS - contents.ENDS, True),
        (BLOCKS - 1, True),
    ],
)
def test_bytes_at_both_ends_and_at_some_places_between_are_found(disk: Disk, place: int, found: bool) -> None:
    os.truncate(disk.fd, 0)
    os.truncate(disk.fd, BLOCKS)
    assert contents.of_blocks(disk.fd, BLOCKS) == BLANK
    os.pwrite(disk.fd, b"x", place)
    assert contents.of_blocks(disk.fd, BLOCKS).blank is not found


@pytest.mark.parametrize("size", [contents.ENDS // 2, contents.ENDS, contents.ENDS + 512])
def test_small_device_is_read_whole_and_one_that_gives_less_is_not_called_empty(disk: Disk, size: int) -> None:
    os.truncate(disk.fd, 0)
    os.truncate(disk.fd, size)
    assert contents.of_blocks(disk.fd, size) == BLANK
    assert not contents.of_blocks(disk.fd, size + 1).blank


def test_copies_that_file_systems_keep_further_back_are_found(disk: Disk) -> None:
    size = 10**9  # with no other place near them
    for place in (64 << 20, 128 << 20, 384 << 20):
        os.truncate(disk.fd, 0)
        os.truncate(disk.fd, size)
        os.pwrite(disk.fd, b"x", place + 4095)
        assert not contents.of_blocks(disk.fd, size).blank
