"""A place where code that deletes and wipes may be wrong.

Runs pytest in namespaces of its own for mounts, processes and the network. All file systems are read-only there but for
a small one of its own at /tmp, in a file; /dev has no disk but loop devices with numbers that nobody else uses. So
whatever a test removes, mounts or overwrites was made by it.

Each sandbox is the child of a process that has loaded pytest and what tests need, but nothing of ours: to load that
takes longer than most tests.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import stat
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LOOPS = 32
"""Loop devices of a sandbox; the last one holds its /tmp."""

FIRST_LOOP = 1000
"""Far from those that the kernel gives away by itself."""

BUSY_SECONDS = 60
SIZE = 4 << 30
TOO_LONG = 124
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "loop-control")
EMPTY = ("/run", "/var/tmp", "/mnt")
LOADED = (
    "pytest",
    "_pytest.assertion.rewrite",
    "pytest_asyncio",
    "pytest_timeout",
    "hypothesis",
    "hypothesis.strategies",
)
MORE_LOADED = ("aiohttp", "aiohttp.web", "msgspec", "cryptography.x509", "click", "yaml", "rich.console", "sqlite3")
_ADD, _REMOVE, _CLEAR = 0x4C80, 0x4C81, 0x4C01
_READ_ONLY, _REMOUNT, _BIND, _DETACH, _PRIVATE = 1, 32, 4096, 2, (1 << 18) | (1 << 14)
_NEW_NAMESPACES = 0x00020000 | 0x20000000 | 0x40000000 | 0x08000000  # mounts, processes, network, IPC
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    code: int
    """TOO_LONG when it had to be ended."""

    said: str
    files: Mapping[str, str] = field(default_factory=dict)
    """What it left in /tmp, of the files that were asked for."""


class Sandboxes:
    """One sandbox after the other, with the loop devices of a slot."""

    def __init__(self, slot: int, folder: Path) -> None:
        first = FIRST_LOOP + slot * LOOPS
        self._numbers = range(first, first + LOOPS)
        self._folder = folder
        _make_loops(self._numbers)
        _give_loops_back(self._numbers)  # of one that was killed
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            start_new_session=True,
        )

    def end(self) -> None:
        """Whatever runs; whoever waits for it is told that there is no sandbox."""
        self._process.kill()

    def close(self) -> None:
        self.end()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        _give_loops_back(self._numbers)
        _remove_loops(self._numbers)

    def pytest(
        self,
        arguments: Sequence[str],
        *,
        binds: Mapping[Path, Path],
        env: Mapping[str, str],
        timeout: float,
        wanted: Sequence[str] = (),
    ) -> Ended:
        """Run pytest in a new sandbox. `binds` puts files at places of the tree."""
        with tempfile.TemporaryDirectory(prefix="localpv-sandbox-", dir=self._folder.parent) as scratch:
            image, root, answer = Path(scratch, "tmp.img"), Path(scratch, "root"), Path(scratch, "answer")
            root.mkdir()
            with open(image, "wb") as file:
                file.truncate(SIZE)
            subprocess.run(["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,nodiscard", image], check=True)
            # From outside: inside, all but this file system is read-only.
            subprocess.run(["losetup", f"/dev/loop{self._numbers[-1]}", image], check=True)
            order = {
                "arguments": list(arguments),
                "folder": str(self._folder),
                "root": str(root),
                "answer": str(answer),
                "loops": list(self._numbers),
                "binds": [[str(source), str(place)] for source, place in binds.items()],
                "env": {**env, "MUTANTS_LOOPS": f"{self._numbers[0]}-{self._numbers[-2]}"},
                "wanted": list(wanted),
                "seconds": timeout,
            }
            try:
                assert self._process.stdin is not None and self._process.stdout is not None
                self._process.stdin.write(json.dumps(order).encode() + b"\n")
                self._process.stdin.flush()
                said = self._process.stdout.readline().strip()
            finally:
                _give_loops_back(self._numbers)
            if said == b"too long":
                return Ended(code=TOO_LONG, said="")
            if said != b"ended":
                raise RuntimeError("the sandbox could not be made")
            told = json.loads(answer.read_text())
        return Ended(code=told["code"], said=told["said"], files=told["files"])


def _make_loops(numbers: range) -> None:
    control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    try:
        for number in numbers:
            if not os.path.exists(f"/sys/block/loop{number}"):
                fcntl.ioctl(control, _ADD, number)
    finally:
        os.close(control)


def _remove_loops(numbers: range) -> None:
    with open("/dev/loop-control", "rb") as control:
        for number in numbers:
            with contextlib.suppress(OSError):  # still busy: the next run finds it
                fcntl.ioctl(control, _REMOVE, number)


def _give_loops_back(numbers: range) -> None:
    """What the command left attached; a killed one cannot have done it."""
    for number in numbers:
        if os.path.exists(f"/sys/block/loop{number}/loop"):
            try:
                fd = os.open(f"/dev/loop{number}", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                fcntl.ioctl(fd, _CLEAR)
            except OSError:
                pass
            finally:
                os.close(fd)
    # One that is mounted goes with the last process of the sandbox, which a busy machine ends later.
    for number in numbers:
        for _ in range(BUSY_SECONDS):
            if not os.path.exists(f"/sys/block/loop{number}/loop"):
                break
            time.sleep(1)


# -- the process that sandboxes are children of -----------------------------------------------------------------------


def _serve() -> None:
    for name in (*LOADED, *MORE_LOADED):
        with contextlib.suppress(ImportError):
            __import__(name)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if not child:
            _in_child(order)
        print(_ending(child, order["seconds"]), flush=True)


def _ending(child: int, seconds: float) -> str:
    watched = os.pidfd_open(child)
    try:
        in_time = select.select([watched], [], [], seconds)[0]
        if not in_time:
            os.killpg(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
    finally:
        os.close(watched)
    if not in_time:
        return "too long"
    return "failed" if status else "ended"


def _in_child(order: dict[str, Any]) -> None:
    """The parent of the namespace of processes: it ends when the first process in there does."""
    code = 1
    try:
        os.setsid()
        _die_with_parent()
        answer = os.open(order["answer"], os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if _libc.unshare(_NEW_NAMESPACES):
            raise OSError(ctypes.get_errno(), "no namespaces")
        first = os.fork()
        if not first:
            _die_with_parent()
            _inside(order, answer)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
    except BaseException as error:
        print(f"sandbox: {error!r}", file=sys.stderr, flush=True)
    os._exit(1 if code else 0)


def _die_with_parent() -> None:
    _libc.prctl(1, signal.SIGKILL, 0, 0, 0)


# -- inside -----------------------------------------------------------------------------------------------------------


def _inside(order: dict[str, Any], answer: int) -> None:
    folder = Path(order["folder"])
    loops = {number: os.stat(f"/dev/loop{number}").st_rdev for number in order["loops"]}
    devices = {name: os.stat(f"/dev/{name}") for name in DEVICES}
    _mount("", "/", "", _PRIVATE)
    _leave_other_mounts(Path(order["root"]), [folder, Path(sys.prefix), Path(sys.base_prefix), Path.home()])
    _mount("proc", "/proc", "proc")
    _mount("sysfs", "/sys", "sysfs", _READ_ONLY)
    _make_dev(loops, devices)
    for source, place in order["binds"]:
        _mount(source, place, "", _BIND)
    _mount(f"/dev/loop{order['loops'][-1]}", "/tmp", "ext4")
    os.chmod("/tmp", 0o1777)
    os.rmdir("/tmp/lost+found")
    for empty in (*EMPTY, folder / ".seeds", folder / ".hypothesis"):
        if not folder.is_relative_to(empty):
            _mount("tmpfs", str(empty), "tmpfs")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    tests = os.fork()
    if not tests:
        _run_pytest(order, folder)
    code = _wait(tests)
    files = {}
    for name in order["wanted"]:
        path = Path("/tmp", name)
        files[name] = path.read_text(errors="replace") if path.exists() else ""
    told = Path("/tmp/said").read_text(errors="replace")[-20000:]
    with open(answer, "w") as out:
        json.dump({"code": code, "said": told, "files": files}, out)


def _run_pytest(order: dict[str, Any], folder: Path) -> None:
    code = 3
    try:
        os.setsid()
        said = os.open("/tmp/said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        nothing = os.open("/dev/null", os.O_RDONLY)
        for fd, number in ((nothing, 0), (said, 1), (said, 2)):
            os.dup2(fd, number)
        os.closerange(3, 1000)
        os.chdir(folder)
        os.environ |= {**order["env"], "TMPDIR": "/tmp"}
        tempfile.tempdir = None
        sys.dont_write_bytecode = True
        sys.path[:0] = [str(folder), *order["env"]["PYTHONPATH"].split(":")]
        sys.modules.pop("sitecustomize", None)
        __import__("sitecustomize")
        import pytest

        code = int(pytest.main(order["arguments"]))
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _leave_other_mounts(root: Path, needed: Sequence[Path]) -> None:
    """Only what is needed, and read-only. A mount that somebody else makes or ends must not live on in here: its device
    would be in use for as long as we run."""
    places = {Path("/")}
    for path in needed:
        places.add(next(one for one in (path.resolve(), *path.resolve().parents) if one.is_mount()))
    for place in sorted(places):
        new = root / place.relative_to("/")
        _mount(str(place), str(new), "", _BIND)
        _mount("", str(new), "", _BIND | _REMOUNT | _READ_ONLY)
    os.chdir(root)
    if _libc.syscall(_PIVOT_ROOT[os.uname().machine], b".", b".") or _libc.umount2(b".", _DETACH):
        raise OSError(ctypes.get_errno(), "the root cannot be changed")
    os.chdir("/")


def _mount(source: str, place: str, kind: str, flags: int = 0) -> None:
    if _libc.mount(source.encode(), place.encode(), kind.encode(), flags, None):
        raise OSError(ctypes.get_errno(), f"{source} cannot be mounted at {place}")


def _make_dev(loops: Mapping[int, int], devices: Mapping[str, os.stat_result]) -> None:
    _mount("tmpfs", "/dev", "tmpfs")
    os.umask(0)
    for name, status in devices.items():
        os.mknod(f"/dev/{name}", stat.S_IFCHR | 0o666, status.st_rdev)
    for number, device in loops.items():
        os.mknod(f"/dev/loop{number}", stat.S_IFBLK | 0o660, device)
    os.umask(0o022)
    for name in ("pts", "shm"):
        os.mkdir(f"/dev/{name}")
    _mount("devpts", "/dev/pts", "devpts")
    os.chmod("/dev/pts/ptmx", 0o666)
    _mount("tmpfs", "/dev/shm", "tmpfs")
    os.symlink("pts/ptmx", "/dev/ptmx")
    os.symlink("/proc/self/fd", "/dev/fd")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{number}", f"/dev/{name}")


def _wait(pid: int) -> int:
    """We are the first process of the namespace: what others leave behind is ours to collect."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    os.nice(2)
    _serve()
