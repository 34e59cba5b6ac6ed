"""Somebody means harm, or makes a mistake that looks like it: nothing is destroyed that is not the volume's own.

The parts have their own such tests: links swapped during a deletion and paths that lead out in
`tests/host/test_trees.py`, devices behind links in `tests/host/test_wiping.py`, what a node may forge in
`tests/contract/test_agent_policy.py`. Here the programs run as users run them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contract import wire
from tests.journey.test_circle import MIB, SECRET, VOLUMES, Node

from localpv.host import loop
from localpv.testing.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: loop devices and mounts")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path, volumeMode="Block", blockCleanerCommand='["/scripts/dd_zero.sh", "1"]')
    yield made
    made.close()


@pytest.fixture
def precious(tmp_path: Path) -> Iterator[Path]:
    """A device with somebody else's data, which no class offers."""
    file = tmp_path / "precious.img"
    file.write_bytes((SECRET * (24 * MIB // len(SECRET) + 1))[: 24 * MIB])
    device = loop.attach(file)
    yield device
    loop.detach(device)


def _cleaning(node: Node) -> Any:
    return node.disk("raw")["status"].get("cleaning") or {}


@pytest.mark.seed("CLN-7")
def test_device_swapped_behind_its_link_before_the_cleaning_is_not_wiped(node: Node, precious: Path) -> None:
    device = node.device("raw")
    node.start()
    volume = node.volume("raw")
    node.claim(volume)
    device.write_bytes(SECRET * 1000)
    link = node.disks / "raw"
    link.unlink()
    link.symlink_to(precious)
    node.released(volume)
    wire.eventually(lambda: _cleaning(node).get("reason") == "IdentityChanged", "the cleaning is refused")
    assert precious.read_bytes() == (node.folder / "precious.img").read_bytes()
    assert precious.read_bytes().startswith(SECRET * 1000)
    (still,) = node.api.get(VOLUMES)["items"]
    assert (still["metadata"]["uid"], still["status"]["phase"]) == (volume["metadata"]["uid"], "Released")

    link.unlink()
    link.symlink_to(device)
    # A refused disk is looked at again after a while; a new process looks at once.
    node.kill()
    node.start()
    wire.eventually(lambda: SECRET not in device.read_bytes(), "the right device is clean")
    node.offered_again("raw", volume)
    assert precious.read_bytes().startswith(SECRET * 1000)


@pytest.mark.parametrize("program", ["agent", "provisioner"])
@pytest.mark.parametrize("folder", ["/", "/etc", "/mnt/.."])
def test_configuration_that_names_a_directory_of_the_system_starts_nothing(
    tmp_path: Path, program: str, folder: str
) -> None:
    (tmp_path / "storageClassMap").write_text(f"fast: {{hostDir: {folder}}}\n")
    done = subprocess.run(
        [sys.executable, "-m", "localpv", program, "--config", str(tmp_path), "--state", str(tmp_path / "state")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        env={**os.environ, "MY_NODE_NAME": "n1", "KUBECONFIG": _kubeconfig(tmp_path)},
    )
    assert done.returncode == 1
    assert "storageClassMap.fast.hostDir" in done.stderr
    assert "Traceback" not in done.stderr


def _kubeconfig(folder: Path) -> str:
    """Of a server that is not there: it must not come to asking it."""
    path = folder / "kubeconfig"
    path.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],"
        " clusters: [{name: c, cluster: {server: 'https://127.0.0.1:9'}}], users: [{name: u, user: {token: t}}]}"
    )
    return str(path)
