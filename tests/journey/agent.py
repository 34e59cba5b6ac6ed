"""The cleaner over a test's folder, in a process that the test can kill: `python -m tests.journey.agent FOLDER`."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

from tests.journey.machine import Machine

from localpv.config import cleaners


async def main(folder: Path) -> None:
    machine = Machine(folder)
    for script in folder.glob("*.sh"):
        machine.settings = replace(machine.settings, block_cleaner=cleaners.read((str(script),), for_devices=True))
    machine.records.open()
    await machine.cleaner().run()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
