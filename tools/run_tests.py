"""Runs the rings of tests that need no cluster, in parallel where they do not disturb each other, and tells how long.

Workers are forks of one process that has collected all tests (tests/forked_workers.py). Half of them begin with tests
that mostly wait, while the others compute (tests/shares.py).

Arguments go to pytest. With --quick only the rings that need nothing of the machine are run.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass, replace

WORKERS = 3 * (os.cpu_count() or 1)
"""More than processors: half of them wait for something most of the time, and others do now and then."""

QUICK_WORKERS = 2 + (os.cpu_count() or 1)
"""Quick tests hardly wait, and workers start engines of their own."""

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
        workers = [f"--workers={self.workers}"] if self.workers else []
        marked = ["-m", self.marked] if self.marked else []
        without = [f"--ignore={self.without}"] if self.without else []
        return [sys.executable, "-m", "pytest", *workers, *marked, *without, *self.folders, *arguments]


ALL = Ring(
    "all rings", ("tests/pods", "tests/e2e", *DEVICES, "tests/csi", "tests/engine", "tests/clients", *QUICK), WORKERS
)
"""Those that run alone come last."""

SHARING = replace(ALL, name="rings that share the machine", marked="not alone")
"""Processes, folders, loop devices, mounts and pods of their own."""

ALONE = Ring("tests that run alone", DEVICES, marked="alone")
"""It looks at all loop devices of the machine."""


def main(arguments: list[str]) -> int:
    started = time.monotonic()
    quick = "--quick" in arguments
    ring = Ring("quick rings", QUICK, QUICK_WORKERS, marked="not long", without=NOT_QUICK) if quick else ALL
    words = [word for word in arguments if word != "--quick"]
    code = subprocess.run(ring.command(words), check=False).returncode
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds, processor = time.monotonic() - started, used.ru_utime + used.ru_stime
    print(f"make {'quick' if quick else 'test'}: {seconds:.0f} s, {processor:.0f} s of a processor")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
