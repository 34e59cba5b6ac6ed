"""Each worker of a run in parallel has a mount namespace of its own, so that no test sees the mounts of others.

Otherwise every container and every namespace that one test makes would keep a copy of what others have mounted at that
moment, and their devices would be in use for as long as it lives.
"""

from __future__ import annotations

import ctypes
import os
import subprocess

import pytest

_CLONE_NEWNS = 0x20000


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") or os.geteuid() != 0:
        return
    # Only for this thread and those that it starts: all of them but the one that talks to the process that was called.
    if ctypes.CDLL(None).unshare(_CLONE_NEWNS) == 0:
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
