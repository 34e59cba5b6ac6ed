"""What a cluster has changed on this machine, written down before each change, and how to take it all back.

A cluster that ends in order and one whose owner was killed are cleaned by the same function, from the same file.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import stat
import struct
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.kubernetes import build

ROOT = Path("/var/tmp/localpv-kubernetes")
"""Folders of clusters. On disk: overlay file systems and loop devices live in them."""

LOGS_KEPT = 10
GONE_SECONDS = 120.0
KERNEL_SETTINGS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
"""What a kubelet changes for the whole machine."""

LOOP_CLEAR, LOOP_GET_STATUS = 0x4C01, 0x4C05


@dataclass(slots=True)
class Ledger:
    """The traces of one cluster."""

    folder: Path
    processes: list[tuple[int, int]] = field(default_factory=list)
    """Process ids, each with the start time that tells it from a later process of the same id."""

    links: list[str] = field(default_factory=list)
    cgroups: list[str] = field(default_factory=list)
    kernel: dict[str, str] = field(default_factory=dict)

    def write(self) -> None:
        new = self.folder / "ledger.new"
        new.write_text(json.dumps(asdict(self), default=str, indent=1))
        new.rename(self.folder / "ledger.json")

    def add_process(self, pid: int) -> None:
        self.processes.append((pid, _start_time(pid)))
        self.write()

    def add_link(self, name: str) -> None:
        self.links.append(name)
        self.write()

    def add_cgroup(self, name: str) -> None:
        self.cgroups.append(name)
        self.write()

    def note_kernel_settings(self) -> None:
        for name in KERNEL_SETTINGS:
            with contextlib.suppress(OSError):
                self.kernel[name] = (Path("/proc/sys") / name).read_text()
        self.write()


def open_new(name: str) -> Ledger:
    """A new folder with a ledger that names us as the owner."""
    folder = ROOT / name
    folder.mkdir(parents=True, mode=0o755)
    ledger = Ledger(folder)
    (folder / "owner").write_text(f"{os.getpid()} {_start_time(os.getpid())}")
    ledger.write()
    return ledger


def clean_abandoned() -> list[str]:
    """Clean up after clusters whose owner has died; the names of those found."""
    found = []
    for folder in sorted(ROOT.glob("*")) if ROOT.is_dir() else ():
        try:
            pid, started = (int(word) for word in (folder / "owner").read_text().split())
        except (OSError, ValueError):
            # Its owner is just writing it, or died in that instant; the folder holds nothing yet.
            if not (folder / "ledger.json").exists() and time.time() - folder.stat().st_mtime < 60:
                continue
            pid = started = -1
        if _start_time(pid) != started or started < 0:
            found.append(folder.name)
            clean(folder)
    return found


def clean(folder: Path) -> None:
    """Take back all that the ledger in this folder tells of, keep the logs, remove the folder. Safe to repeat."""
    try:
        told = json.loads((folder / "ledger.json").read_text())
    except (OSError, ValueError):
        told = {}
    _end_processes([(int(pid), int(started)) for pid, started in told.get("processes", ())])
    detach_loops(folder)
    for name in told.get("links", ()):
        subprocess.run(["ip", "link", "delete", name], capture_output=True, check=False)
    for name in told.get("cgroups", ()):
        _remove_cgroup(name)
    for name, value in told.get("kernel", {}).items():
        with contextlib.suppress(OSError):
            (Path("/proc/sys") / name).write_text(value)
    keep_logs(folder / "logs", name=folder.name)
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()


def logs_folder() -> Path:
    """Where the logs of past clusters are kept, the newest last by name."""
    return build.cache().parent / "logs"


def cgroup_roots() -> list[Path]:
    """The top of each cgroup hierarchy of this machine."""
    root = Path("/sys/fs/cgroup")
    if (root / "cgroup.controllers").exists():
        return [root]
    return [path for path in sorted(root.iterdir()) if path.is_dir() and not path.is_symlink()]


def _start_time(pid: int) -> int:
    """In clock ticks after boot; -1 when there is no such process."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return -1


def _end_processes(processes: list[tuple[int, int]]) -> None:
    alive = [(pid, started) for pid, started in processes if started >= 0 and _start_time(pid) == started]
    for pid, _ in alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + GONE_SECONDS
    while any(_start_time(pid) == started for pid, started in alive) and time.monotonic() < deadline:
        # Our own children stay as zombies until we ask for them.
        for pid, _ in alive:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.02)


def loops_of(folder: Path) -> list[Path]:
    """The loop devices whose file is in the folder, and after each those that a kubelet put on top of it."""
    ours = {(status.st_dev, status.st_ino) for status in _files(folder)}
    devices: set[int] = set()
    found: list[Path] = []
    loops = {path: info for path in _loops() if (info := _loop_info(path))}
    seen = -1
    while len(found) != seen:
        seen = len(found)
        for path, (backing, rdev) in loops.items():
            if path not in found and (backing in ours or rdev in devices):
                found.append(path)
                devices.add(os.stat(path).st_rdev)
    return found


def detach_loops(folder: Path) -> None:
    """Detach the loop devices of a folder, the last first."""
    for path in reversed(loops_of(folder)):
        # A device that is still open for a moment is detached by the kernel at its last close.
        with contextlib.suppress(OSError):
            number = os.open(path, os.O_RDONLY)
            try:
                fcntl.ioctl(number, LOOP_CLEAR)
            finally:
                os.close(number)


def _files(folder: Path) -> list[os.stat_result]:
    """What is known of all files below a folder; a cluster that runs makes and removes some all the time."""
    found = []
    for at, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                found.append(os.lstat(os.path.join(at, name)))
    return [status for status in found if not stat.S_ISLNK(status.st_mode)]


def _loops() -> list[Path]:
    return [Path("/dev") / path.parent.name for path in Path("/sys/block").glob("loop*/loop")]


def _loop_info(path: Path) -> tuple[tuple[int, int], int] | None:
    """The device and inode of the file behind a loop device, and the device number if that is itself a device."""
    status = bytearray(232)
    try:
        number = os.open(path, os.O_RDONLY)
        try:
            fcntl.ioctl(number, LOOP_GET_STATUS, status)
        finally:
            os.close(number)
    except OSError:
        return None
    device, inode, rdevice = struct.unpack_from("QQQ", status)
    return (device, inode), rdevice


def _remove_cgroup(name: str) -> None:
    deadline = time.monotonic() + GONE_SECONDS
    while True:
        left = [root / name for root in cgroup_roots() if (root / name).is_dir()]
        for top in left:
            for at, _, _ in os.walk(top, topdown=False):
                # A group whose last process is still ending is busy for a moment.
                with contextlib.suppress(OSError):
                    os.rmdir(at)
        if not left or time.monotonic() > deadline:
            return
        time.sleep(0.02)


def keep_logs(folder: Path, *, name: str) -> None:
    """Copy the logs in a folder to where those of the last few runs are kept."""
    found = [path for path in folder.glob("*.log") if path.stat().st_size]
    if not found:
        return
    target = logs_folder() / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"
    target.mkdir(parents=True, exist_ok=True)
    for path in found:
        shutil.copy(path, target)
    for old in sorted(logs_folder().iterdir())[:-LOGS_KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def newest_logs() -> Path:
    """The logs of the run that ended last."""
    return max(logs_folder().iterdir())


if __name__ == "__main__":
    # Cleans a folder when its input ends, which is when whoever holds the other end is gone.
    sys.stdin.read()
    clean(Path(sys.argv[1]))
