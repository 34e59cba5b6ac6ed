"""A bound plain directory that is renamed or replaced: nobody else gets its data, and nothing else is wiped for it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract import wire
from tests.journey.test_circle import SECRET, VOLUMES, Node
from tests.journey.test_first_sight import reason

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path, adoptExisting="true")  # so that nothing but its identity keeps it from being offered
    (made.disks / "a").mkdir()
    yield made
    made.close()


def until(node: Node, entry: str, word: str) -> str:
    return str(reason(node, entry, word)["message"])


def test_bound_directory_that_is_renamed_is_not_offered_again_with_its_data(node: Node) -> None:
    node.start()
    volume = node.volume("a")
    node.claim(volume)
    (node.disks / "a" / "secret").write_bytes(SECRET)

    (node.disks / "a").rename(node.disks / "b")

    assert "entry a of class fast" in until(node, "b", "DuplicateDevice")
    until(node, "a", "Gone")
    # Nor by a bind mount, nor after a restart.
    (node.disks / "c").mkdir()
    subprocess.run(["mount", "--bind", str(node.disks / "b"), str(node.disks / "c")], check=True)
    node._undo.callback(subprocess.run, ["umount", "-l", str(node.disks / "c")], check=True)
    until(node, "c", "DuplicateDevice")
    node.kill()
    node.start()
    until(node, "b", "DuplicateDevice")
    until(node, "c", "DuplicateDevice")
    assert [each["metadata"]["uid"] for each in node.api.get(VOLUMES)["items"]] == [volume["metadata"]["uid"]]


def test_directory_in_the_place_of_a_released_one_is_not_wiped(node: Node) -> None:
    node.start()
    volume = node.volume("a")
    node.claim(volume)
    (node.disks / "a" / "secret").write_bytes(SECRET)
    (node.disks / "a").rename(node.folder / "kept")
    (node.disks / "a").mkdir()
    (node.disks / "a" / "precious").write_text("of somebody else")

    node.released(volume)

    def refused() -> bool:
        status = node.disk("a")["status"]
        return bool(status.get("cleaning", {}).get("reason") == "IdentityChanged")

    wire.eventually(refused, "the cleaning is refused")
    assert (node.disks / "a" / "precious").exists()
    assert (node.folder / "kept" / "secret").exists()

    (node.disks / "a" / "precious").unlink()
    (node.disks / "a").rmdir()
    (node.folder / "kept").rename(node.disks / "a")
    wire.eventually(lambda: not list((node.disks / "a").iterdir()), "the right one is cleaned")
    node.offered_again("a", volume)
