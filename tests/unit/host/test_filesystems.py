"""What counts as blank, what a file system is made over, and devices that do not open."""

from __future__ import annotations

import errno
import fcntl
import os
from dataclasses import replace
from pathlib import Path

import pytest

from localpv import errors
from localpv.host import blkid, commands, devices, filesystems
from localpv.host.filesystems import Content, KernelFileSystems
from localpv.host.model.devices import BlockDevice, DeviceNumber, Signature
from localpv.host.workers import Workers


def a_device(path: Path, *, read_only: bool = False) -> BlockDevice:
    return BlockDevice(
        path=path, kernel_name=path.name, number=DeviceNumber(8, 16), size_bytes=1 << 20, read_only=read_only
    )


async def test_device_that_is_gone_cannot_be_read_or_written(tmp_path: Path) -> None:
    device, parts = a_device(tmp_path / "sdb"), KernelFileSystems(workers=Workers())
    with pytest.raises(errors.HostError, match="cannot be read: No such file"):
        await parts.content(device)
    with pytest.raises(errors.HostError, match=r"No such file|does not open"):
        await parts.make(device, "ext4", uuid="11111111-aaaa-4aaa-8aaa-111111111111")


@pytest.mark.parametrize(
    ("fs_type", "read_only", "checked"),
    [("ext4", False, True), ("ext3", False, True), ("ext4", True, False), ("xfs", False, False), ("xfs", True, False)],
)
async def test_only_what_can_be_mended_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fs_type: str, read_only: bool, checked: bool
) -> None:
    ran: list[list[str]] = []

    async def run(argv: list[str], **_: object) -> None:
        ran.append(argv)

    monkeypatch.setattr(commands, "run", run)
    device = a_device(tmp_path / "sdb", read_only=read_only)
    await KernelFileSystems(workers=Workers()).check(device, fs_type)
    assert ran == ([["e2fsck", "-p", str(device.path)]] if checked else [])


async def test_damaged_file_system_is_told_with_the_way_to_look_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(argv: list[str], **_: object) -> None:
        raise errors.CommandFailed(argv, exit_code=4, stderr="bad")

    monkeypatch.setattr(filesystems.commands, "run", run)
    with pytest.raises(errors.HostError, match="is damaged") as refused:
        await KernelFileSystems(workers=Workers()).check(a_device(tmp_path / "sdb"), "ext4")
    assert "e2fsck -n" in refused.value.hint


UUID = "11111111-aaaa-4aaa-8aaa-111111111111"


@pytest.mark.parametrize(
    ("fs_type", "argv", "force"),
    [
        ("ext2", ["mkfs.ext2", "-q", "-m", "0", "-U", UUID], "-F"),
        ("ext4", ["mkfs.ext4", "-q", "-m", "0", "-U", UUID], "-F"),
        ("xfs", ["mkfs.xfs", "-q", "-m", f"uuid={UUID}"], "-f"),
        ("btrfs", ["mkfs.btrfs", "-q", "-U", UUID], "-f"),
    ],
)
def test_tool_is_forced_only_over_what_we_left_unfinished(fs_type: str, argv: list[str], force: str) -> None:
    path = Path("/dev/sdb")
    assert filesystems.making(path, fs_type, uuid=UUID, force=False) == [*argv, "/dev/sdb"]
    forced = filesystems.making(path, fs_type, uuid=UUID, force=True)
    assert forced == [*argv[:2], force, *argv[2:], "/dev/sdb"]


def test_file_system_that_pods_are_not_given_is_not_made() -> None:
    with pytest.raises(errors.NotSupported, match="vfat"):
        filesystems.making(Path("/dev/sdb"), "vfat", uuid=UUID, force=False)


