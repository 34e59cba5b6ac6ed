"""A machine that is started twice, the second time with its disks found the other way round.

Each test is for one start and goes on with what the one before has left: the disks, on one of which are the machine's
own files, the data of `localpv up` and the folder of rules. The machine is switched off, not shut down.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contract.test_local_storage import EXAMPLE_2
from tests.vm import hardware, udev
from tests.vm.conftest import START
from tests.vm.disks import SPARE, STARTS, SYSTEM
from tests.vm.node import VOLUMES, Node

from localpv.api import yamls
from localpv.api.kinds.localstorage import LOCAL_STORAGES

ROOT = Path("/run/system")
RULES = Path("/etc/udev/rules.d")
KEPT = ROOT / "kept.json"
LINKS = Path("/dev/disk/kubernetes-local-storage")
STORAGES = f"{LOCAL_STORAGES.path}/namespaces/default/{LOCAL_STORAGES.plural}"
TENANTS = ("BOOTHDD1", "BOOTHDD2", "BOOTNVME1", "BOOTVIRTIO1")
"""Disks that somebody has when the machine is switched off."""

FREE = ("BOOTNVME2", "BOOTVIRTIO2")
ENTRIES = {
    "BOOTHDD1": "local-hdd/block/scsi-0QEMU_QEMU_HARDDISK_BOOTHDD1",
    "BOOTHDD2": "local-hdd/block/scsi-0QEMU_QEMU_HARDDISK_BOOTHDD2",
    "BOOTNVME1": "local-ssd/block/nvme-QEMU_NVMe_Ctrl_BOOTNVME1_1",
    "BOOTNVME2": "local-ssd/block/nvme-QEMU_NVMe_Ctrl_BOOTNVME2_1",
    "BOOTVIRTIO1": "local-hdd/block/virtio-BOOTVIRTIO1",
    "BOOTVIRTIO2": "local-hdd/block/virtio-BOOTVIRTIO2",
    "SPARE": "local-ssd/block/scsi-0QEMU_QEMU_HARDDISK_SPARE",
}
"""Where the link to each disk is; virtio disks say that they rotate."""


@pytest.fixture
def node() -> Iterator[Node]:
    """The machine with its own files where it left them."""
    disk = hardware.device(SYSTEM.serial)
    if START == 1:
        hardware.run("mkfs.ext4", "-q", disk)
    ROOT.mkdir()
    hardware.run("mount", disk, ROOT)
    (ROOT / "rules").mkdir(exist_ok=True)
    hardware.run("mount", "--bind", ROOT / "rules", RULES)
    # It would have read the rules there when it started.
    udev.restart()
    made = Node(ROOT / "node", cleaners={})
    yield made
    made.stop(signal.SIGKILL)
    os.sync()


def secret(serial: str) -> bytes:
    return f"what the tenant of {serial} wrote".encode()


def holds(path: Path, serial: str) -> bool:
    """Whether what the tenant of a disk has written is found under a path."""
    hardware.run("blockdev", "--flushbufs", path)
    with path.open("rb") as disk:
        return disk.read(4096).startswith(secret(serial))


def volumes(node: Node) -> dict[str, Any]:
    """All volumes, by where their links are."""
    found = node.api.get(VOLUMES)["items"]
    return {volume["spec"]["local"]["path"].removeprefix(f"{LINKS}/"): volume for volume in found}


@pytest.mark.start(1)
@pytest.mark.seed("OPR-13", "OPR-19", "OPR-7", "OPR-9")
def test_second_example_of_the_document_offers_the_disks_of_the_machine_as_it_is_written(node: Node) -> None:
    assert hardware.device(SYSTEM.serial).name == "sda", "the one that the example leaves out"
    node.start()
    node.api.merge("/api/v1/nodes/vm", {"metadata": {"labels": {"localStorage": "true"}}})
    (example,) = yamls.load_all(EXAMPLE_2)
    node.api.post(STORAGES, example)
    node.eventually(lambda: {*volumes(node)} == {*ENTRIES.values()}, "all disks but that of the machine are offered")

    found = volumes(node)
    for serial in TENANTS:
        volume = found[ENTRIES[serial]]
        node.bind(volume)
        with Path(volume["spec"]["local"]["path"]).open("r+b") as disk:
            disk.write(secret(serial))
            os.fsync(disk.fileno())
        assert holds(hardware.device(serial), serial)
    kept = {
        "uids": {serial: found[entry]["metadata"]["uid"] for serial, entry in ENTRIES.items()},
        "names": {disk.serial: hardware.device(disk.serial).name for disk in STARTS[0]},
    }
    KEPT.write_text(json.dumps(kept))

    # One of them is given back, wiped, and offered again: what example and machine can do at all.
    volume = found[ENTRIES["BOOTNVME2"]]
    node.bind(volume)
    hardware.fill(hardware.device("BOOTNVME2"))
    node.release(volume)
    node.eventually(
        lambda: volumes(node).get(ENTRIES["BOOTNVME2"], volume)["metadata"]["uid"] != volume["metadata"]["uid"],
        "it is offered again",
    )
    assert hardware.is_zero(hardware.device("BOOTNVME2"))


@pytest.mark.start(2)
@pytest.mark.seed("OPR-6", "OPR-8", "OPR-9", "OPR-17", "OPR-18", "OPR-19")
def test_volumes_are_on_the_same_disks_after_a_restart_that_has_changed_all_names(node: Node) -> None:
    kept = json.loads(KEPT.read_text())
    names = {disk.serial: hardware.device(disk.serial).name for disk in STARTS[1]}
    assert {*names.values()} == {*kept["names"].values()}
    assert not [serial for serial, name in names.items() if name == kept["names"][serial]]
    assert (names["BOOTHDD1"], names["BOOTHDD2"]) == (kept["names"]["BOOTHDD2"], kept["names"]["BOOTHDD1"])
    # By udev and the rules alone: a pod may be started before localpv is.
    for serial in TENANTS:
        assert holds(LINKS / ENTRIES[serial], serial)

    # The rule leaves out what is sda now, and means what was: that is in use, and so is not offered.
    node.start()
    assert (names[SPARE.serial], names[SYSTEM.serial]) == ("sda", kept["names"][SPARE.serial])
    node.refused("local-ssd", f"scsi-0QEMU_QEMU_HARDDISK_{SYSTEM.serial}", "Mounted")
    left = {entry for serial, entry in ENTRIES.items() if serial != SPARE.serial}
    node.eventually(lambda: {*volumes(node)} == left, "what the rule means no more is withdrawn")
    found = volumes(node)
    for serial in TENANTS:
        volume = found[ENTRIES[serial]]
        assert (volume["metadata"]["uid"], volume["status"]["phase"]) == (kept["uids"][serial], "Bound")
        assert holds(Path(volume["spec"]["local"]["path"]), serial)
    for serial in FREE:
        assert found[ENTRIES[serial]]["status"]["phase"] == "Available"

    # One of two that have changed their names is wiped, and it is the right one.
    first, second = found[ENTRIES["BOOTHDD1"]], found[ENTRIES["BOOTHDD2"]]
    node.release(first)
    node.eventually(
        lambda: volumes(node).get(ENTRIES["BOOTHDD1"], first)["metadata"]["uid"] != first["metadata"]["uid"],
        "it is offered again",
    )
    assert hardware.is_zero(hardware.device("BOOTHDD1"))
    for serial in TENANTS[1:]:
        assert holds(hardware.device(serial), serial)

    # And the end of it waits for those that are in use.
    node.api.delete(f"{STORAGES}/local")
    node.eventually(lambda: {*volumes(node)} == {ENTRIES[serial] for serial in TENANTS[1:]}, "others are withdrawn")
    for serial in TENANTS[1:]:
        assert holds(LINKS / ENTRIES[serial], serial)
        node.release(found[ENTRIES[serial]])
    assert second["metadata"]["uid"] == kept["uids"]["BOOTHDD2"]
    node.eventually(lambda: node.api.gone(f"{STORAGES}/local"), "the LocalStorage is gone")
    node.eventually(lambda: not volumes(node), "its volumes are gone")
    assert all(hardware.is_zero(hardware.device(serial)) for serial in TENANTS)
    assert not [*RULES.glob("99-kubernetes*")]
    node.eventually(lambda: not node.api.get("/apis/storage.k8s.io/v1/storageclasses")["items"], "and its classes")
