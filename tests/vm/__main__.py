"""Runs the tests of this folder in a virtual machine: `python -m tests.vm [OPTIONS OF PYTEST]`."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from tests.vm import guest, kernel

ROOT = Path(__file__).parent.parent.parent
SEEDS = ROOT / ".seeds" / "embedded.json"
FOLDER = "tests/vm"


def main(options: list[str]) -> int:
    if (why := guest.missing()) is not None:
        print(why, file=sys.stderr)
        return guest.FAILED
    try:
        found = kernel.get()
    except kernel.Missing as error:
        print(error, file=sys.stderr)
        return guest.FAILED
    chosen = [option for option in options if option.startswith(FOLDER)]
    command = [sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", *(chosen or [FOLDER])]
    command += [option for option in options if option not in chosen]
    return guest.run(command, kernel=found, output=sys.stdout.buffer, collect=_take_over_seeds)


def _take_over_seeds(folder: Path) -> None:
    """What was recorded inside about requirements, for `make seeds` outside."""
    if not (folder / "seeds.json").exists():
        return
    inside = json.loads((folder / "seeds.json").read_text())
    known = json.loads(SEEDS.read_text()) if SEEDS.exists() else {}
    known |= {name: entry for name, entry in inside.items() if name.startswith(FOLDER)}
    SEEDS.parent.mkdir(exist_ok=True)
    SEEDS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(guest.FAILED))
    sys.exit(main(sys.argv[1:]))
