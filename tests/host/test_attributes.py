"""A directory volume that was cleaned is like a new one: what its last user made of the directory itself is gone."""

# ruff: noqa: ASYNC221 - a test may wait for its own tools

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from localpv import errors
from localpv.host import attributes
from localpv.host.trees import KernelTrees

GET_XFLAGS, SET_XFLAGS = 0x801C581F, 0x401C5820
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"


def acl(user: int) -> bytes:
    """An access control list that gives one user everything, as setfacl writes it."""
    entries = ((1, 7, -1), (2, 7, user), (4, 5, -1), (16, 7, -1), (32, 0, -1))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)


def flags(path: Path) -> str:
    return subprocess.run(["lsattr", "-d", path], check=True, capture_output=True, text=True).stdout.split()[0]


def project(path: Path, new: int | None = None, *, inherit: bool = False) -> int:
    fd = os.open(path, os.O_RDONLY)
    try:
        xflags, size, _, now, cow = struct.unpack("=IIIII8x", fcntl.ioctl(fd, GET_XFLAGS, bytes(28)))
        if new is not None:
            xflags |= 0x200 if inherit else 0
            with contextlib.suppress(OSError):  # not on ext4
                fcntl.ioctl(fd, SET_XFLAGS, struct.pack("=IIIII8x", xflags, size, 0, new, cow))
        return int(now)
    finally:
        os.close(fd)


@pytest.fixture(params=["ext4", "xfs"])
def folder(
    request: pytest.FixtureRequest, tmp_path: Path, make_disk: Callable[..., Path], mount: Callable[..., None]
) -> Path:
    """A discovery directory on a file system that has everything."""
    folder = tmp_path / request.param
    folder.mkdir()
    device = make_disk(320 if request.param == "xfs" else 16)
    if request.param == "ext4":  # without projects, which this file system has only where the kernel keeps quota
        subprocess.run(["mkfs.ext4", "-q", "-I", "256", str(device)], check=True)
    else:
        subprocess.run(["mkfs.xfs", "-q", str(device)], check=True)
    mount(device, folder)
    return folder


def use(volume: Path) -> None:
    """What a tenant who is root in a container can do to its volume."""
    (volume / "file").write_text("secret")
    os.chown(volume, 1000, 2000)
    os.chmod(volume, 0o3777)
    os.setxattr(volume, "user.note", b"from the last tenant")
    os.setxattr(volume, "trusted.note", b"from the last tenant")
    os.setxattr(volume, ACCESS, acl(1234))
    os.setxattr(volume, DEFAULT, acl(1234))
    project(volume, 4711)
    subprocess.run(["chattr", "+SdA", volume], check=True)
    subprocess.run(["chattr", "+i", volume], check=True)


def like(volume: Path) -> dict[str, object]:
    """All that a new user of a directory could notice."""
    status = os.stat(volume)
    return {
        "mode": oct(status.st_mode),
        "owner": (status.st_uid, status.st_gid),
        "attributes": {name: os.getxattr(volume, name) for name in os.listxattr(volume)},
        "flags": flags(volume).replace("e", "-").replace("I", "-"),
        "project": project(volume),
    }


async def test_what_a_tenant_made_of_a_directory_is_gone_after_its_cleaning(trees: KernelTrees, folder: Path) -> None:
    for name in ("used", "new"):
        (folder / name).mkdir()
    use(folder / "used")

    await trees.empty(folder / "used", inside=folder)

    assert os.listdir(folder / "used") == []
    assert like(folder / "used") == like(folder / "new")


async def test_cleaned_directory_has_what_its_parent_hands_on(trees: KernelTrees, folder: Path) -> None:
    os.chown(folder, 0, 3000)
    os.chmod(folder, 0o2775)
    os.setxattr(folder, DEFAULT, acl(77))
    project(folder, 42, inherit=True)
    subprocess.run(["chattr", "+d", folder], check=True)
    (folder / "used").mkdir()
    use(folder / "used")
    (folder / "new").mkdir()
    assert like(folder / "new")["project"] == (42 if folder.name == "xfs" else 0)

    await trees.empty(folder / "used", inside=folder)

    assert like(folder / "used") == like(folder / "new")


async def test_cleaned_mount_point_is_like_a_new_file_system(
    trees: KernelTrees, folder: Path, make_disk: Callable[..., Path], mount: Callable[..., None]
) -> None:
    os.chmod(folder, 0o2777)
    os.setxattr(folder, DEFAULT, acl(77))
    volume = folder / "vol"
    volume.mkdir()
    device = make_disk()
    subprocess.run(["mkfs.ext4", "-q", "-I", "256", str(device)], check=True)
    mount(device, volume)
    new = like(volume)
    use(volume)
    os.setxattr(volume / "lost+found", ACCESS, acl(1234))
    os.chmod(volume / "lost+found", 0o777)

    await trees.empty(volume, inside=folder)

    assert like(volume) == new
    assert new["mode"] == "0o40755"
    assert os.listxattr(volume / "lost+found") == []
    assert oct(os.stat(volume / "lost+found").st_mode) == "0o40700"


async def test_command_of_the_administrator_leaves_nothing_of_it_either(trees: KernelTrees, folder: Path) -> None:
    for name in ("used", "new"):
        (folder / name).mkdir()
    use(folder / "used")
    subprocess.run(["chattr", "-i", folder / "used"], check=True)

    await trees.empty_with(["sh", "-c", 'rm "$LOCAL_PV_FILESYSTEM"/*'], folder / "used", inside=folder)

    assert like(folder / "used") == like(folder / "new")


def test_directory_that_is_not_as_it_should_be_is_not_called_clean(folder: Path) -> None:
    (folder / "vol").mkdir()
    fd = os.open(folder / "vol", os.O_RDONLY)
    try:
        wanted = attributes.fresh(fd)
        attributes.verify(fd, wanted)
        for spoil in (
            lambda: os.chmod(folder / "vol", 0o700),
            lambda: os.chown(folder / "vol", 5, 0),
            lambda: os.setxattr(folder / "vol", "trusted.x", b"x"),
            lambda: os.setxattr(folder / "vol", DEFAULT, acl(5)),
            lambda: os.setxattr(folder / "vol", ACCESS, acl(5)),
            lambda: subprocess.run(["chattr", "+d", folder / "vol"], check=True),
            lambda: project(folder / "vol", 9),
        )[: 7 if folder.name == "xfs" else 6]:
            spoil()
            with pytest.raises(errors.NotClean):
                attributes.verify(fd, wanted)
            attributes.restore(fd, wanted)
    finally:
        os.close(fd)
