"""Loop devices of tests that run beside others: the number of one that was given back is somebody else's next."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from localpv.host import loop


@dataclass(frozen=True, slots=True)
class Lent:
    """A loop device for as long as it has the file that it had at first."""

    device: Path
    sequence: str
    """The kernel's own count of disks, which no two have alike."""

    @classmethod
    def now(cls, device: Path) -> Lent:
        return cls(device, _sequence(device))

    def give_back(self) -> None:
        """Take its file off it, and it off where it is mounted; what others have by now is left alone."""
        fd = os.open(self.device, os.O_RDONLY | os.O_CLOEXEC)  # nobody else gets its number while it is open
        try:
            if _sequence(self.device) == self.sequence:
                subprocess.run(["umount", "-q", str(self.device)], check=False)
                loop.detach(self.device)
        finally:
            os.close(fd)


def _sequence(device: Path) -> str:
    return Path(f"/sys/block/{device.name}/diskseq").read_text()
