"""What is done when the kernel does not open something beneath a directory: refused, tried again, or step by step."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from localpv.host import openat


class Kernel:
    """openat2(2), answering with errors as long as there are any, then as it really does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.errors: list[int] = []
        self.asked = 0
        self._real = openat._syscall
        monkeypatch.setattr(openat, "_usable", True)
        monkeypatch.setattr(openat, "_syscall", self.call)

    def call(self, *arguments: object) -> int:
        self.asked += 1
        if self.errors:
            ctypes.set_errno(self.errors.pop(0))
            return -1
        return int(self._real(*arguments))


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(monkeypatch)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    """A directory, open; whatever else is opened must be closed again."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "file").touch()
    (tmp_path / "in").symlink_to("a/b")
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    opened = len(os.listdir("/proc/self/fd"))
    yield fd
    assert len(os.listdir("/proc/self/fd")) == opened
    os.close(fd)


def place(fd: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


@pytest.mark.parametrize(("code", "usable"), [(errno.ENOSYS, False), (errno.EPERM, True), (errno.EAGAIN, True)])
def test_directory_is_opened_without_the_kernels_help_and_not_asked_for_where_there_is_none(
    kernel: Kernel, root: int, tmp_path: Path, code: int, usable: bool
) -> None:
    kernel.errors = [code]
    assert place(openat.directory("a", parent=root)) == str(tmp_path / "a")
    assert openat._usable is usable
    assert place(openat.directory(b"a", parent=root)) == str(tmp_path / "a")
    assert kernel.asked == (2 if usable else 1)


@pytest.mark.parametrize("code", [errno.EXDEV, errno.ELOOP, errno.ENOTDIR, errno.ENOENT])
def test_directory_that_the_kernel_refuses_is_refused(kernel: Kernel, root: int, code: int) -> None:
    kernel.errors = [code]
    with pytest.raises(OSError) as refused:
        openat.directory("a", parent=root)
    assert (refused.value.errno, refused.value.filename) == (code, "a")


def test_another_mount_is_told_by_its_number_and_closed(
    kernel: Kernel, root: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.errors = [errno.ENOSYS]
    monkeypatch.setattr(openat, "mount_id", lambda fd: 1 if fd == root else 2)
    with pytest.raises(OSError) as refused:
        openat.directory("a", parent=root)
    assert refused.value.errno == errno.EXDEV


def test_path_is_looked_at_again_when_something_was_moved_on_the_way(kernel: Kernel, root: int, tmp_path: Path) -> None:
    kernel.errors = [errno.EAGAIN] * 3
    assert place(openat.beneath("in", root=root)) == str(tmp_path / "a/b")
    assert kernel.asked == 4
    kernel.errors = [errno.EAGAIN] * 1000
    assert place(openat.beneath("a/b", root=root)) == str(tmp_path / "a/b"), "and step by step in the end"


@pytest.mark.parametrize("code", [errno.EXDEV, errno.ELOOP, errno.ENOENT])
def test_path_that_the_kernel_refuses_is_refused(kernel: Kernel, root: int, code: int) -> None:
    kernel.errors = [code]
    with pytest.raises(OSError) as refused:
        openat.beneath("a/b", root=root)
    assert (refused.value.errno, kernel.asked) == (code, 1)


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EPERM])
def test_without_the_kernels_help_a_path_is_gone_step_by_step_and_no_link_is_followed(
    kernel: Kernel, root: int, tmp_path: Path, code: int
) -> None:
    kernel.errors = [code] * 10
    for path in ("a", "a/b", "a/file"):
        assert place(openat.beneath(path, root=root)) == str(tmp_path / path)
    for path, error in (
        ("in", errno.ELOOP),
        ("in/x", errno.ELOOP),
        ("a/none", errno.ENOENT),
        ("a/file/x", errno.ENOTDIR),
    ):
        with pytest.raises(OSError) as refused:
            openat.beneath(path, root=root)
        assert refused.value.errno == error
    assert kernel.asked == 7, "each path was asked for once"


def test_kernel_that_cannot_is_not_asked(kernel: Kernel, root: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openat, "_usable", False)
    place(openat.beneath("a/b", root=root))
    place(openat.directory("a", parent=root))
    assert kernel.asked == 0


def test_what_is_opened_beneath_can_only_be_looked_at(kernel: Kernel, root: int) -> None:
    fd = openat.beneath("a/file", root=root)
    try:
        assert stat.S_ISREG(os.fstat(fd).st_mode)
        with pytest.raises(OSError):
            os.read(fd, 1)
    finally:
        os.close(fd)


def test_mount_is_told_by_the_kernel_or_not_at_all(root: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number = openat.mount_id(root)
    lines = Path(f"/proc/self/fdinfo/{root}").read_text().splitlines()
    assert f"mnt_id:\t{number}" in lines
    (tmp_path / "info").write_text("pos:\t0\n")
    info = (tmp_path / "info").open()
    with monkeypatch.context() as silent, pytest.raises(OSError, match="does not tell"):
        silent.setattr("builtins.open", lambda path: info)
        openat.mount_id(root)
