"""Programs of localpv as processes of their own, as on a cluster."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from localpv.testing.waiting import PATIENCE_SECONDS


@contextlib.contextmanager
def program(name: str, *options: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A program, ready; it must end with success when it is told to."""
    with (folder / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "localpv", name, *options],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "MY_NODE_NAME": "node-1"},
        )
    assert process.stdout is not None
    try:
        assert process.stdout.readline().startswith("ready"), (folder / f"{name}.log").read_text()[-3000:]
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0, (folder / f"{name}.log").read_text()[-3000:]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
