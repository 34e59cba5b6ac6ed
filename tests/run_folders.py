"""Folders that `localpv up` makes for mounts of pods lie outside its data folder and are not removed with that.

At the end of a run each worker removes those of its own tests.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from localpv.engine.kubelet import paths


@pytest.fixture(scope="session", autouse=True)
def run_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    yield
    remove_below(tmp_path_factory.getbasetemp())


def remove_below(folder: Path, *, runs: Path = paths.RUN) -> None:
    """Remove the folders for mounts of all data folders below a folder, as far as nothing is in them."""
    real = Path(os.path.realpath(folder))
    for owner in runs.glob(f"*/{paths.OWNER}"):
        with contextlib.suppress(OSError):
            if not Path(owner.read_text().strip()).is_relative_to(real):
                continue
            # Only empty folders go: what a test has left mounted there stays, and is seen.
            for root, _, _ in os.walk(owner.parent, topdown=False):
                if Path(root) == owner.parent:
                    owner.unlink()
                os.rmdir(root)
