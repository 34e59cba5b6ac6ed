"""The name of a file system that lasts, and none where nothing lasts about it."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import uuid
from pathlib import Path

import pytest

from localpv.host import blkid, filesystem_ids
from localpv.host.filesystem_ids import FilesystemIDs
from localpv.host.model.devices import DeviceNumber, Signature
from localpv.host.mounts import Mount

UUID = "11111111-aaaa-4aaa-8aaa-222222222222"


class Mounts:
    def __init__(self, *kinds: str) -> None:
        self.kinds = kinds

    def everywhere_now(self, number: DeviceNumber, *, node: str = "") -> tuple[Mount, ...]:
        return tuple(
            Mount(mount_id=1, device=number, root="/", mount_point=Path("/"), fs_type=kind) for kind in self.kinds
        )


def ids(tmp_path: Path, *kinds: str, known: str = "") -> FilesystemIDs:
    made = FilesystemIDs(
        dev=tmp_path,
        sys=tmp_path,
        run=tmp_path,
        mounts=Mounts(*kinds),  # type: ignore[arg-type]
    )
    made._read_uuid = lambda _: known  # type: ignore[method-assign]
    return made


def of(found: FilesystemIDs, path: Path, *, major: int | None = None, inode: int | None = None) -> str:
    status = os.stat(path)
    number = DeviceNumber(os.major(status.st_dev) if major is None else major, os.minor(status.st_dev))
    return found.of(number, inode=status.st_ino if inode is None else inode, path=str(path))


def fsid(path: Path) -> str:
    return f"fsid-{os.statvfs(path).f_fsid:016x}"


def test_file_system_with_an_identifier_that_lasts_is_known_by_it(tmp_path: Path) -> None:
    found = ids(tmp_path, "ext4", "overlay")
    assert of(found, tmp_path) == fsid(tmp_path)
    status = os.stat(tmp_path)
    assert found.known(DeviceNumber(os.major(status.st_dev), os.minor(status.st_dev))) == fsid(tmp_path)
    assert found.known(DeviceNumber(250, 250)) == ""


def test_path_that_leads_elsewhere_says_nothing(tmp_path: Path) -> None:
    assert of(ids(tmp_path, "btrfs"), tmp_path, inode=1) == "", "nothing else lasts about it"
    whole = uuid.UUID(UUID).bytes
    folded = int.from_bytes(whole[:8], "little") ^ int.from_bytes(whole[8:], "little")
    assert of(ids(tmp_path, "ext4", known=UUID), tmp_path, inode=1) == f"fsid-{folded:016x}"
    assert of(ids(tmp_path, "ext4", known="no UUID"), tmp_path, inode=1) == ""
    assert of(ids(tmp_path, "btrfs", known=UUID), tmp_path, inode=1) == ""


def test_others_are_known_by_their_uuid_if_they_have_a_device(tmp_path: Path) -> None:
    for kinds in (("xfs",), ("xfs", "ext4"), ()):
        assert of(ids(tmp_path, *kinds, known=UUID), tmp_path, major=8) == UUID
        assert of(ids(tmp_path, *kinds, known=UUID), tmp_path, major=0) == ""


def test_uuid_is_read_again_only_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(filesystem_ids.time, "monotonic", lambda: now[0])
    found = ids(tmp_path, "xfs", known=UUID)
    assert of(found, tmp_path, major=8) == UUID
    found._read_uuid = lambda _: "another"  # type: ignore[method-assign]
    now[0] += filesystem_ids.REMEMBER_SECONDS
    assert of(found, tmp_path, major=8) == UUID
    now[0] += 0.1
    assert of(found, tmp_path, major=8) == "another"


NULL = DeviceNumber(1, 3)
"""A device that everybody may open: nothing is read from it."""


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FilesystemIDs:
    """What looks up the UUID of /dev/null, which has a partition table with one and a file system with another."""
    found = (
        Signature(type="gpt", usage="partition-table", uuid="of the table"),
        Signature(type="xfs", usage="filesystem", uuid=UUID),
    )

    class Probed:
        signatures = found

    monkeypatch.setattr(blkid, "probe", lambda fd: Probed)
    (tmp_path / "dev" / "block").mkdir(parents=True)
    for number in ("1:3", "1:5"):
        (tmp_path / "dev" / "block" / number).symlink_to("/sys/devices/virtual/null")
    (tmp_path / "dev" / "block" / "8:0").symlink_to("/sys/devices/virtual/not-there")
    mounts = Mounts("xfs")
    return FilesystemIDs(dev=Path("/dev"), sys=tmp_path, run=tmp_path, mounts=mounts)  # type: ignore[arg-type]


def test_uuid_is_that_of_the_file_system_and_of_nothing_else_on_the_device(device: FilesystemIDs) -> None:
    assert device.of(NULL, inode=1, path="/") == UUID


def test_device_that_is_another_one_or_not_there_has_no_uuid(device: FilesystemIDs) -> None:
    assert device.of(DeviceNumber(1, 5), inode=1, path="/") == "", "the node is of another device"
    assert device.of(DeviceNumber(8, 0), inode=1, path="/") == ""


def test_device_without_a_file_system_has_no_uuid(device: FilesystemIDs, monkeypatch: pytest.MonkeyPatch) -> None:
    class Probed:
        signatures = (Signature(type="gpt", usage="partition-table", uuid="of the table"),)

    monkeypatch.setattr(blkid, "probe", lambda fd: Probed)
    assert device.of(NULL, inode=1, path="/") == ""


def test_device_is_closed_after_the_look(device: FilesystemIDs) -> None:
    device.of(NULL, inode=1, path="/")
    opened = len(os.listdir("/proc/self/fd"))
    for minor in (3, 5):
        device._read_uuid(DeviceNumber(1, minor))
    assert len(os.listdir("/proc/self/fd")) == opened


def test_what_udev_knows_is_taken_and_the_device_left_alone(device: FilesystemIDs, tmp_path: Path) -> None:
    (tmp_path / "udev" / "data").mkdir(parents=True)
    (tmp_path / "udev" / "data" / "b1:3").write_text("E:ID_FS_UUID=of udev\n")
    assert device.of(NULL, inode=1, path="/") == "of udev"


def test_directory_is_known_by_what_lasts_about_its_mount(tmp_path: Path) -> None:
    def known(kind: str, major: int) -> str:
        mount = Mount(mount_id=1, device=DeviceNumber(major, 0), root="/", mount_point=tmp_path, fs_type=kind)
        fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return ids(tmp_path, known=UUID).of_directory(fd, mount)
        finally:
            os.close(fd)

    assert known("ext4", 8) == fsid(tmp_path)
    assert known("xfs", 8) == UUID
    assert known("tmpfs", 0) == ""


def test_generation_is_read_of_the_very_file_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem_ids, "generation_of", lambda fd: 7)
    file, link = tmp_path / "file", tmp_path / "link"
    file.touch()
    link.symlink_to(file)
    status = file.stat()
    number = DeviceNumber(os.major(status.st_dev), os.minor(status.st_dev))
    assert filesystem_ids.inode_generation(str(file), number, status.st_ino) == 7
    assert filesystem_ids.inode_generation(str(file), number, status.st_ino + 1) == 0
    assert filesystem_ids.inode_generation(str(file), DeviceNumber(250, 250), status.st_ino) == 0
    assert filesystem_ids.inode_generation(str(link), number, status.st_ino) == 0
    assert filesystem_ids.inode_generation(str(tmp_path / "none"), number, status.st_ino) == 0


def test_generation_that_cannot_be_told_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    status = file.stat()
    number = DeviceNumber(os.major(status.st_dev), os.minor(status.st_dev))

    def answers(what: int | OSError) -> None:
        def ioctl(fd: int, request: int, buffer: bytes) -> bytes:
            assert len(buffer) == 8, "the kernel writes a long"
            if isinstance(what, OSError):
                raise what
            return struct.pack("II", what, 99)

        monkeypatch.setattr(fcntl, "ioctl", ioctl)

    answers(7)
    assert filesystem_ids.inode_generation(str(file), number, status.st_ino) == 7
    answers(OSError(errno.ENOTTY, "no"))
    assert filesystem_ids.inode_generation(str(file), number, status.st_ino) == 0
    answers(7)

    def stale(fd: int) -> os.stat_result:
        raise OSError(errno.ESTALE, "gone")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fstat", stale)
        generation = filesystem_ids.inode_generation(str(file), number, status.st_ino)
    assert generation == 0
