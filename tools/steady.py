"""Runs a suite of tests again and again beside other work, and tells which tests fail now and then.

    python tools/steady.py [--runs 10] [--no-load] SUITE...

A suite is `test`, `quick`, `vm`, `kubernetes` or one of its parts, a word of the name of a ring of tools/run_tests.py,
or anything that pytest takes: folders or files, then options. What a failed run printed is kept in .steady/.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import run_tests

ROOT = Path(__file__).parent.parent
KEPT = ROOT / ".steady"
TARGETS = {"test": "test", "quick": "quick", "vm": "test-vm", "kubernetes": "test-kubernetes"} | {
    f"kubernetes-{part}": f"kubernetes-{part}" for part in ("contract", "placing", "manager", "workloads", "cluster")
}
"""Suites that are targets of the Makefile."""

INTERRUPTED = 130
NO_TEST_NAMED = "(no test is named: see what the run printed)"
BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n    for _ in range(100_000):\n        pass\n"
"""A process that computes for as long as the one that started it lives."""

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?(?:\[.*?\])?)(?: - .*)?$", re.MULTILINE)
_SUMMARY = re.compile(r"^=* ?((?:\d+ [a-z]+(?:, )?)+) in [\d.]+s.*$", re.MULTILINE)
_COUNT = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")


class UnknownSuite(Exception):
    """Neither a name that is known nor something for pytest."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the suite: how it ended, what it printed, how long it took."""

    number: int
    code: int
    printed: str
    seconds: float

    @property
    def passed(self) -> bool:
        return self.code == 0

    @property
    def failures(self) -> list[str]:
        """The tests that failed, each once; a run that broke off without naming one has failed too."""
        named = list(dict.fromkeys(_FAILED.findall(self.printed)))
        return named or ([] if self.passed else [NO_TEST_NAMED])

    @property
    def counts(self) -> str:
        """How many tests passed, failed and were skipped, of all runs of pytest that the suite is made of."""
        found: Counter[str] = Counter()
        for summary in _SUMMARY.findall(self.printed):
            for number, word in _COUNT.findall(summary):
                found["errors" if word == "error" else word] += int(number)
        return ", ".join(f"{found[word]} {word}" for word in ("passed", "failed", "errors", "skipped") if found[word])

    def __str__(self) -> str:
        end = "passed" if self.passed else f"FAILED with {self.code}"
        return f"run {self.number}: {end} in {self.seconds:.0f} s ({self.counts or 'no test counted'})"


def command(suite: Sequence[str]) -> list[str]:
    """What runs a suite."""
    if len(suite) == 1 and suite[0] in TARGETS:
        return ["make", "--no-print-directory", TARGETS[suite[0]]]
    rings = [run_tests.SHARING, run_tests.ALONE]
    if len(suite) == 1 and (named := [ring for ring in rings if suite[0] in ring.name.split()]):
        return named[0].command([])
    if not suite or not (ROOT / suite[0].partition("::")[0]).exists():
        names = "; ".join(ring.name for ring in rings)
        raise UnknownSuite(
            f"no suite {' '.join(suite)!r}: it is one of {', '.join(TARGETS)}, a word of the name of a ring ({names}),"
            " or what pytest takes, folders first"
        )
    return [sys.executable, "-m", "pytest", *suite]


def tally(runs: Iterable[Run]) -> list[tuple[int, str]]:
    """How often which test failed, the worst first."""
    found = Counter(name for run in runs for name in run.failures)
    return sorted(((times, name) for name, times in found.items()), key=lambda each: (-each[0], each[1]))


@contextlib.contextmanager
def load(processes: int) -> Iterator[None]:
    """Other work beside: as many busy processes as asked for, ended with us."""
    words = [sys.executable, "-c", BUSY, str(os.getpid())]
    # In process groups of their own: at Ctrl-C they are ended after the tests.
    started = [subprocess.Popen(words, process_group=0) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()


def run(words: Sequence[str], number: int, output: Path) -> Run:
    """Run the suite once. Its output is in the file while it runs, and stays there if it fails."""
    started = time.monotonic()
    with output.open("wb") as file:
        process = subprocess.Popen(
            words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, process_group=0
        )
        try:
            code = process.wait()
        except KeyboardInterrupt:
            # Once: a second one would keep the tests from ending what they started.
            os.killpg(process.pid, signal.SIGINT)
            process.wait()
            raise
    done = Run(number, code, output.read_text(errors="replace"), time.monotonic() - started)
    if done.passed:
        output.unlink()
    return done


def steadily(words: Sequence[str], *, runs: int, kept: Path, busy: int) -> int:
    """Run the command as often as asked for and tell; what is returned is the exit status."""
    # Also where the one who started us ignores Ctrl-C: tests that send it to others must find it as usual.
    signal.signal(signal.SIGINT, _ended)
    signal.signal(signal.SIGTERM, _ended)
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    print(f"{runs} times: {shlex.join(words)}", flush=True)
    done: list[Run] = []
    with load(busy), contextlib.suppress(KeyboardInterrupt):
        for number in range(1, runs + 1):
            done.append(run(words, number, kept / f"run-{number}.txt"))
            print(done[-1], flush=True)
    failed = [each for each in done if not each.passed]
    for times, name in tally(done):
        print(f"{times} of {len(done)}: {name}")
    print(f"{len(done) - len(failed)} of {len(done)} runs passed" + (f"; the others are in {kept}" if failed else ""))
    if failed:
        return 1
    return 0 if len(done) == runs else INTERRUPTED


def _ended(*_: object) -> None:
    raise KeyboardInterrupt


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="steady.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--no-load", action="store_true", help="leave the machine to the tests")
    options, suite = parser.parse_known_args(arguments)
    try:
        words = command(suite)
    except UnknownSuite as error:
        print(error, file=sys.stderr)
        return 2
    kept = KEPT / re.sub(r"[^\w.]+", "-", " ".join(suite)).strip("-")
    return steadily(words, runs=options.runs, kept=kept, busy=0 if options.no_load else os.cpu_count() or 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
