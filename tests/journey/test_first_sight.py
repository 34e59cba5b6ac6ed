"""What is not empty when it is found is not offered, by the programs as users run them; the drop-in alone adopts it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import forked_programs
from tests.contract import wire
from tests.journey.test_circle import MIB, VOLUMES, Node
from tests.journey.test_programs import DISKS, _offered, _options, api, program

from localpv.api import crds
from localpv.host import loop

__all__ = ["api"]  # a fixture

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: loop devices and mounts")

EVENTS = "/api/v1/namespaces/default/events"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.close()


def reason(node: Node, entry: str, word: str = "") -> Any:
    """The status of an entry, once it has a reason, or this one."""

    def judged() -> Any:
        found = node.api.get(DISKS)["items"]
        status = next((disk["status"] for disk in found if disk["spec"]["entry"] == entry and "status" in disk), {})
        return status if status.get("reason") and word in ("", status["reason"]) else None

    return wire.eventually(judged, f"{entry} was looked at, and says {word}")


def wipe(node: Node, entry: str) -> None:
    done = forked_programs.run("wipe", entry, "--yes", "--kubeconfig", f"{node.data}/kubeconfig")
    assert done.returncode == 0, done.stderr


def test_what_is_not_empty_is_told_by_name_and_offered_once_it_is_wiped(node: Node) -> None:
    (node.disks / "plain").mkdir()
    (node.disks / "plain" / "precious").write_text("of somebody")
    (node.mount("mounted") / "database").mkdir()
    device = node.device("raw")
    with device.open("r+b") as disk:
        disk.seek(12 * MIB)
        disk.write(b"of somebody")
    (node.disks / "empty").mkdir()
    node.start()

    node.volume("empty")
    assert len(node.api.get(VOLUMES)["items"]) == 1
    said = {entry: reason(node, entry, "NotEmpty") for entry in ("plain", "mounted", "raw")}
    assert "'precious'" in said["plain"]["message"]
    assert "'database'" in said["mounted"]["message"]
    assert "near byte 12582912" in said["raw"]["message"]

    for entry in said:
        wipe(node, entry)
        node.volume(entry)
    assert list((node.disks / "plain").iterdir()) == []
    assert device.read_bytes().count(0) == 24 * MIB


def test_empty_file_system_that_the_class_announces_is_offered_and_a_full_one_is_not(tmp_path: Path) -> None:
    node = Node(tmp_path, volumeMode="Filesystem", fsType="ext4")
    try:
        at = tmp_path / "at"
        at.mkdir()
        for name in ("empty", "full"):
            device = node.device(name)
            subprocess.run(["mkfs.ext4", "-q", str(device)], check=True)
        subprocess.run(["mount", str(device), str(at)], check=True)
        (at / "precious").write_text("of somebody")
        subprocess.run(["umount", str(at)], check=True)
        node.start()

        node.volume("empty")
        assert "'precious'" in reason(node, "full", "NotEmpty")["message"]
        assert len(node.api.get(VOLUMES)["items"]) == 1
    finally:
        node.close()


def test_class_can_say_that_what_exists_is_adopted(tmp_path: Path) -> None:
    node = Node(tmp_path, adoptExisting="true")
    try:
        (node.disks / "plain").mkdir()
        (node.disks / "plain" / "precious").write_text("of somebody")
        node.start()
        node.volume("plain")
        found = f"{EVENTS}?fieldSelector=reason=ExistingDataAdopted"
        (event,) = wire.eventually(lambda: node.api.get(found)["items"], "it is told")
        assert "'precious'" in event["message"]
    finally:
        node.close()


@pytest.mark.seed("DSC-13")
@pytest.mark.parametrize("programs", [("up",), ("manager", "agent"), ("provisioner",)])
def test_device_of_a_class_without_a_mode_is_offered_raw_except_by_the_drop_in(
    request: pytest.FixtureRequest, tmp_path: Path, programs: tuple[str, ...]
) -> None:
    if programs == ("up",):
        node: Node = request.getfixturevalue("node")
        node.device("raw")
        node.mount("mounted")
        node.start()
        modes = {entry: node.volume(entry)["spec"]["volumeMode"] for entry in ("raw", "mounted")}
        assert modes == {"raw": "Block", "mounted": "Filesystem"}
        return
    api: wire.Api = request.getfixturevalue("api")
    image = tmp_path / "disk.img"
    image.write_bytes(bytes(24 * MIB))
    device = loop.attach(image)
    try:
        (tmp_path / "disks" / "raw").symlink_to(device)
        with running(programs, api, tmp_path):
            assert sorted(_offered(api, 2)) == ["one", "raw"]
        modes = {Path(pv["spec"]["local"]["path"]).name: pv["spec"]["volumeMode"] for pv in api.get(VOLUMES)["items"]}
        assert modes == {"raw": "Filesystem" if "provisioner" in programs else "Block", "one": "Filesystem"}
    finally:
        loop.detach(device)


def test_drop_in_offers_what_it_finds_and_says_so(api: wire.Api, tmp_path: Path) -> None:
    (tmp_path / "disks" / "full").mkdir()
    (tmp_path / "disks" / "full" / "precious").write_text("of somebody")
    with running(("provisioner",), api, tmp_path):
        assert sorted(_offered(api, 2)) == ["full", "one"]
        found = f"{EVENTS}?fieldSelector=reason=ExistingDataAdopted"
        (event,) = wire.eventually(lambda: api.get(found)["items"], "it is told")
    assert "'precious'" in event["message"]
    assert "as the classic one does" in event["message"]


def running(programs: tuple[str, ...], api: wire.Api, folder: Path) -> Any:
    """The programs of one node, started in order."""
    stack = contextlib.ExitStack()
    if "agent" in programs:
        api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crds.load("localdisks"))
        wire.eventually(lambda: api.send("GET", DISKS).code == 200, "LocalDisks are served")
    for name in programs:
        state = () if name == "manager" else ("--state", str(folder / "state"))
        stack.enter_context(program(name, *_options(folder), *state, folder=folder))
    return stack
