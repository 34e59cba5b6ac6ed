"""What tests do to the disks of the virtual machine directly."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.contract import wire

TOOL_SECONDS = 400.0
SECRET = b"the old tenant's secret "
CHUNK = 1024 * 1024


def run(*words: str | Path) -> str:
    """A tool of the system."""
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=TOOL_SECONDS, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def settle() -> None:
    """Return when udev has nothing left to do."""
    run("udevadm", "settle", "--timeout=390")


def device(serial: str) -> Path:
    """The node of the disk with a serial number, as the kernel calls it now."""
    found = find(serial)
    assert found is not None, f"no disk has the serial number {serial}"
    return found


def find(serial: str) -> Path | None:
    """The same, or None when there is no such disk."""
    return next(iter(find_all(serial)), None)


def find_all(serial: str) -> list[Path]:
    """All ways to the disk with a serial number."""
    settle()
    names = sorted(path.name for path in Path("/sys/block").iterdir())
    return [Path("/dev") / name for name in names if name.startswith(("sd", "nvme", "vd")) and _serial(name) == serial]


def _serial(name: str) -> str:
    """The serial number; asked of the kernel, for udev's programs take a tenth of a second each."""
    folder = Path("/sys/block") / name
    for file in ("serial", "device/serial"):
        with contextlib.suppress(OSError):
            return (folder / file).read_text().strip()
    with contextlib.suppress(OSError):
        return (folder / "device" / "vpd_pg80").read_bytes()[4:].decode().strip()
    return ""  # it was pulled at this moment


def fill(path: Path) -> None:
    """The old tenant's data on every block of a device."""
    chunk = (SECRET * (CHUNK // len(SECRET) + 1))[:CHUNK]
    with path.open("r+b", buffering=0) as disk:
        size = disk.seek(0, os.SEEK_END)
        disk.seek(0)
        for _ in range(size // CHUNK):
            disk.write(chunk)
        os.fsync(disk.fileno())
    settle()  # udev looks at what was written, and who is to be cleaned waits for that


def old_mib(path: Path) -> int:
    """How many MiB of a device still hold old data, past the kernel's cache."""
    return sum(SECRET in chunk for chunk in _chunks(path))


def is_zero(path: Path) -> bool:
    """Whether every byte of a device is zero, past the kernel's cache."""
    return all(chunk == bytes(len(chunk)) for chunk in _chunks(path))


def _chunks(path: Path) -> Iterator[bytes]:
    run("blockdev", "--flushbufs", path)
    with path.open("rb", buffering=0) as disk:
        while chunk := disk.read(CHUNK):
            yield chunk


def blank(path: Path) -> None:
    """A disk as it comes from the factory."""
    run("blkdiscard", "-z", "-f", path)
    settle()
    read_table(path)


def read_table(path: Path) -> None:
    """Have the kernel read which partitions a disk has, which it does when nobody has it exclusively."""
    reading = ["blockdev", "--rereadpt", str(path)]
    wire.eventually(
        lambda: subprocess.run(reading, check=False, capture_output=True).returncode == 0, f"{path} is nobody's own"
    )
    settle()


def attribute(device: Path, name: str) -> str:
    """What the kernel says about a disk."""
    return (Path("/sys/class/block") / device.name / name).read_text().strip()


def writes(device: Path) -> int:
    """Requests to write that a disk has served."""
    return int(attribute(device, "stat").split()[4])


def mib(device: Path) -> int:
    return int(attribute(device, "size")) * 512 // CHUNK


def partition(device: Path, count: int = 1) -> None:
    """So many partitions of 8 MiB."""
    table = "label: gpt\n" + "size=8MiB\n" * count
    # Not asking whether somebody has the disk: whoever discovers disks has it to itself for a moment now and then.
    command = ["sfdisk", "-q", "--wipe", "always", "--no-reread", "--no-tell-kernel", str(device)]
    subprocess.run(command, input=table, text=True, check=True)
    settle()
    read_table(device)


def part(device: Path, number: int) -> Path:
    """The node of a partition."""
    return Path(f"{device}{'p' if device.name[-1].isdigit() else ''}{number}")
