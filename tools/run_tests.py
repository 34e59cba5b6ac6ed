"""Runs the rings of tests that need no cluster, in parallel where they do not disturb each other, and tells how long.

A worker that has nothing left takes half of what another one has. Half of the workers begin with tests that mostly
wait, while the others compute (tests/shares.py).

Arguments go to pytest. With --quick only the rings that need nothing of the machine are run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass

NO_TESTS = 5
"""What pytest exits with when nothing was selected."""

WORKERS = 3 * (os.cpu_count() or 1)
"""More than processors: half of them wait for something most of the time, and others do now and then."""

QUICK_WORKERS = 1 + (os.cpu_count() or 1)
"""Quick tests hardly wait, and every worker collects all of them and starts engines of its own."""

QUICK = ("tests/workloads", "tests/placing", "tests/contract", "tests/unit")
NOT_QUICK = "tests/unit/linear"
"""Measures every parser with hundreds of inputs, which takes a third of the time of all quick rings."""

DEVICES = ("tests/journey", "tests/host")


@dataclass(frozen=True, slots=True)
class Ring:
    name: str
    folders: tuple[str, ...]
    workers: int = 0
    marked: str = ""
    without: str = ""

    def command(self, arguments: list[str]) -> list[str]:
        workers = ["-n", str(self.workers), "--dist", "worksteal"] if self.workers else []
        marked = ["-m", self.marked] if self.marked else []
        without = [f"--ignore={self.without}"] if self.without else []
        return [sys.executable, "-m", "pytest", *workers, *marked, *without, *self.folders, *arguments]


SHARING = Ring(
    "rings that share the machine",
    ("tests/pods", "tests/e2e", *DEVICES, "tests/engine", "tests/clients", *QUICK),
    WORKERS,
    marked="not alone",
)
"""Processes, folders, loop devices, mounts and pods of their own."""

ALONE = Ring("tests that run alone", DEVICES, marked="alone")
"""It looks at all loop devices of the machine."""


def run(ring: Ring, arguments: list[str]) -> int:
    started = time.monotonic()
    code = subprocess.run(ring.command(arguments), check=False).returncode
    print(f"{ring.name}: {time.monotonic() - started:.0f} s", flush=True)
    return code


def main(arguments: list[str]) -> int:
    started = time.monotonic()
    quick = "--quick" in arguments
    rings = [Ring("quick rings", QUICK, QUICK_WORKERS, without=NOT_QUICK)] if quick else [SHARING, ALONE]
    codes = [run(ring, [word for word in arguments if word != "--quick"]) for ring in rings]
    print(f"{'make quick' if quick else 'make test'}: {time.monotonic() - started:.0f} s")
    failed = [code for code in codes if code not in (0, NO_TESTS)]
    # That a selection finds nothing in one ring is no failure; that it finds nothing at all is one.
    return failed[0] if failed else min(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
