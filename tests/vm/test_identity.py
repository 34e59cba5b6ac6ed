"""Which disk is which: on SCSI, SATA, NVMe and virtio, and when disks come, go and change places."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.vm import hardware
from tests.vm.disks import MIB
from tests.vm.node import Node

NVME_WWN = "nvme.1b36-4e564d454f4e45-51454d55204e564d65204374726c-00000001"

EXPECTED = {
    "SCSISSD": ("SSD", "QEMU HARDDISK", "0x5000c500a0000001", {"scsi-35000c500a0000001", "wwn-0x5000c500a0000001"}),
    "SCSIHDD": ("HDD", "QEMU HARDDISK", "", {"scsi-0QEMU_QEMU_HARDDISK_SCSIHDD"}),
    "SATASSD": ("SSD", "QEMU HARDDISK", "0x5000c500a0000004", {"ata-QEMU_HARDDISK_SATASSD", "wwn-0x5000c500a0000004"}),
    "SATAHDD": ("HDD", "QEMU HARDDISK", "", {"ata-QEMU_HARDDISK_SATAHDD"}),
    "NVMEONE": ("NVMe", "QEMU NVMe Ctrl", NVME_WWN, {"nvme-QEMU_NVMe_Ctrl_NVMEONE", f"nvme-{NVME_WWN}"}),
    # The kernel calls every virtio disk a turning one and knows no model.
    "VIRTIO1": ("HDD", "", "", {"virtio-VIRTIO1"}),
}
"""Medium, model, wwn, and names below /dev/disk/by-id that must be among those found."""


@pytest.mark.seed("DSC-10", "DSC-12", "E2E-9")
def test_disks_of_every_kind_are_offered_with_what_tells_them_apart(
    node: Node, blank_disk: Callable[[str], Path]
) -> None:
    with ExitStack() as undo:
        for serial in EXPECTED:
            undo.enter_context(node.linked("zero", serial.lower(), blank_disk(serial)))
        for serial, (medium, model, wwn, names) in EXPECTED.items():
            volume = node.volume("zero", serial.lower())
            assert volume["spec"]["volumeMode"] == "Block"
            assert volume["spec"]["capacity"]["storage"] == "32Mi"

            status = node.disk("zero", serial.lower())["status"]
            found = status["identity"]
            assert status["medium"] == medium
            assert found["serial"] == serial
            assert (found.get("model", ""), found.get("wwn", "")) == (model, wwn)
            assert names <= set(found["byID"])
            assert found["sizeBytes"] == status["capacityBytes"] == 32 * MIB


def test_a_logical_volume_made_anew_under_its_old_name_is_another_disk(
    node: Node, blank_disk: Callable[[str], Path]
) -> None:
    name, below = Path("/dev/mapper/localpv-again"), blank_disk("SCSISSD")

    def make(uuid: str) -> None:
        table = f"0 {16 * MIB // 512} linear {below} 2048"
        subprocess.run(["dmsetup", "create", name.name, "--uuid", f"LVM-{uuid}", "--table", table], check=True)

    def remove() -> None:
        subprocess.run(["dmsetup", "remove", "--retry", name.name], check=True)

    with ExitStack() as undo:
        make("a" * 64)
        undo.callback(remove)
        undo.enter_context(node.linked("zero", "again", name))
        volume = node.volume("zero", "again")
        node.bind(volume)
        number = name.stat().st_rdev
        remove()
        make("b" * 64)
        assert name.stat().st_rdev == number
        hardware.fill(name)
        node.disk("zero", "again", lambda disk: disk["status"]["reason"] == "IdentityChanged")

        node.release(volume)
        disk = node.cleaning("zero", "again", "Failed", "IdentityChanged")

        assert "by_id was dm-uuid-LVM-a" in disk["status"]["cleaning"]["error"]
        assert hardware.old_mib(name) == 16
