"""`localpv reset` where no pod has marked the disks: claims from before an upgrade, or used past the engine."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import forked_programs
from tests.contract import wire
from tests.journey.test_circle import SECRET, Node

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: loop devices and mounts")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path, adoptExisting="true")
    yield made
    made.close()


def reset(node: Node) -> None:
    done = forked_programs.run("reset", "--yes", "--data", str(node.data))
    assert done.returncode == 0, done.stderr


def test_what_was_claimed_is_not_offered_after_a_reset_and_the_rest_is(node: Node) -> None:
    device = node.device("raw")
    (node.disks / "directory").mkdir()
    (node.disks / "free").mkdir()
    node.start()
    for name in ("raw", "directory"):
        node.claim(node.volume(name))
    node.volume("free")
    device.write_bytes(SECRET * 1000)
    (node.disks / "directory" / "file").write_bytes(SECRET)
    node.kill(signal.SIGTERM)
    reset(node)
    assert SECRET in device.read_bytes() and (node.disks / "directory" / "file").exists()

    node.start()
    node.volume("free")
    for name in ("raw", "directory"):
        wire.eventually(
            lambda name=name: node.disk(name).get("status", {}).get("reason") == "UsedBefore", f"{name} is known"
        )
