"""The driver over a pool of files on xfs, on real loop devices and mounts. All of it goes again."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.csi.driver import Driver
from tests.loops import Lent

from localpv.agent.pools.file_pool import FilePool
from localpv.host import loop
from localpv.host.workers import Workers

MIB = 1024 * 1024

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/loop-control"), reason="needs root and loop devices"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(needs_root)


@pytest.fixture
def place() -> Iterator[Path]:
    """A short path: that of a socket may have 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="csi-", dir="/tmp"))
    yield folder
    _unmount_below(folder)
    shutil.rmtree(folder)


@pytest.fixture
def pool_folder(place: Path) -> Iterator[Path]:
    file, at = place / "disk.img", place / "disk"
    with open(file, "wb") as image:
        image.truncate(4096 * MIB)
    lent = Lent.now(loop.attach(file))
    at.mkdir()
    subprocess.run(["mkfs.xfs", "-q", "-m", "reflink=1", str(lent.device)], check=True)
    subprocess.run(["mount", str(lent.device), str(at)], check=True)
    yield at / "pool"
    _unmount_below(place / "kubelet")
    for data in (at / "pool").glob("*/data"):
        if (device := loop.of_file(data)) is not None:
            loop.detach(device)
    subprocess.run(["umount", "-l", str(at)], check=True)
    lent.give_back()


@pytest.fixture
async def driver(place: Path, pool_folder: Path) -> AsyncIterator[Driver]:
    workers = Workers()
    pool = FilePool(name="fast", directory=pool_folder, size_bytes=0, workers=workers)
    found = Driver(folder=place, pools=[pool], workers=workers)
    await found.start()
    yield found
    await found.stop()


def _unmount_below(folder: Path) -> None:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    for at in reversed([line.split(" ")[4] for line in lines]):
        if Path(at).is_relative_to(folder):
            subprocess.run(["umount", "-l", at], check=False)
