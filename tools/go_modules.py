"""Where Go keeps the modules that tests build: generated tables are facts that are read there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


class NoModule(Exception):
    """The module is not on this machine, so nothing can be compared with it."""


def folder(name: str, home: Path) -> Path:
    """Where a module is that the Go module at `home` asks for."""
    try:
        answer = subprocess.run(
            ["go", "list", "-m", "-f", "{{.Dir}}", name],
            cwd=home,
            env={**os.environ, "GOPROXY": "off"},  # a check looks at what is here and fetches nothing
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        raise NoModule("Go is not installed here") from error
    found = Path(answer.stdout.strip() or "/nonexistent")
    if answer.returncode or not found.is_dir():
        raise NoModule(f"the Go module {name} is not on this machine")
    return found
