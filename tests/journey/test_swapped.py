"""Disks that change places while tenants have them, with the programs as users run them: nobody's data is wiped."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract import wire
from tests.journey.test_circle import MIB, SECRET, Node

from localpv.host import loop

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: loop devices and mounts")

SIZE = 8 * MIB


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path, volumeMode="Block", blockCleanerCommand='["/scripts/dd_zero.sh", "1"]')
    yield made
    made.close()


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[list[Path]]:
    """Two loop devices of one file, one after the other."""
    file = tmp_path / "parts.img"
    file.write_bytes(bytes(2 * SIZE))
    made = []
    for offset in (0, SIZE):
        # In turn with all others who attach: who is given the same number opens the device of a neighbour.
        argv = ["flock", "/dev/loop-control", "losetup", "--find", "--show"]
        argv += ["--offset", str(offset), "--sizelimit", str(SIZE), str(file)]
        made.append(Path(subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()))
    yield made
    for device in made:
        loop.detach(device)


def test_the_release_of_one_part_of_a_file_never_wipes_the_other(node: Node, parts: list[Path]) -> None:
    secrets = [SECRET + b"of the first ", SECRET + b"of the second "]
    for name, device in zip(("first", "second"), parts, strict=True):
        (node.disks / name).symlink_to(device)
    node.start()
    volumes = [node.volume(name) for name in ("first", "second")]
    for volume, device, secret in zip(volumes, parts, secrets, strict=True):
        node.claim(volume)
        device.write_bytes(secret * 1000)
    subprocess.run(["sync"], check=True)

    for name, device in zip(("first", "second"), reversed(parts), strict=True):
        (node.disks / f".{name}").symlink_to(device)
        (node.disks / f".{name}").rename(node.disks / name)
    node.release(volumes[0])

    def refused() -> bool:
        status = node.disk("first")["status"]
        cleaning = status.get("cleaning", {})
        told = (cleaning.get("state"), cleaning.get("reason"), status["phase"])
        return told == ("Failed", "IdentityChanged", "CleanFailed")

    wire.eventually(refused, "the cleaning is refused")
    status = node.disk("first")["status"]
    assert f"offset_bytes was 0, is {SIZE}" in status["cleaning"]["error"]
    wire.eventually(lambda: node.disk("second")["status"]["phase"] == "Missing", "the other one is told as well")
    assert node.disk("second")["status"]["reason"] == "IdentityChanged"
    assert [secret * 1000 in device.read_bytes() for device, secret in zip(parts, secrets, strict=True)] == [True, True]

    for name, device in zip(("first", "second"), parts, strict=True):
        (node.disks / f".{name}").symlink_to(device)
        (node.disks / f".{name}").rename(node.disks / name)
    node.kill()
    node.start()  # it would look again by itself, a quarter of a minute after it refused
    node.offered_again("first", volumes[0])
    assert SECRET not in parts[0].read_bytes()
    assert secrets[1] * 1000 in parts[1].read_bytes()
    wire.eventually(lambda: node.disk("second")["status"]["phase"] != "Missing", "the other one is back")
