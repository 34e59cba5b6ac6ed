"""A udev for each node of a test cluster: a systemd-udevd of the node's own, with its own rules, database and links.

The daemon, the kernel's uevents, the rules it reads and the links it makes are real. Uevents are the machine's, so each
node hears of every device, and /dev and /sys show them all; rules tell whose a device is. Of udev's own rules none are
there: serial numbers come from those, so links of a node have kernel names.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

from tests.contract import wire
from tests.kubernetes.node import Node
from tests.private_udev import PRIVATE, UDEVD

SECONDS = 60.0


@contextlib.contextmanager
def running(node: Node) -> Iterator[None]:
    """udev in a node, until the end of the with-block."""
    with contextlib.ExitStack() as undo:
        for folder in map(str, PRIVATE):
            node.run("mkdir", "-p", folder)
            node.run("mount", "-t", "tmpfs", "-o", "mode=755", "localpv-test", folder)
            undo.callback(node.run, "umount", "-l", folder)
        dies = ["setpriv", "--pdeathsig", "KILL", "--"]
        enter = ["nsenter", "--target", str(node.pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--"]
        daemon = subprocess.Popen([*dies, *enter, *dies, str(UDEVD)], stdout=subprocess.DEVNULL)
        undo.callback(daemon.wait, SECONDS)
        undo.callback(node.run, "sh", "-c", f"kill $(pidof {UDEVD.name})")
        wire.eventually(
            lambda: "control" in node.run("ls", "/run/udev"), f"udev of {node.name} has started", within=SECONDS
        )
        yield
