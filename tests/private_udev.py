"""A udev of a test's own: systemd-udevd in this process' mount namespace, with its own rules, database and links.

Uevents are the machine's, so it hears of all devices; it has no rules but those of the test, and so touches none.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from localpv.testing.waiting import PATIENCE_SECONDS

UDEVD = Path("/lib/systemd/systemd-udevd")
RULES = Path("/etc/udev/rules.d")
LINKS = Path("/dev/disk")
PRIVATE = (Path("/run/udev"), RULES, Path("/usr/lib/udev/rules.d"), LINKS)
"""Folders that are the test's own while it runs."""

MISSING = "" if UDEVD.exists() and shutil.which("udevadm") and os.geteuid() == 0 else "needs root and udev"

_CLONE_NEWNS = 0x20000
_MS_REC_PRIVATE = (1 << 14) | (1 << 18)


def own_namespace() -> None:
    """A mount namespace for this thread and those it starts, unless it has one of its own already."""
    if os.readlink("/proc/thread-self/ns/mnt") != os.readlink(f"/proc/{os.getppid()}/ns/mnt"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.unshare(_CLONE_NEWNS) == 0, os.strerror(ctypes.get_errno())
    libc.mount(None, b"/", None, ctypes.c_ulong(_MS_REC_PRIVATE), None)


@contextlib.contextmanager
def running() -> Iterator[Path]:
    """udev, until the end of the with-block; the folder of rules."""
    own_namespace()
    with contextlib.ExitStack() as undo:
        for folder in PRIVATE:
            folder.mkdir(parents=True, exist_ok=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "localpv-test", str(folder)], check=True)
            undo.callback(subprocess.run, ["umount", "-l", str(folder)], check=True)
        daemon = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", str(UDEVD)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            until = time.monotonic() + PATIENCE_SECONDS
            while not Path("/run/udev/control").exists():
                assert daemon.poll() is None, "udevd ended"
                assert time.monotonic() < until, "udevd does not start"
                time.sleep(0.01)
            yield RULES
        finally:
            daemon.terminate()
            daemon.wait(PATIENCE_SECONDS)


@pytest.fixture
def private_udev() -> Iterator[Path]:
    """The folder of rules of a udev that runs for this test."""
    if MISSING:
        pytest.skip(MISSING)
    with running() as rules:
        yield rules
