"""Real loop devices and mounts. Everything made here goes again, also after a failure."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests import folders
from tests.loops import Lent

from localpv.host import loop
from localpv.host.devices import KernelDevices
from localpv.host.mounts import KernelMounts
from localpv.host.trees import KernelTrees
from localpv.host.wiper import KernelWiper
from localpv.host.workers import Workers

MIB = 1024 * 1024

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/loop-control"), reason="needs root and loop devices"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in folders.tests_in(Path(__file__).parent, items):
        if "fake" not in item.name:
            item.add_marker(needs_root)


@pytest.fixture(autouse=True)
def _nothing_stays_open(tmp_path: Path) -> Iterator[None]:
    """A descriptor that is forgotten keeps a volume busy for as long as the process lives."""
    yield
    left = [_target(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
    assert [path for path in left if Path(path).is_relative_to(tmp_path) or path.startswith("/dev/loop")] == []


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except FileNotFoundError:  # closed meanwhile, by a thread of somebody else's
        return ""


@pytest.fixture
def make_disk(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Makes loop devices of the given number of MiB."""
    made: list[Lent] = []

    def make(mib: int = 16, **options: bool) -> Path:
        file = tmp_path / f"disk{len(made)}.img"
        with open(file, "wb") as image:
            image.truncate(mib * MIB)
        made.append(Lent.now(loop.attach(file, **options)))
        return made[-1].device

    yield make
    for lent in made:
        lent.give_back()


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Mounts, and unmounts in reverse order at the end."""
    made: list[Path] = []

    def mount(*arguments: str | Path) -> None:
        subprocess.run(["mount", *map(str, arguments)], check=True)
        made.append(Path(arguments[-1]))

    yield mount
    for place in reversed(made):
        subprocess.run(["umount", "-l", str(place)], check=False, stderr=subprocess.DEVNULL)


@pytest.fixture
async def workers() -> Workers:
    return Workers()


@pytest.fixture
async def devices(workers: Workers) -> KernelDevices:
    return KernelDevices(workers=workers)


@pytest.fixture
async def trees(workers: Workers) -> KernelTrees:
    return KernelTrees(workers=workers, mounts=KernelMounts())


@pytest.fixture
async def wiping(workers: Workers, devices: KernelDevices) -> KernelWiper:
    return KernelWiper(workers=workers, devices=devices)
