"""A disk is found by any of its names, and never guessed."""

from __future__ import annotations

import pytest
from tests.unit.cli import builders

from localpv import errors
from localpv.cli import disks

A1, A2 = builders.disk("nvme1"), builders.disk("nvme20", spec={"volume": {"name": "local-pv-2"}})
B1 = builders.disk("nvme1", "node-b", spec={"volume": {"name": "local-pv-3"}})
DISKS = (A1, A2, B1)


@pytest.mark.parametrize(
    "word",
    [
        "node-a-nvme20-00000001",
        "nvme20",
        "node-a/nvme20",
        "/mnt/fast/nvme20",
        "local-pv-2",
        "SN-node-a-nvme20",
        "nvme-node-a-nvme20",
        "/dev/disk/by-id/nvme-node-a-nvme20",
        "nvme2",
        "node-a-nvme2",
    ],
)
def test_every_name_and_every_beginning_of_only_one_leads_to_the_disk(word: str) -> None:
    assert disks.named(word, DISKS) is A2


def test_a_name_of_several_disks_is_refused_with_all_of_them() -> None:
    with pytest.raises(errors.ConfigurationError, match="of 2") as refused:
        disks.named("nvme1", DISKS)
    assert "node-a/nvme1, node-b/nvme1" in refused.value.hint


def test_disks_that_node_and_entry_do_not_tell_apart_are_named_in_full() -> None:
    other = builders.disk("nvme1", spec={"storageClassName": "slow"})
    with pytest.raises(errors.ConfigurationError) as refused:
        disks.named("nvme1", [A1, other])
    assert "node-a-nvme1-00000001" in refused.value.hint


def test_a_full_name_wins_over_longer_names_that_begin_with_it() -> None:
    longer = builders.disk("nvme1x", spec={"volume": None})
    assert disks.named("node-a/nvme1", [A1, longer]) is A1


def test_a_device_is_looked_for_on_its_own_node_only() -> None:
    assert disks.named("/dev/nvme0n1", [A1, B1], device=("node-b", "259:1")) is B1
    with pytest.raises(errors.ConfigurationError, match="there is no disk /dev/nvme0n1"):
        disks.named("/dev/nvme0n1", [A1, B1], device=("node-c", "259:1"))


def test_an_empty_word_names_nothing() -> None:
    with pytest.raises(errors.ConfigurationError, match="there is no disk"):
        disks.named("", [A1])


def test_what_is_no_block_device_of_this_machine_has_no_number() -> None:
    assert disks.local_device("/dev/null") is None
    assert disks.local_device("/nowhere/at/all") is None
    assert disks.local_device("nvme1") is None
