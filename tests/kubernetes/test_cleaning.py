"""A cluster leaves nothing on the machine, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.contract import builders, wire
from tests.contract.spaces import Space
from tests.e2e import pods
from tests.kubernetes import images, ledger

START_SECONDS = 120.0
PROJECT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Started:
    """A cluster in a process of its own, with pods that hold a mount and a loop device."""

    process: subprocess.Popen[str]
    folder: Path
    kernel: dict[str, str]
    """The settings of the kernel before."""

    def processes(self) -> set[tuple[int, str]]:
        """All processes below the one we started, with their start times."""
        parents: dict[int, tuple[int, str]] = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit() and (fields := _stat(int(entry))):
                parents[int(entry)] = (int(fields[1]), fields[19])
        found = {self.process.pid}
        while more := {pid for pid, (parent, _) in parents.items() if parent in found} - found:
            found |= more
        return {(pid, parents[pid][1]) for pid in found if pid in parents}


@pytest.fixture
def started(machine: None) -> Iterator[Started]:
    kernel = _kernel_settings()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.kubernetes.cluster"], cwd=PROJECT, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stdout is not None
            words = iter(process.stdout.readline, "")
            kubeconfig = next(Path(line.split("=", 1)[1].strip()) for line in words if "KUBECONFIG=" in line)
            _occupy(wire.read_kubeconfig(kubeconfig, controllers=True))
            yield Started(process, kubeconfig.parent, kernel)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(START_SECONDS)
            ledger.clean_abandoned()


@pytest.mark.parametrize(
    "ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=["ctrl-c", "terminated", "killed"]
)
def test_nothing_is_left_of_a_cluster(started: Started, ending: signal.Signals) -> None:
    name = started.folder.name
    told = (started.folder / "ledger.json").read_text()
    links = [link for link in os.listdir("/sys/class/net") if f'"{link}"' in told]
    loops = ledger.loops_of(started.folder)
    processes = started.processes()
    # What is to go was really there: a bridge and a cable, the disk and the kubelet's device on it, pods.
    assert (len(links), len(loops), len(processes) >= 12) == (2, 2, True)
    assert any((root / f"localpv-{name}").is_dir() for root in ledger.cgroup_roots())

    started.process.send_signal(ending)
    started.process.wait(START_SECONDS)
    if ending is signal.SIGKILL:
        # Programs go with their owner; the rest is found by whoever comes next.
        _eventually_no_more(processes)
        cleaned = subprocess.run(
            [sys.executable, "-m", "tests.kubernetes.cluster", "--clean"],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert name in cleaned.stdout

    _eventually_no_more(processes)
    assert not started.folder.exists()
    assert name not in Path("/proc/self/mountinfo").read_text()
    assert [link for link in links if link in os.listdir("/sys/class/net")] == []
    assert [str(root) for root in ledger.cgroup_roots() if (root / f"localpv-{name}").exists()] == []
    assert [loop for loop in loops if name in _backing_file(loop)] == []
    assert _kernel_settings() == started.kernel
    kept = [path.name for path in ledger.logs_folder().iterdir() if path.name.endswith(name)]
    assert len(kept) == 1


def _occupy(target: wire.Target) -> None:
    """Start a pod with a file system and a raw device, both local volumes."""
    api = wire.Api(target, target.token)
    space = Space(api.post("/api/v1/namespaces", builders.namespace())["metadata"]["name"])
    here = pods.Here(api=api, space=space, image=images.BUSYBOX)
    folder = target.kubeconfig.parent / "node-1"
    (folder / "mnt" / "dir").mkdir()
    with (folder / "disk.img").open("wb") as content:
        content.truncate(16 << 20)
    attach = ["losetup", "--find", "--show", str(folder / "disk.img")]
    device = subprocess.run(attach, capture_output=True, text=True, check=True).stdout.strip()
    claims = {
        "files": here.volume_on("node-1", "/mnt/dir", size="16Mi"),
        "raw": here.volume_on("node-1", device, mode="Block", size="16Mi"),
    }
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": claim}} for name, claim in claims.items()]
    name = here.start(
        *("sleep", "3600"),
        spec={"volumes": volumes},
        volumeMounts=[{"name": "files", "mountPath": "/files"}],
        volumeDevices=[{"name": "raw", "devicePath": "/dev/raw"}],
    )
    here.wait(name, "Running")
    api.close()


def _eventually_no_more(processes: set[tuple[int, str]]) -> None:
    def left() -> list[int]:
        return [pid for pid, started in processes if (fields := _stat(pid)) and fields[19] == started]

    deadline = time.monotonic() + ledger.GONE_SECONDS
    while left():
        assert time.monotonic() < deadline, f"still there: {left()}"
        time.sleep(0.05)


def _kernel_settings() -> dict[str, str]:
    return {name: (Path("/proc/sys") / name).read_text() for name in ledger.KERNEL_SETTINGS}


def _backing_file(loop: Path) -> str:
    path = Path("/sys/block") / loop.name / "loop" / "backing_file"
    try:
        return path.read_text()
    except OSError:
        return ""


def _stat(pid: int) -> list[str] | None:
    """The fields of a process after its name; None when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