@pytest.mark.parametrize(
    ("content", "new", "unfinished"),
    [
        (Content(), True, True),
        (Content(fs_type="ext4", uuid=UUID), False, True),
        (Content(fs_type="ext4", uuid="another"), False, False),
        (Content(other=filesystems.UNKNOWN), False, True),
        (Content(other="swap (other)"), False, False),
    ],
    ids=str,
)
def test_only_what_is_blank_or_our_own_unfinished_one_is_written_over(
    content: Content, new: bool, unfinished: bool
) -> None:
    device = a_device(Path("/dev/sdb"))
    for begun, allowed in ((False, new), (True, unfinished)):
        if allowed:
            filesystems.refuse_unless_blank(content, device, uuid=UUID, unfinished=begun)
        else:
            with pytest.raises(errors.NotClean, match="no file system is made"):
                filesystems.refuse_unless_blank(content, device, uuid=UUID, unfinished=begun)


XFS = Signature(type="xfs", usage="filesystem", uuid="u")
SWAP = Signature(type="swap", usage="other")


@pytest.mark.parametrize(
    ("signatures", "content"),
    [
        ((XFS,), Content(fs_type="xfs", uuid="u")),
        ((SWAP,), Content(other="swap (other)")),
        ((XFS, SWAP), Content(other="xfs (filesystem) and swap (other)")),
        ((), Content()),
    ],
)
def test_content_is_what_is_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signatures: tuple[Signature, ...], content: Content
) -> None:
    monkeypatch.setattr(blkid, "probe", lambda fd: blkid.Found(signatures=signatures))
    path = tmp_path / "disk"
    path.write_bytes(bytes(1 << 20))
    with path.open("rb") as file:
        assert filesystems.content_of(file.fileno(), a_device(path)) == content
        parted = replace(a_device(path), partitions=("sdb1",))
        assert filesystems.content_of(file.fileno(), parted) == Content(other="partitions (sdb1)")


@pytest.mark.parametrize(
    ("size", "place", "blank"),
    [
        (2 * filesystems.END, None, True),
        (filesystems.END, None, True),
        (filesystems.END - 512, None, False),
        (4 * filesystems.END, 0, False),
        (4 * filesystems.END, filesystems.END - 1, False),
        (4 * filesystems.END, 2 * filesystems.END, True),
        (4 * filesystems.END, 3 * filesystems.END, False),
        (4 * filesystems.END, 4 * filesystems.END - 1, False),
    ],
)
def test_device_is_blank_when_both_ends_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, place: int | None, blank: bool
) -> None:
    monkeypatch.setattr(blkid, "probe", lambda fd: blkid.Found())
    path = tmp_path / "disk"
    with path.open("w+b") as file:
        file.truncate(size)
        if place is not None:
            os.pwrite(file.fileno(), b"x", place)
        found = filesystems.content_of(file.fileno(), replace(a_device(path), size_bytes=size))
    assert found == (Content() if blank else Content(other=filesystems.UNKNOWN))


def test_device_is_locked_and_closed_and_no_other_one_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "disk"
    path.write_bytes(bytes(1 << 20))
    device = replace(a_device(path), number=DeviceNumber(0, 0))
    monkeypatch.setattr(devices, "size_of", lambda fd: os.fstat(fd).st_size)
    with path.open() as theirs:
        with filesystems._locked(device), pytest.raises(BlockingIOError):
            fcntl.flock(theirs, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(theirs, fcntl.LOCK_SH | fcntl.LOCK_NB)
        with pytest.raises(errors.DeviceBusy, match="locked"), filesystems._locked(device):
            pass
    with pytest.raises(errors.DeviceChanged), filesystems._locked(replace(device, size_bytes=512)):
        pass
    assert str(path) not in map(os.path.realpath, Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize(("code", "busy"), [(errno.EBUSY, True), (errno.EIO, False)])
def test_device_that_somebody_claims_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, busy: bool
) -> None:
    def opened(path: Path, flags: int) -> int:
        assert flags & os.O_EXCL
        raise OSError(code, os.strerror(code))

    caught: Exception | None = None
    with monkeypatch.context() as broken:
        broken.setattr(os, "open", opened)
        try:
            with filesystems._locked(a_device(tmp_path / "disk")):
                pass
        except (errors.DeviceBusy, OSError) as error:
            caught = error
    assert isinstance(caught, errors.DeviceBusy) is busy and caught is not None
