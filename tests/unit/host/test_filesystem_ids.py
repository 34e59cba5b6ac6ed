"""The name of a file system that lasts, and none where nothing lasts about it."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from localpv.host import filesystem_ids
from localpv.host.filesystem_ids import FilesystemIDs
from localpv.model.devices import DeviceNumber
from localpv.model.mounts import Mount

UUID = "11111111-aaaa-4aaa-8aaa-222222222222"


class Mounts:
    def __init__(self, *kinds: str) -> None:
        self.kinds = kinds

    def everywhere_now(self, number: DeviceNumber, *, node: str = "") -> tuple[Mount, ...]:
        return tuple(
            Mount(mount_id=1, parent_id=0, device=number, root="/", mount_point=Path("/"), fs_type=kind)
            for kind in self.kinds
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
