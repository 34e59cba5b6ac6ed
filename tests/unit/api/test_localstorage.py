"""The definitions of LocalStorage and LocalStorageNode: what our own structs write fits what the server takes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from localpv.api import crds, jsonpath
from localpv.api.crds import localstoragenodes, localstorages
from localpv.api.kinds import localstorage
from localpv.api.kinds.localstorage import LocalStorage, LocalStorageNode
from localpv.api.kinds.meta import Kind, ObjectMeta
from localpv.api.kinds.pods import Toleration
from localpv.api.schema import structural, walk
from localpv.api.schema.node import check_values
from localpv.client.codec import TypedCodec
from localpv.engine.apiserver.kinds import crd_checks

DEVICES = localstorage.DeviceGroup(
    storage_class_name="fast",
    volume_mode="Filesystem",
    device_names=("sd[b-z]",),
    udev_rules=('KERNEL!="sda", ATTR{queue/rotational}=="0"',),
    exclude_device_names=("sdc",),
    fs_type="xfs",
    block_cleaner_command=("shred", "2"),
    min_size="1Gi",
    max_size="1.5Ti",
    medium_types=("SSD",),
    vendors=("ATA",),
    models=("Q*",),
    max_device_count=2,
    allow_network_disks=True,
)
STORAGE = LocalStorage(
    metadata=ObjectMeta(name="local", namespace="localpv-system", creation_timestamp="2030-01-01T00:00:00Z"),
    spec=localstorage.LocalStorageSpec(
        storage_classes=("more",),
        nodes=(
            localstorage.NodeGroup(
                node_selector={"a": "b"}, tolerations=(Toleration(key="a", operator="Exists"),), devices=(DEVICES,)
            ),
        ),
    ),
    status=localstorage.LocalStorageStatus(
        observed_generation=1,
        conditions=(localstorage.StorageCondition(type="Accepted", status="True", reason="Sound", message="x"),),
        node_count=1,
        current_nodes=1,
        matched_devices=2,
        published_devices=1,
        nodes=(localstorage.NodeSummary(name="a", generation=1, matched=2, published=1, message="x"),),
    ),
)
NODE = LocalStorageNode(
    metadata=ObjectMeta(name="local.a", namespace="localpv-system", creation_timestamp="2030-01-01T00:00:00Z"),
    spec=localstorage.LocalStorageNodeSpec(node_name="a", local_storage_name="local", local_storage_uid="u"),
    status=localstorage.LocalStorageNodeStatus(
        generation=1,
        matched=1,
        devices=(
            localstorage.MatchedDevice(
                device="sdb", link="/dev/x", storage_class_name="fast", volume_mode="Block", rule="nodes[0]"
            ),
            localstorage.MatchedDevice(device="sdc", reason="NoRuleMatches", message="no rule matches the device"),
        ),
        error="x",
        observed_at="2030-01-01T00:00:00Z",
    ),
)
WHOLE: dict[str, tuple[Kind, Any]] = {
    "localstorages": (STORAGE, localstorages),
    "localstoragenodes": (NODE, localstoragenodes),
}


@pytest.mark.parametrize("name", WHOLE)
def test_definition_is_sound_and_the_file_is_what_the_structs_say(name: str) -> None:
    definition = crds.load(name)
    assert definition == WHOLE[name][1].definition()
    assert not crd_checks.wrong_name(definition)
    assert not crd_checks.wrong_spec(definition["spec"] | {"conversion": {"strategy": "None"}})


@pytest.mark.parametrize("name", WHOLE)
def test_whole_object_fits_the_schema_and_is_read_back_as_it_was(name: str) -> None:
    whole, module = WHOLE[name]
    codec: Any = TypedCodec(type(whole))
    sent = json.loads(codec.write(whole))
    [version] = crds.load(name)["spec"]["versions"]
    node = structural.build(version["schema"]["openAPIV3Schema"])
    taken = walk.take_in(sent, node)
    assert not taken.type_errors and not taken.unknown
    assert not check_values(sent, node)
    assert codec.read(codec.write(whole)) == whole
    assert [
        column["name"] for column in module.COLUMNS if jsonpath.compile(column["jsonPath"]).first(sent) is None
    ] == []
