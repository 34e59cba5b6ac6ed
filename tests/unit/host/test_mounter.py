"""What the kernel is asked to mount, with which flags, and what is said when it does not."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from localpv import errors
from localpv.host import commands, mountcalls, mounter
from localpv.host.folders import FileKind
from localpv.host.model.devices import DeviceNumber
from localpv.host.mounter import KernelMounter
from localpv.host.workers import Workers

BIND, REMOUNT, READ_ONLY, NO_SUID, NO_DEV, NO_ATIME, RELATIME = 4096, 32, 1, 2, 4, 1024, 1 << 21


class Kernel:
    """Takes the place of mount(2), umount(2) and statfs(2)."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, int, str]] = []
        self.flags = 0
        self.refuses = 0

    def mount(self, source: str, at: Path, kind: str, flags: int, options: str) -> None:
        if self.refuses:
            raise OSError(self.refuses, os.strerror(self.refuses))
        self.calls.append((str(source), kind, flags, options))

    def unmount(self, at: Path) -> None:
        if self.refuses:
            raise OSError(self.refuses, os.strerror(self.refuses))


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel()
    monkeypatch.setattr(mountcalls, "mount", made.mount)
    monkeypatch.setattr(mountcalls, "unmount", made.unmount)
    monkeypatch.setattr(mounter.os, "statvfs", lambda at: SimpleNamespace(f_flag=made.flags))  # type: ignore[attr-defined]
    return made


def opened() -> list[str]:
    return [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]


@pytest.fixture
async def real() -> KernelMounter:
    return KernelMounter(workers=Workers())


@pytest.mark.parametrize(
    ("size", "mode", "options"),
    [(0, 0o777, "mode=777"), (1, 0o700, "mode=700,size=1"), (4096, 0o777, "mode=777,size=4096")],
)
async def test_memory_has_the_size_and_the_mode_that_were_asked_for(
    kernel: Kernel, real: KernelMounter, size: int, mode: int, options: str
) -> None:
    await real.mount_memory(Path("/at"), size_bytes=size, mode=mode)
    assert kernel.calls == [("tmpfs", "tmpfs", 0, options)]


async def test_memory_is_for_all_unless_something_else_is_said(kernel: Kernel, real: KernelMounter) -> None:
    await real.mount_memory(Path("/at"))
    assert kernel.calls == [("tmpfs", "tmpfs", 0, "mode=777")]


@pytest.mark.parametrize(
    ("read_only", "options", "flags"),
    [
        (False, (), None),
        (False, ("rw", "discard"), None),
        (True, (), READ_ONLY),
        (False, ("ro",), READ_ONLY),
        (False, ("nodev",), NO_DEV),
        (True, ("noatime",), READ_ONLY | NO_ATIME),
    ],
)
async def test_what_is_open_is_bound_and_remounted_only_where_that_changes_something(
    kernel: Kernel, real: KernelMounter, tmp_path: Path, read_only: bool, options: tuple[str, ...], flags: int | None
) -> None:
    async with real.opened(tmp_path) as source:
        await real.bind(source, Path("/at"), read_only=read_only, options=options)
        bound = (f"/proc/self/fd/{source.fd}", "", BIND, "")
    assert kernel.calls == [bound, *([] if flags is None else [("none", "", BIND | REMOUNT | flags, "")])]


@pytest.mark.parametrize("read_only", [True, False])
async def test_flags_that_it_has_from_where_it_came_stay(kernel: Kernel, real: KernelMounter, read_only: bool) -> None:
    kernel.flags = 2 | 4 | 4096  # nosuid, nodev, relatime as statfs tells them
    await real.make_read_only(Path("/at"), read_only=read_only)
    kept = BIND | REMOUNT | NO_SUID | NO_DEV | RELATIME
    assert kernel.calls == [("none", "", kept | (READ_ONLY if read_only else 0), "")]


