"""A throw-away virtual machine with real disks that runs one command: `python -m tests.vm.guest COMMAND...`.

It has the files, programs and the checkout of this machine, udev, and SCSI, SATA, NVMe and virtio disks of its own. The
command runs as root in the current folder, and its exit status is ours. Nothing that it does is seen outside, except
what it writes to /run/vm.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from tests.vm import disks, kernel
from tests.vm.disks import Disk

MEMORY_MIB = 1024
LIMIT_SECONDS = 3600.0
LOAD = ("virtio_scsi", "sd_mod", "ahci", "nvme", "virtio_blk", "dm-mod", "loop")
PASSED_ON = ("CI", "PYTEST_ADDOPTS", "PYTHONPATH", "TERM")
FAILED, TIMED_OUT = 125, 124
"""Exit statuses of the machine itself."""


class Output(Protocol):
    """Where what the command says is passed on to."""

    def write(self, chunk: bytes, /) -> int: ...

    def flush(self) -> None: ...


def missing() -> str | None:
    """What keeps a machine from being started here, in a sentence with what to do; None when nothing does."""
    if os.geteuid() != 0:
        return "the virtual machine needs root, to read the whole root file system: run make as root"
    tools = [tool for tool in ("qemu-system-x86_64", "busybox", "cpio", "modprobe") if shutil.which(tool) is None]
    return f"the virtual machine needs {', '.join(tools)}: run tools/setup_vm.sh as root" if tools else None


def run(
    command: Sequence[str],
    *,
    kernel: kernel.Kernel,
    output: Output,
    collect: Callable[[Path], None] | None = None,
    limit: float = LIMIT_SECONDS,
    stop: threading.Event | None = None,
    starts: Sequence[Sequence[Disk]] = (disks.HERE,),
) -> int:
    """Run a command in a new machine. `collect` is shown the shared folder when the machine has ended.

    `stop` ends it early, for callers that run it in a thread. `starts` has the disks of each start of the machine, in
    the order in which it finds them: with several the command is run after each until it fails. Of what was there
    before only the disks are left then.
    """
    with tempfile.TemporaryDirectory(prefix="localpv-vm-", dir="/var/tmp") as made:
        folder, status = Path(made), 0
        for number, here in enumerate(starts, 1):
            _prepare(folder, command, kernel, here, number)
            status = _boot(folder, kernel, output, limit, stop or threading.Event(), here)
            if collect is not None:
                collect(folder)
            if status != 0:
                break
        return status


def _prepare(folder: Path, command: Sequence[str], kernel: kernel.Kernel, here: Sequence[Disk], start: int) -> None:
    for name in ("output", "status", "console", "emulator", "control.sock", "seeds.json", "ran"):
        (folder / name).unlink(missing_ok=True)
    for disk in here:
        with (folder / disk.file).open("ab") as file:
            file.truncate(disk.mib * disks.MIB)
    shutil.copy(Path(__file__).with_name("second.sh"), folder)
    settings = {"modules": str(kernel.modules), "load": " ".join(LOAD), "folder": os.getcwd()}
    (folder / "settings").write_text("".join(f"{key}={shlex.quote(value)}\n" for key, value in settings.items()))
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    environment |= {
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "LOCALPV_VM_FOLDER": str(folder),
        "LOCALPV_VM_START": str(start),
    }
    (folder / "command").write_text(
        "".join(f"export {key}={shlex.quote(value)}\n" for key, value in environment.items())
        + f"exec {shlex.join(command)}\n"
    )


def _boot(
    folder: Path,
    kernel: kernel.Kernel,
    output: Output,
    limit: float,
    stop: threading.Event,
    here: Sequence[Disk],
) -> int:
    # It dies with us, however we end.
    argv = ["setpriv", "--pdeathsig", "KILL", "--", *_emulator(folder, kernel, here)]
    (folder / "output").touch()
    until = time.monotonic() + limit
    with (
        (folder / "emulator").open("wb") as said,
        (folder / "output").open("rb") as told,
        subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=said, stderr=said) as machine,
    ):
        try:
            while machine.poll() is None and time.monotonic() < until and not stop.wait(0.1):
                _pass_on(told, output)
            late = machine.poll() is None
        finally:
            machine.kill()
        machine.wait()
        _pass_on(told, output)
    if late and not stop.is_set():
        print(f"the virtual machine did not end in {limit:g} s and was stopped", file=sys.stderr)
        return TIMED_OUT
    status = folder / "status"
    if status.exists() and (text := status.read_text().strip()):
        return int(text)
    for name in ("emulator", "console"):
        if (folder / name).exists():
            print(f"the virtual machine failed; {name}:\n{(folder / name).read_text()[-3000:]}", file=sys.stderr)
    return FAILED


def _pass_on(told: BinaryIO, output: Output) -> None:
    if chunk := told.read():
        output.write(chunk)
        output.flush()


def _emulator(folder: Path, kernel: kernel.Kernel, here: Sequence[Disk]) -> list[str]:
    share = "security_model=none,multidevs=remap"
    argv = [
        "qemu-system-x86_64", "-machine", "q35", "-accel", "tcg", "-m", str(MEMORY_MIB),
        # Without this instruction the start waits for randomness.
        "-cpu", "qemu64,+rdrand",
        "-display", "none", "-nodefaults", "-no-reboot",
        "-kernel", str(kernel.image), "-initrd", str(kernel.initramfs()),
        "-append", "console=ttyS0 quiet panic=-1 mitigations=off net.ifnames=0",
        "-serial", f"file:{folder}/console",
        "-device", "virtio-serial-pci",
        "-chardev", f"file,id=output,path={folder}/output", "-device", "virtserialport,chardev=output,name=output",
        # The emulator's own control socket, joined to a port of the machine: what runs inside can plug disks.
        "-chardev", f"socket,id=control,path={folder}/control.sock,server=on,wait=off",
        "-mon", "chardev=control,mode=control",
        "-chardev", f"socket,id=inside,path={folder}/control.sock",
        "-device", "virtserialport,chardev=inside,name=control",
        "-fsdev", f"local,id=root,path=/,readonly=on,{share}", "-device", "virtio-9p-pci,fsdev=root,mount_tag=root",
        "-fsdev", f"local,id=run,path={folder},{share}", "-device", "virtio-9p-pci,fsdev=run,mount_tag=run",
        "-device", "virtio-scsi-pci,id=scsi0",
    ]  # fmt: skip
    for number, slot in enumerate(disks.SLOTS, 1):
        argv += ["-device", f"pcie-root-port,id={slot},chassis={number},slot={number}"]
    for disk in here:
        argv += _arguments(disk, folder)
    return argv


def _arguments(disk: Disk, folder: Path) -> list[str]:
    backend = json.dumps(disk.backend(str(folder / disk.file)))
    return ["-blockdev", backend, "-device", json.dumps(disk.device())]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.vm.guest", description=__doc__)
    parser.add_argument("--limit", type=float, default=LIMIT_SECONDS, help="seconds until the machine is stopped")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    if not options.command:
        parser.error("name a command")
    if (why := missing()) is not None:
        print(why, file=sys.stderr)
        return FAILED
    try:
        found = kernel.get()
    except kernel.Missing as error:
        print(error, file=sys.stderr)
        return FAILED
    return run(options.command, kernel=found, output=sys.stdout.buffer, limit=options.limit)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(FAILED))
    sys.exit(main(sys.argv[1:]))
