"""The first process of a node, in namespaces of its own: prepares the node's file systems and network, then keeps
containerd and kubelet running. When it ends, the kernel ends every process and mount of the node with it.

Spoken to by lines on standard input: `start` when the network cable is there, `kubelet` when the API server is ready.
The end of the input is the end of the node.
"""

from __future__ import annotations

import io
import json
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

OVERLAID = ("/etc", "/var/lib")
"""Folders of which the node has its own version: it sees the machine's files, and writes beside them."""

OWN = ("/mnt", "/var/log")
"""Folders that are empty in a new node; on the machine they are in the node's folder."""

RESTART_SECONDS = 1.0


def main(path: str) -> int:
    """Be the node until the input ends."""
    settings = json.loads(Path(path).read_text())
    # /proc is still the machine's, so this is our id as the others know it.
    Path(settings["pid_file"]).write_text(os.readlink("/proc/self"))
    # Unbuffered, so that a line which has come is never hidden from select().
    orders = io.FileIO(0)
    if (word := orders.readline().strip()) != b"start":
        sys.exit(f"expected start on standard input, got {word!r}")
    for command in settings["network"]:
        _run(*command)
    _mount(Path(settings["folder"]))
    images = Path(settings["folder"]) / "containerd"
    images.mkdir()
    if settings["images_in_memory"]:
        # Ends with the node; thousands of files on a disk would be slow to write and slower to remove.
        _run("mount", "-t", "tmpfs", "-o", "mode=711", "tmpfs", str(images))
    # Where tools look for it; the socket itself lies where the machine outside can reach it too.
    Path("/run/containerd").mkdir()
    Path("/run/containerd/containerd.sock").symlink_to(Path(settings["folder"]) / "containerd.sock")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    socket.sethostname(settings["name"])
    kept = [_Kept(settings["containerd"], Path(settings["logs"]) / f"{settings['name']}-containerd.log")]
    kubelet = _Kept(settings["kubelet"], Path(settings["logs"]) / f"{settings['name']}-kubelet.log")
    return _keep(kept, kubelet, orders)


class _Kept:
    """A program that is started again when it ends, as a service manager would."""

    def __init__(self, argv: list[str], log: Path) -> None:
        self.argv, self.log = argv, log
        self.process: subprocess.Popen[bytes] | None = None
        self.last_start = 0.0

    def look(self) -> None:
        if self.process is not None and self.process.poll() is None:
            return
        if time.monotonic() - self.last_start >= RESTART_SECONDS:
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            self.last_start = time.monotonic()


def _keep(kept: list[_Kept], kubelet: _Kept, orders: io.FileIO) -> int:
    while True:
        for program in kept:
            program.look()
        _reap({program.process.pid for program in kept if program.process is not None})
        if select.select([orders], [], [], 0.2)[0]:
            match orders.readline().strip():
                case b"kubelet":
                    kept.append(kubelet)
                case b"":
                    return 0


def _reap(own: set[int]) -> None:
    """Bury the orphans of the node, which are ours as its first process; our own children are asked elsewhere."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) in own:
            continue
        try:
            fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            if fields[0] == "Z" and fields[1] == "1":
                os.waitpid(int(entry), os.WNOHANG)
        except (OSError, ChildProcessError):
            continue


def _mount(folder: Path) -> None:
    _run("mount", "-t", "proc", "proc", "/proc")
    udev = Path("/run/udev")
    kept = folder / "udev"
    if udev.is_dir():
        kept.mkdir()
        _run("mount", "--bind", str(udev), str(kept))
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    if kept.is_dir():
        udev.mkdir()
        _run("mount", "--move", str(kept), str(udev))
    for place in OVERLAID:
        upper, work = folder / "upper" / place[1:], folder / "work" / place[1:]
        upper.mkdir(parents=True)
        work.mkdir(parents=True)
        options = f"lowerdir={place},upperdir={upper},workdir={work}"
        _run("mount", "-t", "overlay", "-o", options, "overlay", place)
    for place in OWN:
        _bind(folder / place[1:].replace("/", "-"), Path(place))
    _bind(folder / "kubelet", Path("/var/lib/kubelet"))
    # Pods may ask for mounts to be handed on in both directions.
    _run("mount", "--make-rshared", "/")


def _bind(source: Path, target: Path) -> None:
    source.mkdir(parents=True, exist_ok=True)
    target.mkdir(parents=True, exist_ok=True)
    _run("mount", "--bind", str(source), str(target))


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(argv)}: exit code {done.returncode}: {done.stderr.strip()}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
