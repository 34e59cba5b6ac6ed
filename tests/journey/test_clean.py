"""Released disks become clean disks: real loop devices and directories, by every method, whatever is in the way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.journey.machine import Machine, holds_old_data

from localpv.api.kinds.localdisk import CleaningState, DiskKind

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="loop devices and mounts need root")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    machine.records.open()
    try:
        yield machine
    finally:
        machine.close()


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(("dd-zero", "2"), marks=pytest.mark.seed("CLN-1")),
        pytest.param(("blkdiscard",), marks=pytest.mark.seed("CLN-2")),
        pytest.param(("shred", "2"), marks=pytest.mark.seed("CLN-4")),
    ],
    ids=lambda words: words[0],
)
async def test_device_that_is_overwritten_holds_nothing_of_the_old_data(
    machine: Machine, method: tuple[str, ...]
) -> None:
    device = machine.device("sdb")
    disk = await machine.record("sdb")
    await machine.order(disk, *method)

    async with machine.cleaning():
        cleaning = await machine.until(disk, CleaningState.VERIFIED)

    assert not holds_old_data(device)
    assert cleaning.volume_uid == "uid-1"
    assert cleaning.attempt == 1
    assert cleaning.method == method
    assert cleaning.bytes_done == cleaning.bytes_total > 0
    assert cleaning.finished_at is not None


@pytest.mark.seed("CLN-8")
async def test_directory_is_emptied_and_stays(machine: Machine) -> None:
    volume = machine.disks / "vol"
    (volume / "a" / "b").mkdir(parents=True)
    (volume / "a" / "b" / "file").write_text("old")
    disk = await machine.record("vol", DiskKind.DIRECTORY)
    await machine.order(disk)

    async with machine.cleaning():
        await machine.until(disk, CleaningState.VERIFIED)

    assert list(volume.iterdir()) == []
