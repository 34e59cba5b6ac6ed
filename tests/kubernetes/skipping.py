"""What happens to a test that cannot run on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest
from tests.kubernetes import build


def program(name: str) -> Path:
    """A program of the tests' own version that set-up has built; no test builds it or takes one of the machine's."""
    built = build.place(name)
    if not built.exists():
        not_here(f"{name} {build.version()} is not built: `make setup-programs` builds it where Go is installed")
    return built


def not_here(reason: str) -> NoReturn:
    """Skip; in CI, where everything should be there, fail."""
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
