"""Pods run on when the engine stops, and somebody removes its data folder: what is on their volumes stays."""

from __future__ import annotations

import hashlib
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.pods.machine import Machine
from tests.pods.test_volumes import bound

from localpv.host import loop

MIB = 1024 * 1024
NewMachine = Callable[[], Machine]


class Tenant:
    """Volumes of every kind with data on them, and a pod that has all of them."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.machine, self.folder = machine, folder
        self.directory, self.host = folder / "directory", folder / "host"
        for path in (self.directory, self.host):
            (path / "part").mkdir(parents=True)
            (path / "part" / "file").write_text(f"the tenant's, in {path.name}\n")
        self.formatted, self.raw = self._device("formatted"), self._device("raw")
        subprocess.run(["mkfs.ext4", "-q", self.formatted], check=True)

    def _device(self, name: str) -> Path:
        file = self.folder / f"{name}.img"
        file.write_bytes(bytes(16 * MIB))
        return loop.attach(file)

    def run(self) -> None:
        machine = self.machine
        mounts = [
            {"name": "directory", "mountPath": "/directory"},
            {"name": "directory", "mountPath": "/directory-part", "subPath": "part"},
            {"name": "formatted", "mountPath": "/formatted"},
            {"name": "formatted", "mountPath": "/formatted-part", "subPath": "part"},
            {"name": "host", "mountPath": "/host"},
            {"name": "host", "mountPath": "/host-part", "subPath": "part"},
            {"name": "scratch", "mountPath": "/scratch"},
        ]
        script = (
            "echo kept > /formatted-part/file; echo also kept > /formatted/top; echo raw | dd of=/dev/raw conv=fsync;"
            " echo more > /directory-part/more; sync; echo ready; exec sleep 1000"
        )
        one = {
            "name": "main",
            "image": "busybox",
            "command": ["sh", "-c", script],
            "volumeMounts": mounts,
            "volumeDevices": [{"name": "raw", "devicePath": "/dev/raw"}],
        }
        volumes = [
            bound(machine, "directory", self.directory) | {"name": "directory"},
            bound(machine, "formatted", self.formatted) | {"name": "formatted"},
            bound(machine, "raw", self.raw, mode="Block") | {"name": "raw"},
            {"name": "host", "hostPath": {"path": str(self.host)}},
            {"name": "scratch", "emptyDir": {}},
        ]
        machine.remember(machine.create({"containers": [one], "volumes": volumes}, "tenant"))
        machine.until_says("tenant", "ready")

    def holds(self) -> dict[str, str]:
        """Everything that is the tenant's, byte for byte."""
        own = self.folder / "looked-at"
        own.mkdir(exist_ok=True)
        subprocess.run(["mount", self.formatted, own], check=True)
        try:
            files = [path for top in (self.directory, self.host, own) for path in top.rglob("*") if path.is_file()]
            return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted([*files, self.raw])}
        finally:
            subprocess.run(["umount", own], check=True)

    def held(self) -> list[Path]:
        """What holds the raw device."""
        argv = ["losetup", "-n", "-O", "NAME", "-j", str(self.raw)]
        return [*map(Path, subprocess.run(argv, capture_output=True, text=True).stdout.split())]

    def close(self) -> None:
        for device in [*self.held(), self.formatted, self.raw]:
            loop.detach(device)


@pytest.fixture
def tenant(new_machine: NewMachine, tmp_path: Path) -> Iterator[Tenant]:
    made = Tenant(new_machine(), tmp_path / "disks")
    yield made
    made.machine.close()
    made.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "ctrl-c"])
def test_removing_the_data_folder_of_a_stopped_engine_touches_no_volume(tenant: Tenant, number: int) -> None:
    tenant.run()
    machine, before = tenant.machine, tenant.holds()
    assert len(before) == 6, before
    machine.end(number)

    # As root, over every mount that lies in it: what cannot be removed is passed over.
    subprocess.run(["rm", "-rf", machine.data], check=False, capture_output=True)

    assert tenant.holds() == before
    assert not machine.data.exists(), "nothing is mounted in it"


def test_engine_that_lost_its_data_folder_ends_the_pods_that_run_on_and_frees_their_volumes(tenant: Tenant) -> None:
    tenant.run()
    machine, before = tenant.machine, tenant.holds()
    machine.kill()
    subprocess.run(["rm", "-rf", machine.data], check=False, capture_output=True)

    machine.start()

    machine.eventually(machine.is_clean, "nothing of pods that nobody knows is left")
    assert tenant.holds() == before
    mounted = [line.split()[0] for line in Path("/proc/mounts").read_text().splitlines()]
    assert str(tenant.formatted) not in mounted


def test_data_folder_can_be_moved_while_pods_run_on(tenant: Tenant) -> None:
    tenant.run()
    machine = tenant.machine
    pid = next((machine.node / "containers").glob("*/pid")).read_text()
    machine.stop()
    moved = machine.data.with_name("moved")
    machine.data.rename(moved)
    machine.settle_in(moved)

    machine.start()

    machine.until_ready("tenant")
    assert next((machine.node / "containers").glob("*/pid")).read_text() == pid, "no second process on the same volume"
    machine.delete("tenant")
    machine.eventually(machine.is_clean, "it is looked after as before")
