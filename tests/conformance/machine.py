"""A machine of its own for a run: namespaces for processes, mounts and the network, and control groups apart.

All that is done inside ends with the first process there, which is killed when we are. What the kernel does not take
back by itself (loop devices, control groups, files) is in a ledger, and a janitor outlives us to read it.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.kubernetes import ledger

PROJECT = Path(__file__).parents[2]

IN_GROUPS = """
while [ "$1" != -- ]; do echo 0 > "$1/cgroup.procs" || exit 1; shift; done
shift
exec "$@"
"""
"""Runs a command in the control groups that are named before it, which become the roots of its namespace."""


@contextlib.contextmanager
def folder() -> Iterator[ledger.Ledger]:
    """A folder for one run. It goes with all that was made from it, also when this process is killed."""
    ledger.clean_abandoned()
    book = ledger.open_new(f"conformance-{secrets.token_hex(3)}")
    for name in ("tmp", "data", "run", "logs", "results"):
        (book.folder / name).mkdir()
    (book.folder / "tmp").chmod(0o1777)
    group = f"localpv-{book.folder.name}"
    book.add_cgroup(group)
    for root in ledger.cgroup_roots():
        (root / group).mkdir()
        _inherit_cpuset(root / group)
    janitor = _start_janitor(book.folder)
    try:
        yield book
    finally:
        janitor.communicate()


def _inherit_cpuset(group: Path) -> None:
    """Processors and memory of a new group are none at all in the first version of control groups."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if (group / name).exists() and (group.parent / name).exists():
            (group / name).write_text((group.parent / name).read_text())


def _start_janitor(where: Path) -> subprocess.Popen[bytes]:
    """A process that cleans the folder when its input ends, as it does at our end, whichever that is."""
    command = [sys.executable, "-m", "tests.kubernetes.ledger", str(where)]
    return subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.PIPE, start_new_session=True)


def run(book: ledger.Ledger, settings: Mapping[str, Any]) -> int:
    """Do inside what the settings say; the exit code."""
    path = book.folder / "settings.json"
    path.write_text(json.dumps({**settings, "folder": str(book.folder)}))
    process = subprocess.Popen(
        [
            *("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private", "--ipc", "--net"),
            *("--pid", "--fork", "--kill-child", "--mount-proc", "--"),
            # Only the first process in there: one from outside, whom nobody in there can move, would keep the group
            # from handing its controllers on to others.
            *("sh", "-c", IN_GROUPS, "sh", *(str(root / book.cgroups[0]) for root in ledger.cgroup_roots()), "--"),
            *("unshare", "--cgroup", "--", sys.executable, "-m", "tests.conformance.inside", str(path)),
        ],
        cwd=PROJECT,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait()
    finally:
        process.kill()
        process.wait()
