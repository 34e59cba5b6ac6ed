"""CSIDriver, CSINode, CSIStorageCapacity and VolumeAttachment."""

from __future__ import annotations

import pytest
from tests.unit.engine.apiserver.kinds import steps
from tests.unit.engine.apiserver.kinds.steps import causes, with_name

from localpv.api.objects import Object
from localpv.engine.apiserver.kinds.csi import CSIDriver, CSINode, CSIStorageCapacity, VolumeAttachment

ATTACH = {"attacher": "a.example.com", "nodeName": "node-1", "source": {"persistentVolumeName": "volume-1"}}


def test_driver_is_filled_in() -> None:
    driver, errors = steps.created(CSIDriver(), "storage.v1.CSIDriver", with_name({}))

    assert errors == []
    assert driver["spec"] == {
        "attachRequired": True,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "podInfoOnMount": False,
        "requiresRepublish": False,
        "seLinuxMount": False,
        "storageCapacity": False,
        "volumeLifecycleModes": ["Persistent"],
    }


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"fsGroupPolicy": "Sometimes"}, [("spec.fsGroupPolicy", "NotSupported")]),
        ({"volumeLifecycleModes": ["Eternal"]}, [("spec.volumeLifecycleModes", "NotSupported")]),
        ({"tokenRequests": [{"audience": "a"}, {"audience": "a"}]}, [("spec.tokenRequests[1].audience", "Duplicate")]),
        ({"tokenRequests": [{"expirationSeconds": 5}]}, [("spec.tokenRequests[0].expirationSeconds", "Invalid")]),
        ({"nodeAllocatableUpdatePeriodSeconds": 9}, [("spec.nodeAllocatableUpdatePeriodSeconds", "Invalid")]),
        ({"serviceAccountTokenInSecrets": True}, [("spec.serviceAccountTokenInSecrets", "Invalid")]),
    ],
)
def test_wrong_driver_is_refused(spec: Object, expected: list[tuple[str, str]]) -> None:
    assert causes(steps.created(CSIDriver(), "storage.v1.CSIDriver", with_name(spec))[1]) == expected


def test_driver_keeps_whether_it_attaches_and_its_modes() -> None:
    old, _ = steps.created(CSIDriver(), "storage.v1.CSIDriver", with_name({}))

    _, errors = steps.updated(
        CSIDriver(), old, {"spec": {"attachRequired": False, "volumeLifecycleModes": ["Ephemeral"]}}
    )
    assert causes(errors) == [("spec.attachedRequired", "Invalid"), ("spec.volumeLifecycleModes", "Invalid")]
    assert steps.updated(CSIDriver(), old, {"spec": {"storageCapacity": True}})[1] == []


def test_node_says_which_drivers_it_has() -> None:
    drivers = [{"name": "a.example.com", "nodeID": "n", "topologyKeys": ["zone"]}]
    old, errors = steps.created(CSINode(), "storage.v1.CSINode", with_name({"drivers": drivers}))
    assert errors == []

    grown = [drivers[0] | {"allocatable": {"count": 5}}, {"name": "b.example.com", "nodeID": "n"}]
    assert steps.updated(CSINode(), old, {"spec": {"drivers": grown}})[1] == []

    moved = [drivers[0] | {"nodeID": "other"}]
    assert causes(steps.updated(CSINode(), old, {"spec": {"drivers": moved}})[1]) == [("spec.drivers", "Invalid")]


def test_node_with_a_nameless_driver_is_refused() -> None:
    _, errors = steps.created(CSINode(), "storage.v1.CSINode", with_name({"drivers": [{"allocatable": {"count": -1}}]}))

    assert causes(errors) == [
        ("spec.drivers[0].name", "Required"),
        ("spec.drivers[0].nodeID", "Required"),
        ("spec.drivers[0].allocatable.count", "Invalid"),
    ]


def test_capacity_belongs_to_one_class_and_one_part_of_the_cluster() -> None:
    room = {"metadata": {"name": "a"}, "storageClassName": "fast", "nodeTopology": {"matchLabels": {"zone": "a"}}}
    old, errors = steps.created(CSIStorageCapacity(), "storage.v1.CSIStorageCapacity", room)
    assert errors == []

    assert steps.updated(CSIStorageCapacity(), old, {"capacity": "5Gi"})[1] == []
    assert causes(steps.updated(CSIStorageCapacity(), old, {"capacity": "-5Gi"})[1]) == [("capacity", "Invalid")]
    _, errors = steps.updated(CSIStorageCapacity(), old, {"storageClassName": "slow", "nodeTopology": None})
    assert causes(errors) == [("nodeTopology", "Invalid"), ("storageClassName", "Invalid")]


def test_attachment_starts_out_not_attached_whatever_its_maker_says() -> None:
    new, errors = steps.created(
        VolumeAttachment(), "storage.v1.VolumeAttachment", with_name(ATTACH, status={"attached": True})
    )

    assert errors == []
    assert new["status"] == {"attached": False}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"source": {}}, [("spec.source", "Required")]),
        ({"attacher": ""}, [("spec.attacher", "Required")]),
        ({"nodeName": "A_"}, [("spec.nodeName", "Invalid")]),
        ({"source": {"persistentVolumeName": "a", "inlineVolumeSpec": {}}}, [("spec.source", "Forbidden")]),
        ({"source": {"inlineVolumeSpec": {"accessModes": ["ReadWriteOnce"],
                                          "csi": {"driver": "a.example.com", "volumeHandle": "v"}}}}, []),
        ({"source": {"inlineVolumeSpec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
                                          "csi": {"driver": "a.example.com", "volumeHandle": "v"}}}},
         [("spec.source.inlineVolumeSpec.capacity", "Forbidden")]),
    ],
)  # fmt: skip
def test_attachment_names_one_volume(change: Object, expected: list[tuple[str, str]]) -> None:
    new = with_name(ATTACH | change)

    assert causes(steps.created(VolumeAttachment(), "storage.v1.VolumeAttachment", new)[1]) == expected


def test_attachment_changes_its_status_only() -> None:
    old, _ = steps.created(VolumeAttachment(), "storage.v1.VolumeAttachment", with_name(ATTACH))

    assert causes(steps.updated(VolumeAttachment(), old, {"spec": {"nodeName": "node-2"}})[1]) == [("spec", "Invalid")]
    new, errors = steps.reported(VolumeAttachment(), old, {"attached": True})
    assert (new["status"], errors) == ({"attached": True}, [])
    _, errors = steps.reported(VolumeAttachment(), old, {"attachError": {"message": "x" * 1025}})
    assert causes(errors) == [("status.attachError.message", "TooLong")]
