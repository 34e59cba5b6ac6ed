"""The udev of the virtual machine, as if the machine were started again."""

from __future__ import annotations

import subprocess

from tests.vm import hardware
from tests.vm.node import Node


def restart() -> None:
    """What a restart of the machine is to udev: a new process, an empty database, and devices that all come."""
    hardware.run("udevadm", "control", "--exit")
    Node.eventually(lambda: not _runs(), "udevd has ended")
    subprocess.run(
        "rm -rf /run/udev/data/* /run/udev/links/* /dev/disk/kubernetes-local-storage", shell=True, check=True
    )
    subprocess.run(["/lib/systemd/systemd-udevd", "--daemon"], check=True)
    hardware.run("udevadm", "trigger", "--action=add", "--subsystem-match=block", "--subsystem-match=virtio-ports")
    hardware.settle()


def _runs() -> bool:
    return subprocess.run(["pidof", "systemd-udevd"], capture_output=True, check=False).returncode == 0