async def test_flag_that_is_not_there_is_not_set_and_noatime_takes_the_place_of_relatime(
    kernel: Kernel, real: KernelMounter, tmp_path: Path
) -> None:
    kernel.flags = 1 | 4096
    async with real.opened(tmp_path) as source:
        await real.bind(source, Path("/at"), options=("noatime",))
        await real.bind(source, Path("/at"), options=("nosuid",))
    assert [flags for _, _, flags, _ in kernel.calls] == [
        BIND,
        BIND | REMOUNT | NO_ATIME,
        BIND,
        BIND | REMOUNT | NO_SUID | RELATIME,
    ]


@pytest.mark.parametrize("read_only", [True, False])
def test_descriptor_is_bound_by_workers_too(kernel: Kernel, read_only: bool) -> None:
    mounter.bind_now(7, Path("/at"), read_only=read_only)
    again = [("none", "", BIND | REMOUNT | READ_ONLY, "")] if read_only else []
    assert kernel.calls == [("/proc/self/fd/7", "", BIND, ""), *again]


async def test_refusals_are_told(kernel: Kernel, real: KernelMounter) -> None:
    kernel.refuses = errno.EPERM
    with pytest.raises(errors.HostError, match="nothing can be mounted"):
        await real.mount_memory(Path("/at"))
    with pytest.raises(errors.HostError, match="cannot be unmounted: Operation") as plain:
        await real.unmount(Path("/at"))
    assert not isinstance(plain.value, errors.DeviceBusy)
    kernel.refuses = errno.EBUSY
    with pytest.raises(errors.DeviceBusy):
        await real.unmount(Path("/at"))
    kernel.refuses = 0
    await real.unmount(Path("/at"))


async def test_device_is_mounted_by_the_tool(real: KernelMounter, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    async def run(argv: list[str], **how: Any) -> None:
        ran.append(argv)

    monkeypatch.setattr(commands, "run", run)
    await real.mount(Path("/dev/x"), Path("/at"), fs_type="xfs")
    await real.mount(Path("/dev/x"), Path("/at"), fs_type="xfs", options=("ro", "nouuid"))
    assert ran == [
        ["mount", "-t", "xfs", "/dev/x", "/at"],
        ["mount", "-t", "xfs", "-o", "ro,nouuid", "/dev/x", "/at"],
    ]


async def test_what_is_opened_is_told_by_its_kind_and_closed_at_the_end(
    real: KernelMounter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch(mode=0o640)
    (tmp_path / "link").symlink_to("file")
    async with real.opened(tmp_path) as folder:
        assert (folder.kind, folder.device, folder.real_path) == (FileKind.DIRECTORY, None, tmp_path)
    async with real.opened(tmp_path / "link") as file:
        assert (file.kind, file.path, file.real_path) == (FileKind.OTHER, tmp_path / "link", tmp_path / "file")
        assert (stat.S_IMODE(file.mode), file.gid) == (0o640, os.getegid())
        assert file.own_path == Path(f"/proc/self/fd/{file.fd}") and file.own_path.exists()
    assert str(tmp_path / "file") not in opened()
    with pytest.raises(FileNotFoundError):
        async with real.opened(tmp_path / "none"):
            pass

    block = os.stat_result((stat.S_IFBLK, 0, 0, 0, 0, 5, 0, 0, 0, 0), {"st_rdev": os.makedev(8, 16)})
    fd = os.open(tmp_path, os.O_PATH)
    with monkeypatch.context() as changed:
        changed.setattr(os, "fstat", lambda fd: block)
        device = mounter._source(tmp_path, fd)
    os.close(fd)
    assert (device.kind, device.device, device.gid) == (FileKind.BLOCK_DEVICE, DeviceNumber(8, 16), 5)


def test_what_is_not_open_is_bound_by_its_path() -> None:
    for fd, path in ((-1, "/a"), (0, "/proc/self/fd/0")):
        source = mounter.Source(path=Path("/l"), real_path=Path("/a"), kind=FileKind.OTHER, fd=fd)
        assert source.own_path == Path(path)


async def test_what_was_opened_is_closed_when_the_look_at_it_fails(
    real: KernelMounter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: Path, fd: int) -> mounter.Source:
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(mounter, "_source", fails)
    with pytest.raises(OSError, match="no"):
        async with real.opened(tmp_path):
            pass
    assert str(tmp_path) not in opened()
