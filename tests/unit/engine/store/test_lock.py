"""A data folder has one process, and whoever asks is told which."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from localpv.engine.store.lock import FolderLock
from localpv.errors import StartError, StoreLocked

SLEEPER = "import sys; sys.stdin.read()"


def test_owner_is_the_process_that_holds_the_lock(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    assert lock.owner() is None, "nobody has ever had it"
    lock.acquire()
    assert FolderLock(tmp_path).owner() == os.getpid()
    lock.release()
    assert FolderLock(tmp_path).owner() is None


def test_lock_is_refused_with_the_number_of_its_owner_and_free_after_it(tmp_path: Path) -> None:
    first, second = FolderLock(tmp_path), FolderLock(tmp_path)
    first.acquire()
    with pytest.raises(StoreLocked, match=f"in use by process {os.getpid()}$"):
        second.acquire()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(StoreLocked):
        second.acquire()
    assert len(os.listdir("/proc/self/fd")) == before, "who is refused keeps nothing open"
    second.release()
    assert first.owner() == os.getpid(), "what was never held is not given back"
    first.release()
    second.acquire()
    second.release()


def test_asking_who_has_the_folder_keeps_nothing_open(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    lock.acquire()
    before = len(os.listdir("/proc/self/fd"))
    assert lock.owner() == os.getpid()
    assert len(os.listdir("/proc/self/fd")) == before
    lock.release()
    before = len(os.listdir("/proc/self/fd"))
    assert lock.owner() is None
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("written", ["", "nonsense", "{other}", "{gone}"])
def test_owner_that_does_not_have_the_file_open_is_none(tmp_path: Path, written: str) -> None:
    """Whoever is asked to end is killed: a number that is somebody else's by now must not be believed."""
    with subprocess.Popen([sys.executable, "-c", SLEEPER], stdin=subprocess.PIPE) as other:
        with subprocess.Popen(["true"]) as gone:
            pass
        with open(tmp_path / "lock", "w") as held:
            held.write(written.format(other=other.pid, gone=gone.pid))
            held.flush()
            fcntl.flock(held, fcntl.LOCK_EX)
            assert FolderLock(tmp_path).owner() is None
        other.communicate()


def test_number_of_a_longer_owner_before_leaves_no_digits(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("123456789012345\n")
    lock = FolderLock(tmp_path)
    lock.acquire()
    assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
    lock.release()


def test_new_lock_is_the_owners_alone(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    lock.acquire()
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
    lock.release()


def test_folder_that_cannot_be_written_is_told_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="cannot write") as refused:
        FolderLock(tmp_path / "missing").acquire()
    assert "--data" in refused.value.hint
