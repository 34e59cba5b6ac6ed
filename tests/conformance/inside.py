"""The first process of a run's machine: prepares it, starts `localpv up` and lets the specs run against it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests import engine_process

FAILED = 70
"""Exit code when it did not come to specs."""

FOREIGN = ("/tmp/", "/var/tmp/", "/mnt/", "/run/localpv/")
"""Below these, mounts are other programs'."""

MOUNT_OPTIONS = ("rw", "ro", "nosuid", "nodev", "noexec", "relatime", "noatime")
"""All others say which hierarchy of control groups it is."""


def main(path: str) -> int:
    """Be the first process, which takes care of orphans, while a child does the work."""
    worker = os.fork()
    if worker == 0:
        return _work(json.loads(Path(path).read_text()))
    while True:
        pid, status = os.wait()
        if pid == worker:
            return os.waitstatus_to_exitcode(status)


def _work(settings: Mapping[str, Any]) -> int:
    folder = Path(settings["folder"])
    _prepare(folder)
    data, log = folder / "data", folder / "logs" / "engine.log"
    for name, archive in settings["images"].items():
        command = [sys.executable, "-m", "localpv", "image", "--data", str(data), "import", archive, name]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    try:
        with engine_process.running(data=data, program="up", log=log) as engine:
            print(f"conformance: the engine is ready, its log is {log}", flush=True)
            with (folder / "logs" / "ginkgo.log").open("wb") as output:
                command = [*settings["command"], f"--kubeconfig={engine.kubeconfig}", f"--host={engine.url}"]
                done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False)
            return done.returncode
    except engine_process.EngineFailed as error:
        print(error, file=sys.stderr)
        return FAILED


def _prepare(folder: Path) -> None:
    """The machine's file system, with a few folders of our own over it."""
    _forget_foreign_mounts()
    # What specs leave in /tmp may be behind loop devices: it lies where the ledger finds it.
    _mount("--bind", str(folder / "tmp"), "/tmp")
    _mount("-t", "tmpfs", "-o", "mode=700", "tmpfs", str(folder / "data"))
    Path("/run/localpv").mkdir(exist_ok=True)
    _mount("--bind", str(folder / "run"), "/run/localpv")
    _mount_control_groups()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def _forget_foreign_mounts() -> None:
    """Let go of what others have mounted to try something: a copy that we keep would keep their disks busy."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split()[4].encode().decode("unicode_escape") for line in lines]
    for point in reversed(points):
        if point.startswith(FOREIGN):
            subprocess.run(["umount", "--lazy", point], stderr=subprocess.DEVNULL, check=False)


def _mount_control_groups() -> None:
    """Mount the hierarchies again, so that ours is the root of each."""
    top = "/sys/fs/cgroup"
    mounts = [line.split()[:4] for line in Path("/proc/self/mounts").read_text().splitlines()]
    mounts = [mount for mount in mounts if f"{mount[1]}/".startswith(f"{top}/")]
    links = {path: os.readlink(path) for path in Path(top).iterdir() if path.is_symlink()}
    subprocess.run(["umount", "--recursive", "--lazy", top], check=True)
    for source, point, kind, text in mounts:
        options = [word for word in text.split(",") if word not in MOUNT_OPTIONS]
        if any(word.startswith("name=") for word in options):
            options.append("none")
        os.makedirs(point, exist_ok=True)
        _mount("-t", kind, *(["-o", ",".join(options)] if options else []), source, point)
    for path, target in links.items():
        path.symlink_to(target)
    if controllers := _controllers(Path(top)):
        # Groups that others are in may hold no processes themselves.
        own = Path(top, "conformance")
        own.mkdir()
        for pid in Path(top, "cgroup.procs").read_text().split():
            (own / "cgroup.procs").write_text(pid)
        Path(top, "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))


def _controllers(top: Path) -> list[str]:
    """Those of the second version of control groups; none where it is not all that there is."""
    path = top / "cgroup.controllers"
    return path.read_text().split() if path.exists() else []


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
