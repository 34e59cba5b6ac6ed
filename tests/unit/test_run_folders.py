"""What tests leave behind for mounts is removed, and nothing else."""

from __future__ import annotations

from pathlib import Path

from tests.run_folders import remove_below

from localpv.engine.kubelet import paths


def run_folder(runs: Path, name: str, data: Path) -> Path:
    folder = runs / name
    (folder / "pods").mkdir(parents=True)
    (folder / paths.OWNER).write_text(f"{data}\n")
    return folder


def test_folders_of_this_run_go_and_those_of_others_and_what_is_in_use_stay(tmp_path: Path) -> None:
    runs, mine, other = tmp_path / "runs", tmp_path / "mine", tmp_path / "mine-not"
    gone, stays, used = (
        run_folder(runs, "a", mine / "data"),
        run_folder(runs, "b", other / "data"),
        run_folder(runs, "c", mine / "used"),
    )
    (used / "pods" / "file").touch()
    remove_below(mine, runs=runs)
    assert not gone.exists()
    assert (stays / "pods").is_dir() and (stays / paths.OWNER).exists()
    assert (used / "pods" / "file").exists() and (used / paths.OWNER).exists()
