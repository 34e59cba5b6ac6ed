"""The classic cleaning scripts, run by hand on real loop devices and directories."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.journey.machine import MIB, PATTERN, Machine, holds_old_data, open_machine

from localpv.testing.waiting import PATIENCE_SECONDS

SCRIPTS = Path(sys.modules["localpv"].__path__[0]) / "scripts"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="loop devices and mounts need root")
machine = pytest.fixture(open_machine)


@pytest.mark.alone
@pytest.mark.parametrize(
    ("script_name", "arguments"),
    [
        pytest.param("dd_zero.sh", ["2"], marks=pytest.mark.seed("CLN-1")),
        pytest.param("blkdiscard.sh", [], marks=pytest.mark.seed("CLN-2")),
        pytest.param("zeroout.sh", []),
        pytest.param("shred.sh", ["1"], marks=pytest.mark.seed("CLN-4")),
    ],
)
def test_script_wipes_the_device_by_hand(machine: Machine, script_name: str, arguments: list[str]) -> None:
    device = machine.device("sdb", size=8 * MIB)
    done = _run(script_name, *arguments, LOCAL_PV_BLKDEVICE=device)
    assert done.returncode == 0, done.stderr
    assert not holds_old_data(device)


@pytest.mark.alone
@pytest.mark.seed("CLN-3")
def test_quick_reset_by_hand_leaves_no_signature(machine: Machine) -> None:
    device = machine.device("sdb")
    machine.make_file_system(device)
    assert _run("quick_reset.sh", LOCAL_PV_BLKDEVICE=device).returncode == 0
    assert subprocess.run(["wipefs", device], check=True, capture_output=True).stdout == b""


@pytest.mark.seed("CLN-8")
def test_fsclean_by_hand_empties_the_directory(machine: Machine) -> None:
    volume = machine.disks / "vol"
    (volume / "a").mkdir(parents=True)
    (volume / "a" / "file").write_text("old")
    done = _run("fsclean.sh", LOCAL_PV_FILESYSTEM=volume)
    assert done.returncode == 0, done.stderr
    assert list(volume.iterdir()) == []


@pytest.mark.parametrize("script_name", sorted(path.name for path in SCRIPTS.glob("*.sh")))
def test_script_without_a_disk_says_what_it_needs(script_name: str) -> None:
    done = _run(script_name)
    assert done.returncode == 2
    assert "LOCAL_PV_" in done.stderr


@pytest.mark.parametrize("script_name", ["hdparm.sh", "nvme_format.sh"])
def test_script_for_drives_refuses_what_is_none(machine: Machine, script_name: str) -> None:
    device = machine.device("sdb", size=8 * MIB)
    assert _run(script_name, LOCAL_PV_BLKDEVICE=device).returncode == 1
    assert holds_old_data(device)


def test_script_refuses_a_mounted_device_and_a_plain_file(machine: Machine) -> None:
    device = machine.device("sdb")
    machine.make_file_system(device)
    pod = machine.mount(device, machine.folder / "pod")
    (pod / "file").write_bytes(PATTERN)
    done = _run("dd_zero.sh", LOCAL_PV_BLKDEVICE=device)
    assert done.returncode == 1 and str(pod) in done.stderr
    assert (pod / "file").read_bytes() == PATTERN
    assert _run("dd_zero.sh", LOCAL_PV_BLKDEVICE=machine.folder / "sdb.img").returncode == 1


def _run(script_name: str, *arguments: str, **environment: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPTS / script_name, *arguments],
        env={"PATH": os.environ["PATH"], "LOCALPV_PYTHON": sys.executable}
        | {name: str(path) for name, path in environment.items()},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
