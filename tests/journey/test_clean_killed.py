"""The agent is killed while it wipes: the record says so, and the next one begins again and ends it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial

import pytest
from tests.journey.machine import MIB, Machine, holds_old_data, open_machine

from localpv.api.kinds.localdisk import CleaningState
from localpv.config import cleaners
from localpv.testing.waiting import PATIENCE_SECONDS

VERIFIED = CleaningState.VERIFIED
WAITING = CleaningState.WAITING
RUNNING = CleaningState.RUNNING

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="loop devices and mounts need root")
machine = pytest.fixture(open_machine)


@contextlib.asynccontextmanager
async def agent_process(machine: Machine) -> AsyncIterator[asyncio.subprocess.Process]:
    """The cleaner in a process of its own, which can be killed. It has the records until then."""
    machine.records.close()
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.journey.agent", str(machine.folder))
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        machine.reopen()


async def holds(condition: Callable[[], bool]) -> None:
    """Wait until something is true that another process does."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if condition():
                return
            await asyncio.sleep(0.02)


@pytest.mark.seed("DEL-8", "DEL-6")
async def test_killed_in_the_middle_of_wiping_the_next_process_wipes_it_all(machine: Machine) -> None:
    device = machine.device("sdb", size=192 * MIB)
    disk = await machine.record("sdb")
    await machine.order(disk, "shred", "4")

    for round in range(1, 4):
        async with agent_process(machine) as process:
            await holds(partial(machine.file_says, disk, f'"attempt":{round}'))
            await asyncio.sleep(0.1 * round)
            assert process.returncode is None
            process.send_signal(signal.SIGKILL)
        cleaning = await machine.status(disk)
        assert cleaning is not None
        assert (cleaning.state, cleaning.attempt) == (RUNNING, round), "it was cut short and says so"

    async with machine.cleaning():
        cleaning = await machine.until(disk, VERIFIED)
    assert cleaning.attempt == 4
    assert not holds_old_data(device)
    assert device.read_bytes().count(0) == 192 * MIB


async def test_what_a_killed_cleaning_left_running_is_waited_for(machine: Machine) -> None:
    device = machine.device("sdb", size=4 * MIB)
    command = machine.script(
        "slow.sh",
        f"test -e {machine.folder}/second && "
        'exec dd if=/dev/zero of="$LOCAL_PV_BLKDEVICE" bs=1M count=4 conv=fsync 2>/dev/null',
        'sleep 3600 >"$LOCAL_PV_BLKDEVICE" &',
        f"cd {machine.folder}; echo $! >pid.new; mv pid.new pid",
        "wait",
    )
    machine.settings = replace(machine.settings, block_cleaner=cleaners.read(command, for_devices=True))
    disk = await machine.record("sdb")
    await machine.order(disk, *command)
    pid = machine.folder / "pid"

    async with agent_process(machine) as process:
        await holds(pid.exists)
        process.kill()
    orphan = int(pid.read_text())
    try:
        (machine.folder / "second").touch()
        async with machine.cleaning():
            cleaning = await machine.until(disk, WAITING)
            assert f"process {orphan}" in cleaning.error
            os.kill(orphan, signal.SIGKILL)
            await machine.until(disk, VERIFIED)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(orphan, signal.SIGKILL)
    assert not holds_old_data(device)
