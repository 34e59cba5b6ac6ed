"""Who has a device open, told from a made-up /proc and /sys."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from localpv.host import devices
from localpv.host.devices import KernelOpeners
from localpv.host.model.devices import DeviceNumber
from localpv.host.workers import Workers

DISK, OTHER = DeviceNumber(8, 16), DeviceNumber(8, 32)


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> dict[str, DeviceNumber]:
    """Which paths are block devices."""
    found: dict[str, DeviceNumber] = {}
    monkeypatch.setattr(devices, "_block_device", found.get)
    return found


def a_process(root: Path, pid: object, *files: str, name: str = "dd") -> None:
    folder = root / "proc" / str(pid)
    (folder / "fd").mkdir(parents=True)
    for file in files:
        (folder / "fd" / file).touch()
    if name:
        (folder / "comm").write_text(f"{name}\n")


def a_loop(root: Path, name: str, backing: str) -> None:
    folder = root / "sys/block" / name / "loop"
    folder.mkdir(parents=True)
    (folder / "backing_file").write_text(f"{backing}\n")


async def test_processes_and_loop_devices_that_have_the_device_are_told(
    tmp_path: Path, nodes: dict[str, DeviceNumber]
) -> None:
    own = os.getpid()
    for pid, files in ((own, ("3",)), (own + 1, ("1", "3")), (own + 2, ("3",)), (own + 3, ())):
        a_process(tmp_path, pid, *files)
    a_process(tmp_path, own + 4, "3", name="")  # it ends while it is looked at
    a_process(tmp_path, "self", "3")
    (tmp_path / "proc" / str(own + 5)).mkdir()  # its files are not ours to see
    for who, number in ((own, DISK), (own + 1, DISK), (own + 2, OTHER), (own + 4, DISK), ("self", DISK)):
        nodes[f"{tmp_path}/proc/{who}/fd/3"] = number
    nodes |= {"/dev/sdb": DISK, "/dev/sdc": OTHER, "/images/sdb": DISK}
    a_loop(tmp_path, "loop0", "/dev/sdb")
    a_loop(tmp_path, "loop1", "/dev/sdc")
    a_loop(tmp_path, "loop2", "/images/sdb")
    (tmp_path / "sys/block/loop3").mkdir()
    kernel = KernelOpeners(workers=Workers(), proc=tmp_path / "proc", sys=tmp_path / "sys")
    assert await kernel.of(DISK) == ("loop device loop0", f"dd (process {own + 1})")
    assert await kernel.of(DeviceNumber(8, 48)) == ()


def test_only_block_devices_have_numbers(tmp_path: Path) -> None:
    for path in (str(tmp_path), "/dev/null", str(tmp_path / "none")):
        assert devices._block_device(path) is None
