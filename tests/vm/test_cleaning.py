"""Every way to clean, on drives that do it themselves: claimed, filled, released, and offered again only when clean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.vm import hardware
from tests.vm.node import CLEANERS, Node

BlankDisk = Callable[[str], Path]


@pytest.mark.seed("DEL-1", "E2E-10")
@pytest.mark.parametrize(
    ("storage_class", "serial"),
    [
        pytest.param("discard", "SCSISSD", marks=pytest.mark.seed("CLN-2")),
        pytest.param("discard", "SATASSD", marks=pytest.mark.seed("CLN-2")),
        pytest.param("discard", "NVMEONE", marks=pytest.mark.seed("CLN-2")),
        pytest.param("discard", "VIRTIO1", marks=pytest.mark.seed("CLN-2")),
        pytest.param("zero", "NVMETWO", marks=pytest.mark.seed("CLN-1")),
        pytest.param("shred", "SATASSD", marks=pytest.mark.seed("CLN-4")),
        pytest.param("format", "NVMEONE"),
    ],
)
def test_released_disk_is_offered_again_when_every_byte_is_gone(
    node: Node, blank_disk: BlankDisk, storage_class: str, serial: str
) -> None:
    device = blank_disk(serial)
    entry = f"{storage_class}-{serial.lower()}"
    with node.linked(storage_class, entry, device):
        volume = node.volume(storage_class, entry)
        hardware.fill(device)
        node.release(volume)

        node.comes_back(storage_class, entry, volume)
        assert hardware.is_zero(device)
        cleaning = node.find(storage_class, entry)["status"]["cleaning"]
        assert cleaning["volumeUID"] == volume["metadata"]["uid"]
        assert cleaning["state"] == "Verified"
        assert cleaning["method"][0] == CLEANERS[storage_class][0]
        assert cleaning["attempt"] == 1


@pytest.mark.seed("CLN-1")
@pytest.mark.parametrize(("serial", "offloads"), [("SCSIHDD", True), ("SATAHDD", False)])
def test_zeroes_are_made_by_the_drive_where_it_can_and_written_where_it_cannot(
    node: Node, blank_disk: BlankDisk, serial: str, offloads: bool
) -> None:
    device = blank_disk(serial)
    assert (hardware.attribute(device, "queue/write_zeroes_max_bytes") != "0") is offloads
    with node.linked("zero", serial.lower(), device):
        volume = node.volume("zero", serial.lower())
        hardware.fill(device)
        before = hardware.writes(device)
        node.release(volume)

        node.comes_back("zero", serial.lower(), volume)
        assert hardware.is_zero(device)
        requests = hardware.writes(device) - before
        # 32 MiB: in one or two requests to make zeroes, or in chunks of some hundred KiB to a few MiB.
        assert requests <= 2 if offloads else requests >= 8


@pytest.mark.seed("CLN-3")
def test_reset_disk_has_no_signature_and_no_partition_of_its_tenant_left(node: Node, blank_disk: BlankDisk) -> None:
    device = blank_disk("VIRTIO1")
    with node.linked("reset", "partitioned", device):
        volume = node.volume("reset", "partitioned")
        node.bind(volume)
        hardware.partition(device)
        part = hardware.part(device, 1)
        hardware.run("mkfs.ext4", "-q", part)
        hardware.settle()
        assert part.is_block_device()
        node.release(volume)

        node.comes_back("reset", "partitioned", volume)
        assert hardware.run("wipefs", device) == ""
        assert not part.exists()


def test_partition_is_wiped_and_its_neighbour_is_not(node: Node, blank_disk: BlankDisk) -> None:
    device = blank_disk("SCSITWO")
    hardware.partition(device, 2)
    ours, neighbour = hardware.part(device, 1), hardware.part(device, 2)
    hardware.fill(neighbour)
    with node.linked("discard", "part1", ours):
        volume = node.volume("discard", "part1")
        identity = node.find("discard", "part1")["status"]["identity"]
        assert identity["serial"] == "SCSITWO-part1" and identity["partUUID"]
        hardware.fill(ours)
        node.release(volume)

        node.comes_back("discard", "part1", volume)
        assert hardware.is_zero(ours)
        assert hardware.old_mib(neighbour) == hardware.mib(neighbour)
