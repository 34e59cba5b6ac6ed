"""Which tests lie in a folder: a file of settings there is asked about all tests of a run, thousands of times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest


def tests_in(folder: Path, items: Sequence[pytest.Item]) -> list[pytest.Item]:
    files = {path for path in {item.path for item in items} if path.is_relative_to(folder)}
    return [item for item in items if item.path in files]
