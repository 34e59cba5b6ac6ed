"""LocalVolume and LocalVolumeSet become LocalStorages that mean the same devices."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from localpv.api.kinds.localstorage import LocalStorage
from localpv.api.translate import manifests
from localpv.config import local_storage

FORCE = "forceWipeDevicesAndDestroyAllData"
SELECTOR = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "storage", "operator": "Exists"}]}]}


def local_volume(*devices: Any, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "local.storage.openshift.io/v1",
        "kind": "LocalVolume",
        "metadata": {"name": "disks", "namespace": "openshift-local-storage", "uid": "u", "finalizers": ["x"]},
        "spec": {"storageClassDevices": list(devices), **spec},
        "status": {"readyReplicas": 1},
    }


def local_volume_set(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "local.storage.openshift.com/v1alpha1",
        "kind": "LocalVolumeSet",
        "metadata": {"name": "set"},
        "spec": {"storageClassName": "sets", **spec},
    }


def translated(given: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The LocalStorage, which has nothing wrong with it, and what could not be done."""
    done = manifests.translate(given)
    storage = msgspec.convert(
        {**done.obj, "metadata": {**done.obj["metadata"], "namespace": "localpv-system"}}, LocalStorage
    )
    assert local_storage.problems(storage) == ()
    return done.obj, [note.message for _, note in done.notes if not note.done]


@pytest.mark.seed("OPR-3")
def test_a_local_volume_becomes_a_local_storage() -> None:
    made, left = translated(
        local_volume(
            {
                "storageClassName": "fast",
                "volumeMode": "Filesystem",
                "fsType": "xfs",
                "devicePaths": ["/dev/sdb", "/dev/disk/by-id/ata-X_1", "/dev/mapper/mpatha", "/dev/vg/lv"],
            },
            {"storageClassName": "raw", "volumeMode": "Block", "devicePaths": ["/dev/nvme0n1"]},
            nodeSelector=SELECTOR,
            tolerations=[{"key": "a", "operator": "Exists", "tolerationSeconds": 5}],
            logLevel="Normal",
            managementState="Managed",
        )
    )
    assert made == {
        "apiVersion": "local.storage.openshift.com/v1alpha1",
        "kind": "LocalStorage",
        "metadata": {"name": "disks"},
        "spec": {
            "nodes": [
                {
                    "nodeSelector": SELECTOR,
                    "tolerations": [{"key": "a", "operator": "Exists"}],
                    "devices": [
                        {
                            "storageClassName": "fast",
                            "volumeMode": "Filesystem",
                            "fsType": "xfs",
                            "deviceNames": ["sdb"],
                            "udevRules": [
                                'SYMLINK=="disk/by-id/ata-X_1"',
                                'KERNEL=="dm-*", SYMLINK=="mapper/mpatha"',
                                'KERNEL=="dm-*", SYMLINK=="vg/lv"',
                            ],
                        },
                        {"storageClassName": "raw", "volumeMode": "Block", "deviceNames": ["nvme0n1"]},
                    ],
                }
            ]
        },
    }
    assert left == []


@pytest.mark.seed("OPR-3")
def test_a_local_volume_set_becomes_a_local_storage() -> None:
    made, left = translated(
        local_volume_set(
            maxDeviceCount=3,
            deviceInclusionSpec={
                "deviceTypes": ["disk", "part", "loop", "mpath"],
                "deviceMechanicalProperties": ["NonRotational"],
                "maxSize": "1Ti",
                "vendors": ["ata"],
                "models": ["QM 1"],
            },
            deviceExclusionSpec={"deviceNameFilter": ["sda*"]},
        )
    )
    assert made["spec"] == {
        "nodes": [
            {
                "devices": [
                    {
                        "storageClassName": "sets",
                        "volumeMode": "Block",
                        "udevRules": [
                            'ENV{DEVTYPE}=="disk"',
                            'ENV{DEVTYPE}=="partition"',
                            'KERNEL=="dm-*", ENV{DM_UUID}=="mpath-*"',
                        ],
                        "deviceNames": ["loop*"],
                        "mediumTypes": ["SSD", "NVMe"],
                        "minSize": "1Gi",
                        "maxSize": "1Ti",
                        "models": ["*[Qq][Mm]_1*"],
                        "vendors": ["*[Aa][Tt][Aa]*"],
                        "excludeDeviceNames": ["sda*"],
                        "maxDeviceCount": 3,
                    }
                ]
            }
        ]
    }
    assert left == []


def test_a_set_that_says_little_means_whole_disks_of_a_gibibyte() -> None:
    made, _ = translated(
        local_volume_set(deviceInclusionSpec={"deviceMechanicalProperties": ["Rotational", "NonRotational"]})
    )
    [group] = made["spec"]["nodes"][0]["devices"]
    assert group == {
        "storageClassName": "sets", "volumeMode": "Block", "udevRules": ['ENV{DEVTYPE}=="disk"'], "minSize": "1Gi"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (local_volume({"storageClassName": "a", "devicePaths": ["/dev/sdb", "/dev/sd*"]}), "device path /dev/sd*"),
        (local_volume({"storageClassName": "a", "devicePaths": ["/dev/sdb", '/dev/x", RUN+="y']}), "RUN"),
        (local_volume({"storageClassName": "a", "devicePaths": ["/dev/sdb"], "fsType": "zfs"}), "fsType zfs"),
        (
            local_volume(
                {"storageClassName": "a", "devicePaths": ["/dev/b"], "forceWipeDevicesAndDestroyAllData": True}
            ),
            FORCE,
        ),
        (local_volume({"storageClassName": "a", "devicePaths": ["/dev/b"]}, managementState="Removed"), "Removed"),
        (local_volume_set(deviceInclusionSpec={"deviceTypes": ["disk", "raid5"]}), "device type raid5"),
    ],
)
def test_what_cannot_be_said_is_named(given: dict[str, Any], word: str) -> None:
    made, left = translated(given)
    assert made["kind"] == "LocalStorage"
    assert len(left) == 1 and word in left[0]


@pytest.mark.parametrize(
    "given",
    [
        local_volume({"storageClassName": "a", "devicePaths": ["../etc/shadow"]}),
        local_volume(),
        local_volume_set(deviceInclusionSpec={"deviceTypes": ["raid5"]}),
        local_volume_set(deviceInclusionSpec={"models": ["x" * 40]}),
        local_volume_set(deviceExclusionSpec={"deviceNameFilter": ["/dev/sda"]}),
        {**local_volume(), "kind": "LocalVolumeDiscovery"},
        {**local_volume(), "spec": None},
    ],
)
def test_what_would_mean_other_devices_stays_as_it_is(given: dict[str, Any]) -> None:
    done = manifests.translate(given)
    assert not done.changed and done.obj == given
    assert any(not note.done for _, note in done.notes)


def test_objects_of_others_with_the_same_kind_are_left_alone() -> None:
    other = {**local_volume({"storageClassName": "a", "devicePaths": ["/dev/sdb"]}), "apiVersion": "example.com/v1"}
    assert not manifests.translate(other).changed
