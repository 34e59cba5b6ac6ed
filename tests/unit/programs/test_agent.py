"""Which records an agent judges though it does not know their class."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpv.agent.udev.headers import Headers
from localpv.api.kinds.localdisk import LocalDisk, LocalDiskSpec
from localpv.api.kinds.meta import ObjectMeta
from localpv.programs import agent


def a_disk(path: str) -> LocalDisk:
    spec = LocalDiskSpec(node_name="n", storage_class_name="fast", entry="a", path=path, volume_mode="Block")
    return LocalDisk(metadata=ObjectMeta(name="disk"), spec=spec)


LINKED = a_disk("/dev/disk/kubernetes-local-storage/fast/block/a")
OWN = a_disk("/mnt/fast/a")


async def test_agent_that_does_not_see_the_rules_leaves_disks_of_local_storages_alone(tmp_path: Path) -> None:
    headers = Headers(tmp_path / "rules.d")
    ours = agent.of_main_agent(headers)
    assert (ours(LINKED), ours(OWN)) == (False, True)  # nothing was read yet

    await headers.classes()
    assert (ours(LINKED), ours(OWN)) == (False, True)

    (tmp_path / "rules.d").mkdir()
    await headers.classes()
    assert (ours(LINKED), ours(OWN)) == (True, True)  # the LocalStorage is gone, and its rules with it

    (tmp_path / "rules.d").rmdir()
    await headers.classes()
    assert (ours(LINKED), ours(OWN)) == (False, True)


@pytest.mark.parametrize(("disk", "ours"), [(LINKED, True), (OWN, False)])
def test_agent_without_a_config_map_judges_disks_of_local_storages_alone(disk: LocalDisk, ours: bool) -> None:
    assert agent.of_local_storage(disk) is ours
