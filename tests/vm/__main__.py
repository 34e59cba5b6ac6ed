"""Runs the tests of this folder in virtual machines: `python -m tests.vm [FILES AND OPTIONS OF PYTEST]`.

Without files all are run, in two machines side by side: emulation takes one processor each.
"""

from __future__ import annotations

import compileall
import io
import json
import signal
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.vm import disks, guest, kernel

ROOT = Path(__file__).parent.parent.parent
SEEDS = ROOT / ".seeds" / "embedded.json"
FOLDER = "tests/vm"
FIRST = ("test_cleaning.py", "test_faults.py", "test_plugging.py")
"""Half of the work; all other files go to the second machine."""

TWICE = "test_reboot.py"
"""Its machine is started twice, with its disks in another order, and runs the tests for each start."""

NOTHING_CHOSEN = 5
"""The exit status of pytest when its options leave no test."""

_seeds = threading.Lock()


def main(arguments: list[str]) -> int:
    if (why := guest.missing()) is not None:
        print(why, file=sys.stderr)
        return guest.FAILED
    try:
        found = kernel.get()
        found.initramfs()
    except kernel.Missing as error:
        print(error, file=sys.stderr)
        return guest.FAILED
    files = [argument for argument in arguments if argument.startswith(FOLDER)]
    options = [argument for argument in arguments if argument not in files]
    # Compiling inside would take longer than all else that happens before the first test.
    compileall.compile_dir(ROOT / "src", quiet=2)
    stop = threading.Event()
    if files:
        return _run(files, options, found, sys.stdout.buffer, stop)
    every = sorted(path.name for path in Path(__file__).parent.glob("test_*.py"))
    halves = [[name for name in every if (name in FIRST) is first] for first in (True, False)]
    later = io.BytesIO()
    with ThreadPoolExecutor() as pool:
        ends = [
            pool.submit(_run, [f"{FOLDER}/{name}" for name in half], options, found, output, stop)
            for half, output in zip(halves, (sys.stdout.buffer, later), strict=True)
        ]
        try:
            statuses = {end.result() for end in ends}
        finally:
            stop.set()
    sys.stdout.buffer.write(later.getvalue())
    return _worst(statuses)


def _run(
    files: Sequence[str], options: Sequence[str], found: kernel.Kernel, output: guest.Output, stop: threading.Event
) -> int:
    command = [sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider"]
    statuses = {NOTHING_CHOSEN}
    for chosen, starts in (
        ([name for name in files if TWICE not in name], (disks.HERE,)),
        ([name for name in files if TWICE in name], disks.STARTS),
    ):
        if chosen:
            argv = [*command, *chosen, *options]
            ended = guest.run(argv, kernel=found, output=output, collect=_take_over_seeds, stop=stop, starts=starts)
            statuses.add(ended)
    return _worst(statuses)


def _worst(statuses: set[int]) -> int:
    """The exit status of several runs; one whose options left no test says nothing."""
    return max(statuses - {NOTHING_CHOSEN}, default=NOTHING_CHOSEN)


def _take_over_seeds(folder: Path) -> None:
    """What was recorded inside about requirements, for `make seeds` outside."""
    if not (folder / "seeds.json").exists():
        return
    inside = json.loads((folder / "seeds.json").read_text())
    with _seeds:
        known = json.loads(SEEDS.read_text()) if SEEDS.exists() else {}
        ran = (folder / "ran").read_text().split("\n")
        known |= {name: inside[name] for name in ran if name in inside}
        SEEDS.parent.mkdir(exist_ok=True)
        SEEDS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(guest.FAILED))
    sys.exit(main(sys.argv[1:]))
