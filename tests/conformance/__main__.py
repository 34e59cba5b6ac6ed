"""Runs Kubernetes' own end-to-end tests against the embedded engine, as root.

    python -m tests.conformance [PATTERN...]

Runs the specs whose names a pattern finds, or all; `fixed` stands for the part that CI runs. Specs that specs.toml
leaves out are not run, unless --left-out asks for just those. Results are kept in .conformance.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.conformance import images, machine, specs
from tests.kubernetes import build

KEPT = machine.PROJECT / ".conformance"
TOOLS = ("runc", "conmon", "busybox", "ip", "unshare", "setpriv", "nsenter", "losetup", "mkfs.ext4")
PROCESSES = 4 * (os.cpu_count() or 1)
"""More than processors: most specs wait for something most of the time."""


def missing() -> str:
    """What cannot be done without; empty when all is there."""
    if os.geteuid() != 0:
        return "needs root"
    absent = [name for name in TOOLS if shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin") is None]
    return f"{', '.join(absent)} missing" if absent else ""


def command(report: Path, *, focus: list[str], skip: list[str], processes: int) -> list[str]:
    """How ginkgo runs the specs; the engine's address is still to be added."""
    return [
        *(str(build.program("ginkgo")), "run", f"--procs={processes}", "--timeout=6h", "--no-color", "--silence-skips"),
        *(f"--focus={pattern}" for pattern in focus),
        *(f"--skip={pattern}" for pattern in skip),
        *(str(build.program("e2e")), "--", f"--results={report}", "--provider=skeleton", "--num-nodes=1"),
        *(f"--kubectl-path={build.program('kubectl')}", "--dump-logs-on-failure=false", "--disable-log-dump"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", help="which specs; `fixed` for those that CI runs")
    parser.add_argument("--left-out", action="store_true", help="run the specs that are left out")
    parser.add_argument("--processes", type=int, default=PROCESSES, help="how many run specs at the same time")
    options = parser.parse_args()
    if why := missing():
        print(f"conformance: {why}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    started = time.monotonic()
    plan = specs.read()
    focus = plan.focus(options.patterns)
    if options.left_out:
        # Ginkgo can only ask for what matches one of all patterns.
        focus, skip = plan.skipped, []
    else:
        skip = plan.skipped
    try:
        listed = subprocess.run([build.program("e2e"), "--list-images"], capture_output=True, text=True, check=True)
        made = images.make(listed.stdout.split())
        with machine.folder() as book:
            report = book.folder / "results" / "specs.jsonl"
            settings = {
                "images": {name: str(path) for name, path in made.items()},
                "command": command(report, focus=focus, skip=skip, processes=options.processes),
            }
            shutil.rmtree(KEPT, ignore_errors=True)
            try:
                code = machine.run(book, settings)
            finally:
                keep(book.folder)
            results = specs.read_report(report)
    except build.Missing as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 1
    if not results:
        print(f"conformance: no spec was run (exit code {code}); see {KEPT}", file=sys.stderr)
        return 1
    summary = specs.judge(results, plan, focus=focus)
    show(summary)
    print(f"make conformance: {time.monotonic() - started:.0f} s")
    # Ginkgo also fails for what belongs to no spec: a suite that could not be set up, or was cut short.
    return 0 if summary.good and code == 0 else 1


def keep(folder: Path) -> None:
    """Copy what a run wrote to where it can be read afterwards."""
    KEPT.mkdir(exist_ok=True)
    for path in [*(folder / "logs").iterdir(), *(folder / "results").iterdir()]:
        shutil.copy(path, KEPT)


def show(summary: specs.Summary) -> None:
    for result in summary.failures:
        print(f"FAILED {result.name}\n    {result.message.strip()[:2000]}")
    for pattern in summary.stale:
        print(f"STALE no spec is found by {pattern}")
    rows = specs.table(summary)
    for row in rows:
        print("  ".join(f"{cell:<14}" if not column else f"{cell:>8}" for column, cell in enumerate(row)))
    _, passed, failed, skipped, _ = rows[-1]
    print(f"{passed} passed, {failed} failed, {skipped} skipped")


if __name__ == "__main__":
    sys.exit(main())
