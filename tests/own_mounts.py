"""Each worker of a run in parallel has a mount namespace of its own, so that no test sees the mounts of others.

Otherwise every container and every namespace that one test makes would keep a copy of what others have mounted at that
moment, and their devices would be in use for as long as it lives.
"""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

import pytest

_CLONE_NEWNS = 0x20000
_MS_PRIVATE = 1 << 18
_libc = ctypes.CDLL(None)


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        separate()


def separate() -> None:
    """Give this thread, and those that it starts from now on, a mount namespace of its own, if it may have one."""
    if os.geteuid() == 0 and _libc.unshare(_CLONE_NEWNS) == 0:
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            # Each by itself: in a chroot the root may be none of them.
            point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), line.split()[4])
            _libc.mount(None, point.encode("latin-1"), None, ctypes.c_ulong(_MS_PRIVATE), None)
