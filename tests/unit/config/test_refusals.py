"""Every refusal that docs/operator.md shows is one of the code, word by word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from localpv.api.kinds.localstorage import LocalStorage
from localpv.config import local_storage, udev_match

PAGE = Path(__file__).parents[3] / "docs" / "operator.md"


def group(**more: Any) -> dict[str, Any]:
    return {"storageClassName": "local", "deviceNames": ["sdb"], **more}


def nodes(*groups: dict[str, Any], **more: Any) -> list[Any]:
    return [{"devices": list(groups), **more}]


LONG = 'KERNEL!="' + "y" * 1014 + '"'
REFUSED: list[list[Any]] = [
    [],
    nodes(*[group(deviceNames=["sdb"] * 64)] * 8, group()),
    nodes(*[group(udevRules=[LONG] * 40)] * 2),
    nodes(group(), nodeName="a", nodeSelector={"a": "b"}),
    nodes(group(), nodeSelector={"a": True}),
    nodes(),
    nodes({"storageClassName": "local"}),
    nodes(group(volumeMode="block")),
    nodes(group(deviceNames=["/dev/sdb"])),
    nodes(group(deviceNames=["sd[b-z"])),
    nodes(group(udevRules=['KERNEL="sdb"'])),
    nodes(group(udevRules=['RUN+="x"'])),
    nodes(group(udevRules=['KERNEL=="a"\nKERNEL=="b"'])),
    nodes(group(udevRules=['KERNEL=="$x"'])),
    nodes(group(udevRules=['ATTR{../x}=="1"'])),
    nodes(group(udevRules=['ENV{KUBERNETES_X}=="1"'])),
    nodes(group(fsType="zfs")),
    nodes(group(fsType="xfs", volumeMode="Block")),
    nodes(group(fsType="xfs"), group(fsType="ext4")),
    nodes(group(blockCleanerCommand=["/bin/sh"])),
    nodes(group(minSize="2Gi", maxSize="1Gi")),
    nodes(group(mediumTypes=["tape"])),
    nodes(group(maxDeviceCount=-1)),
]


def told(given: list[Any]) -> set[str]:
    storage = msgspec.convert(
        {"metadata": {"name": "local", "namespace": "localpv-system"}, "spec": {"nodes": given}}, LocalStorage
    )
    return {f"| `{each.place}` | {each.message} |" for each in local_storage.problems(storage)}


@pytest.mark.seed("OPR-2", "OPR-3", "OPR-15")
def test_the_page_shows_the_refusals_of_the_code() -> None:
    _, _, rest = PAGE.read_text().partition("<!-- refusals:")
    shown = [line for line in rest.partition("<!-- end refusals -->")[0].splitlines() if line.startswith("| `spec.")]
    made = set().union(*map(told, REFUSED))
    assert [line for line in shown if line not in made] == []
    assert sorted(made - set(shown)) == []


def test_the_page_names_every_field_and_every_match_key() -> None:
    page = PAGE.read_text()
    fields = [each.encode_name for each in msgspec.structs.fields(local_storage.DeviceGroup)]
    fields += [each.encode_name for each in msgspec.structs.fields(local_storage.NodeGroup)]
    assert [field for field in fields if field not in page] == []
    assert [key for key in udev_match.KEYS if f"`{key}`" not in page and f"`{key}{{…}}`" not in page] == []
