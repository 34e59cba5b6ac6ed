"""What others use is never offered, and not cleaned either when they came to use it later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.vm import hardware, uses
from tests.vm.node import Node
from tests.vm.uses import Use

BlankDisk = Callable[[str], Path]


@pytest.mark.parametrize(
    ("use", "in_use", "afterwards"),
    [
        # Why it is not offered while it is used, and why not when that is over.
        (uses.logical_volume, "Held", "HasSignature"),
        (uses.raid_array, "Held", "HasSignature"),
        (uses.encryption, "Held", "HasSignature"),
        (uses.multipath, "Held", ""),
        (uses.swap, "Swap", "Swap"),
        (uses.mounted, "Mounted", "HasFileSystem"),
        (uses.mounted_partition, "Partitioned", "Partitioned"),
        (uses.read_only, "ReadOnly", ""),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_disk_that_others_use_is_not_offered_and_says_why(
    node: Node, blank_disk: BlankDisk, use: Use, in_use: str, afterwards: str
) -> None:
    device = blank_disk("SCSIHDD")
    with use(device), node.linked("zero", "used", device):
        node.refused("zero", "used", in_use)
    with node.linked("zero", "left", device):
        if afterwards:
            node.refused("zero", "left", afterwards)
        else:
            node.volume("zero", "left")


def test_partition_that_is_mounted_or_part_of_something_is_not_offered_and_its_free_neighbour_is(
    node: Node, blank_disk: BlankDisk
) -> None:
    device = blank_disk("SATAHDD")
    hardware.partition(device, 3)
    first, second, third = (hardware.part(device, number) for number in (1, 2, 3))
    with (
        uses.mounted(first),
        uses.encryption(second),
        node.linked("zero", "first", first),
        node.linked("zero", "second", second),
        node.linked("zero", "third", third),
    ):
        node.refused("zero", "first", "Mounted")
        node.refused("zero", "second", "Held")
        node.volume("zero", "third")


@pytest.mark.parametrize("use", [uses.logical_volume, uses.raid_array])
def test_what_is_made_of_disks_is_offered_and_cleaned_and_the_disk_below_is_not_touched(
    node: Node, blank_disk: BlankDisk, use: Callable[..., object]
) -> None:
    device = blank_disk("SCSITWO")
    with use(device) as above, node.linked("zero", "above", above):  # type: ignore[attr-defined]
        volume = node.volume("zero", "above")
        identity = node.find("zero", "above")["status"]["identity"]
        assert any(name.startswith(("dm-uuid-", "md-uuid-")) for name in identity["byID"])
        hardware.fill(above)
        node.release(volume)
        node.comes_back("zero", "above", volume)
        assert hardware.is_zero(above)
        # Its own record of what it is made of is still there, or it would not be stopped in good order.
        assert hardware.run("wipefs", device) != ""


@pytest.mark.seed("DEL-4")
@pytest.mark.parametrize(
    ("use", "state", "reason"),
    [
        (uses.logical_volume, "Waiting", "InUse"),
        (uses.raid_array, "Waiting", "InUse"),
        (uses.swap, "Waiting", "InUse"),
        (uses.mounted_partition, "Waiting", "InUse"),
        (uses.read_only, "Failed", "NotSupported"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_released_disk_that_others_came_to_use_is_cleaned_only_when_they_have_let_go(
    node: Node, blank_disk: BlankDisk, use: Use, state: str, reason: str
) -> None:
    device = blank_disk("SCSISSD")
    with node.linked("zero", "taken", device):
        volume = node.volume("zero", "taken")
        node.bind(volume)
        hardware.fill(device)
        with use(device):
            node.release(volume)
            node.cleaning("zero", "taken", state, reason)
            assert node.volume_is(volume)["status"]["phase"] == "Released"
            assert hardware.old_mib(device) > 8
        node.comes_back("zero", "taken", volume)
        assert hardware.is_zero(device)
