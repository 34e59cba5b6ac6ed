"""The PersistentVolume that offers a disk, and the disks that none is made for."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from tests.unit.engine.apiserver.kinds import steps

from localpv.api.kinds.cluster import Node
from localpv.api.kinds.localdisk import DiskIdentity, DiskKind, LocalDisk, LocalDiskSpec, LocalDiskStatus
from localpv.api.kinds.meta import ObjectMeta
from localpv.api.kinds.volumes import StorageClass
from localpv.api.objects import Object
from localpv.config.globs import NamePattern
from localpv.config.settings import ClassSettings, Configuration, Folder, Reclaim
from localpv.disk import labels
from localpv.engine.apiserver.kinds.base import Gates
from localpv.engine.apiserver.kinds.persistentvolume import PersistentVolume
from localpv.manager.publish import names, persistent_volume

UID = "0f2c1a34-5b6d-4e7f-8091-a2b3c4d5e6f7"
NODE = Node(
    metadata=ObjectMeta(name="node-1", uid=UID, labels={"kubernetes.io/hostname": "host-1", "zone": "z1", "rack": "r1"})
)
CLASS = StorageClass(metadata=ObjectMeta(name="fast"), provisioner="kubernetes.io/no-provisioner")
SETTINGS = ClassSettings(name="fast", host_dir="/mnt/fast", mount_dir="/mnt/fast", name_pattern=NamePattern("*"))
ON_HOST = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["host-1"]}]}


def a_disk(*, kind: str = DiskKind.MOUNT_POINT, capacity_bytes: int = 100 << 30, **spec: Any) -> LocalDisk:
    whole = LocalDiskSpec(
        **{
            "node_name": "node-1",
            "storage_class_name": "fast",
            "entry": "vol1",
            "path": "/mnt/fast/vol1",
            "volume_mode": "Filesystem",
        }
        | spec
    )
    status = LocalDiskStatus(
        kind=kind, capacity_bytes=capacity_bytes, eligible=True, identity=DiskIdentity(serial="S1", by_id=("a", "b"))
    )
    return LocalDisk(metadata=ObjectMeta(name="node-1-vol1-0a1b2c3d"), spec=whole, status=status)


def built(
    disk: LocalDisk | None = None,
    settings: ClassSettings = SETTINGS,
    *,
    storage_class: StorageClass = CLASS,
    node: Node = NODE,
    name: str = "",
    **configuration: Any,
) -> Object:
    made = persistent_volume.build(
        disk or a_disk(),
        settings,
        storage_class=storage_class,
        node=node,
        configuration=Configuration(**configuration),
        name=name,
    )
    assert not isinstance(made, persistent_volume.Refused), made
    return made


def with_settings(**changes: Any) -> ClassSettings:
    fields = {"name": "fast", "host_dir": "/mnt/fast", "mount_dir": "/mnt/fast"}
    return ClassSettings(**(fields | changes))


@pytest.mark.seed("DSC-5", "DSC-6", "DSC-10", "DSC-11")
def test_volume_says_what_the_classic_provisioner_says() -> None:
    made = built()
    assert made["metadata"]["name"] == names.volume_name("vol1", "node-1", "fast")
    assert (
        made["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] == f"local-volume-provisioner-node-1-{UID}"
    )
    assert made["spec"] == {
        "capacity": {"storage": "100Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": "fast",
        "volumeMode": "Filesystem",
        "local": {"path": "/mnt/fast/vol1"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [ON_HOST]}},
    }


@pytest.mark.seed("CFG-1")
def test_path_is_based_on_the_directory_of_the_host() -> None:
    made = built(settings=with_settings(mount_dir="/inside/the/container"))
    assert made["spec"]["local"]["path"] == "/mnt/fast/vol1"


@pytest.mark.seed("OPR-10")
def test_class_with_two_directories_offers_both_modes_under_the_usual_names() -> None:
    both = with_settings(
        volume_mode="Block", more_folders=(Folder(host_dir="/mnt/more", mount_dir="/seen", volume_mode="Filesystem"),)
    )
    raw = built(a_disk(volume_mode="Block", kind=DiskKind.BLOCK_DEVICE), both)
    formatted = built(a_disk(path="/mnt/more/vol1"), both)

    assert (raw["spec"]["local"]["path"], raw["spec"]["volumeMode"]) == ("/mnt/fast/vol1", "Block")
    assert (formatted["spec"]["local"]["path"], formatted["spec"]["volumeMode"]) == ("/mnt/more/vol1", "Filesystem")
    assert raw["metadata"]["name"] == formatted["metadata"]["name"] == names.volume_name("vol1", "node-1", "fast")
    refused = persistent_volume.build(
        a_disk(path="/seen/vol1"), both, storage_class=CLASS, node=NODE, configuration=Configuration()
    )
    assert isinstance(refused, persistent_volume.Refused)
    assert refused.reason == "PathOutsideClass"


def test_volume_carries_its_disk_and_its_identity() -> None:
    annotations = built()["metadata"]["annotations"]
    assert annotations["localpv.dev/disk"] == "node-1-vol1-0a1b2c3d"
    assert json.loads(annotations["localpv.dev/identity"]) == {"serial": "S1", "byID": ["a", "b"]}


def test_class_decides_on_mount_options_and_reclaim_policy() -> None:
    storage_class = msgspec.structs.replace(CLASS, mount_options=("noatime",), reclaim_policy="Retain")
    spec = built(storage_class=storage_class)["spec"]
    assert (spec["mountOptions"], spec["persistentVolumeReclaimPolicy"]) == (["noatime"], "Retain")


def test_configured_reclaim_goes_before_that_of_the_class() -> None:
    storage_class = msgspec.structs.replace(CLASS, reclaim_policy="Delete")
    made = built(settings=with_settings(reclaim=Reclaim.RETAIN), storage_class=storage_class)
    assert made["spec"]["persistentVolumeReclaimPolicy"] == "Retain"


def test_recycled_volume_is_left_alone_by_kubernetes() -> None:
    made = built(settings=with_settings(reclaim=Reclaim.RECYCLE))
    assert made["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
    assert made["metadata"]["annotations"]["localpv.dev/reclaim"] == "Recycle"


def test_labels_come_from_node_then_configuration_and_ours_stays() -> None:
    made = built(
        node_labels_for_pv=("zone", "rack", "absent"),
        labels_for_pv={"rack": "mine", "localpv.dev/node": "forged"},
    )
    assert made["metadata"]["labels"] == {"zone": "z1", "rack": "mine", "localpv.dev/node": "node-1"}


def test_node_owns_its_volumes_when_asked_for() -> None:
    assert "ownerReferences" not in built()["metadata"]
    [owner] = built(set_pv_owner_ref=True)["metadata"]["ownerReferences"]
    assert owner == {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": UID}


def test_provisioner_is_named_by_node_alone_when_asked_for() -> None:
    annotations = built(use_node_name_only=True)["metadata"]["annotations"]
    assert annotations["pv.kubernetes.io/provisioned-by"] == "local-volume-provisioner-node-1"


def test_other_nodes_that_can_use_the_volume_are_alternatives() -> None:
    term = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}
    made = built(settings=with_settings(selector=(term,)))
    assert made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] == [ON_HOST, term]


def test_alpha_api_has_the_affinity_in_an_annotation() -> None:
    made = built(use_alpha_api=True)
    assert "nodeAffinity" not in made["spec"]
    affinity = json.loads(made["metadata"]["annotations"]["volume.alpha.kubernetes.io/node-affinity"])
    assert affinity == {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [ON_HOST]}}


def test_file_system_type_is_for_volumes_that_have_one() -> None:
    settings = with_settings(fs_type="xfs", volume_mode="Block")
    device = a_disk(kind=DiskKind.BLOCK_DEVICE)
    assert built(device, settings)["spec"]["local"]["fsType"] == "xfs"
    raw = a_disk(kind=DiskKind.BLOCK_DEVICE, volume_mode="Block")
    assert built(raw, settings)["spec"]["local"] == {"path": "/mnt/fast/vol1"}
    assert built(raw, settings)["spec"]["volumeMode"] == "Block"


def test_volume_gets_the_name_that_is_given() -> None:
    assert built(name="local-pv-0123456789abcdef")["metadata"]["name"] == "local-pv-0123456789abcdef"


@pytest.mark.parametrize(
    ("disk", "reason"),
    [
        (a_disk(node_name="node-2"), "WrongNodeOrClass"),
        (a_disk(storage_class_name="slow"), "WrongNodeOrClass"),
        (a_disk(path="/etc"), "PathOutsideClass"),
        (a_disk(path="/mnt/fast2/vol1"), "PathOutsideClass"),
        (a_disk(entry="..", path="/mnt/fast/.."), "PathOutsideClass"),
        (a_disk(entry="a/b", path="/mnt/fast/a/b"), "PathOutsideClass"),
        (a_disk(capacity_bytes=0), "NoCapacity"),
        (a_disk(volume_mode="Block"), "NotABlockDevice"),
    ],
)
def test_disk_that_its_agent_describes_wrongly_is_not_offered(disk: LocalDisk, reason: str) -> None:
    made = persistent_volume.build(disk, SETTINGS, storage_class=CLASS, node=NODE, configuration=Configuration())
    assert isinstance(made, persistent_volume.Refused)
    assert made.reason == reason


def test_node_without_a_host_name_offers_nothing() -> None:
    node = Node(metadata=ObjectMeta(name="node-1", uid=UID))
    made = persistent_volume.build(a_disk(), SETTINGS, storage_class=CLASS, node=node, configuration=Configuration())
    assert isinstance(made, persistent_volume.Refused) and made.reason == "NodeWithoutHostname"


def test_class_with_an_unknown_policy_offers_nothing() -> None:
    storage_class = msgspec.structs.replace(CLASS, reclaim_policy="Shred")
    made = persistent_volume.build(
        a_disk(), SETTINGS, storage_class=storage_class, node=NODE, configuration=Configuration()
    )
    assert isinstance(made, persistent_volume.Refused) and made.reason == "UnknownReclaimPolicy"


@pytest.mark.parametrize(
    "configuration",
    [{}, {"set_pv_owner_ref": True, "labels_for_pv": {"a": "b"}, "node_labels_for_pv": ("zone",)}],
)
@pytest.mark.parametrize("mode", ["Filesystem", "Block"])
def test_volumes_are_such_as_an_api_server_accepts(configuration: dict[str, Any], mode: str) -> None:
    disk = a_disk(kind=DiskKind.BLOCK_DEVICE, volume_mode=mode)
    storage_class = msgspec.structs.replace(CLASS, mount_options=("noatime",))
    made = built(
        disk, with_settings(fs_type="xfs", reclaim=Reclaim.RECYCLE), storage_class=storage_class, **configuration
    )
    _, wrong = steps.created(PersistentVolume(gates=Gates()), "core.v1.PersistentVolume", made)
    assert wrong == []


@pytest.mark.parametrize(
    ("disk", "reason"),
    [
        (a_disk(node_name="node-2"), "WrongNodeOrClass"),
        (a_disk(storage_class_name="slow"), "WrongNodeOrClass"),
        (a_disk(capacity_bytes=0), "NoCapacity"),
        (a_disk(capacity_bytes=-1), "NoCapacity"),
        (a_disk(capacity_bytes=1), ""),
    ],
)
def test_disk_of_another_node_or_class_or_without_a_size_gets_no_volume(disk: LocalDisk, reason: str) -> None:
    made = persistent_volume.build(disk, SETTINGS, storage_class=CLASS, node=NODE, configuration=Configuration())
    assert (made.reason if isinstance(made, persistent_volume.Refused) else "") == reason


def test_volume_of_a_disk_without_an_identity_names_none() -> None:
    disk = a_disk()
    disk = msgspec.structs.replace(disk, status=msgspec.structs.replace(disk.status, identity=None))
    assert labels.IDENTITY not in built(disk)["metadata"]["annotations"]
