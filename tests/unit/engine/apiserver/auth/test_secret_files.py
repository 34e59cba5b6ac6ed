from __future__ import annotations

import os
from pathlib import Path

import pytest

from localpv.engine.apiserver.auth import secret_files
from localpv.errors import StartError


def test_what_is_written_can_be_read_by_the_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "secret"
    secret_files.write(path, b"one")
    secret_files.write(path, b"two")
    assert secret_files.read(path) == b"two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [file.name for file in path.parent.iterdir()] == ["secret"]


def test_there_is_nothing_to_read_before_the_first_write(tmp_path: Path) -> None:
    assert secret_files.read(tmp_path / "none") is None


def test_all_of_it_is_on_the_disk_before_it_has_its_name_and_the_name_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, fsync, synced = tmp_path / "secret", os.fsync, []

    def note(descriptor: int) -> None:
        place = os.readlink(f"/proc/self/fd/{descriptor}")
        synced.append("folder" if place == str(tmp_path) else (os.fstat(descriptor).st_size, path.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    secret_files.write(path, b"secret")
    assert synced == [(6, False), "folder"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret"
    secret_files.write(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StartError, match="No space left on device") as refused:
        secret_files.write(path, b"new")
    assert refused.value.hint
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_in_place_of_a_file_is_told_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(StartError) as refused:
        secret_files.read(tmp_path)
    assert refused.value.hint
