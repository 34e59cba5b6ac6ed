"""PersistentVolumes: what they default to, what is refused, and what stays as it was."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from tests.unit.engine.apiserver.kinds import steps
from tests.unit.engine.apiserver.kinds.steps import causes

from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds.base import Gates
from localpv.engine.apiserver.kinds.persistentvolume import PersistentVolume

ANNOTATION = "volume.alpha.kubernetes.io/node-affinity"
ON_NODE_1 = {
    "nodeSelectorTerms": [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}]}
    ]
}

volumes = PersistentVolume(gates=Gates())


def a_volume(*, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    """A good local volume; a field given as None is left out."""
    whole = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "local": {"path": "/mnt/disks/a"},
        "nodeAffinity": {"required": copy.deepcopy(ON_NODE_1)},
        **spec,
    }
    metadata: Object = {"name": "volume-1"}
    if annotations:
        metadata["annotations"] = annotations
    spec = {key: value for key, value in whole.items() if value is not None}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}


def created(volume: Object, strategy: PersistentVolume = volumes) -> tuple[Object, FieldErrors]:
    return steps.created(strategy, "core.v1.PersistentVolume", volume)


def updated(old: Object, **spec: Any) -> FieldErrors:
    return steps.updated(volumes, old, {"spec": spec})[1]


@pytest.mark.seed("API-8")
def test_unset_volume_mode_means_filesystem_and_unset_policy_means_retain() -> None:
    volume, errors = created(a_volume())

    assert errors == []
    assert volume["spec"]["volumeMode"] == "Filesystem"
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"


@pytest.mark.seed("API-8")
@pytest.mark.parametrize(("mode", "right"), [("Block", True), ("Filesystem", True), ("block", False), ("", False)])
def test_volume_mode_is_block_or_filesystem(mode: str, right: bool) -> None:
    _, errors = created(a_volume(volumeMode=mode))

    assert causes(errors) == ([] if right else [("spec.volumeMode", "NotSupported")])


def test_new_volume_is_pending_whatever_its_maker_says() -> None:
    volume, _ = created(a_volume() | {"status": {"phase": "Bound", "message": "mine"}})

    assert volume["status"].pop("lastPhaseTransitionTime")
    assert volume["status"] == {"phase": "Pending"}


@pytest.mark.seed("API-1")
def test_local_volume_is_refused_while_the_gate_is_closed() -> None:
    closed = PersistentVolume(gates=Gates(persistent_local_volumes=False))

    _, errors = created(a_volume(), closed)
    assert causes(errors) == [("spec.local", "Forbidden")]

    _, errors = created(a_volume(local=None, hostPath={"path": "/a"}), closed)
    assert errors == []


@pytest.mark.seed("API-1")
def test_local_volume_of_before_can_still_change_after_the_gate_was_closed() -> None:
    closed = PersistentVolume(gates=Gates(persistent_local_volumes=False))
    old, _ = created(a_volume())

    assert closed.validate(old) == []
    assert closed.validate_update(copy.deepcopy(old), old) == []


@pytest.mark.seed("API-2")
@pytest.mark.parametrize(
    ("affinity", "field"),
    [
        (None, "spec.nodeAffinity"),
        ({}, "spec.nodeAffinity.required"),
        ({"required": {}}, "spec.nodeAffinity.required.nodeSelectorTerms"),
        ({"required": {"nodeSelectorTerms": []}}, "spec.nodeAffinity.required.nodeSelectorTerms"),
    ],
)
def test_local_volume_without_node_affinity_is_refused(affinity: Object | None, field: str) -> None:
    _, errors = created(a_volume(nodeAffinity=affinity))

    assert causes(errors) == [(field, "Required")]


@pytest.mark.seed("API-2")
def test_other_volumes_need_no_node_affinity() -> None:
    _, errors = created(a_volume(local=None, hostPath={"path": "/a"}, nodeAffinity=None))

    assert errors == []


@pytest.mark.seed("API-3")
@pytest.mark.parametrize("name", ["preferred", "preferredDuringSchedulingIgnoredDuringExecution"])
def test_preferred_node_affinity_is_refused_although_the_schema_would_drop_it(name: str) -> None:
    _, errors = created(a_volume(nodeAffinity={"required": ON_NODE_1, name: [{"weight": 1, "preference": {}}]}))

    assert causes(errors) == [(f"spec.nodeAffinity.{name}", "Forbidden")]


@pytest.mark.seed("API-3")
def test_preferred_node_affinity_in_the_old_annotation_is_refused() -> None:
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": ON_NODE_1,
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}],
    }
    _, errors = created(a_volume(annotations={ANNOTATION: json.dumps(affinity)}))

    assert [(error.field.startswith(f"metadata.annotations[{ANNOTATION}]"), error.reason) for error in errors] == [
        (True, "FieldValueForbidden")
    ]


@pytest.mark.seed("API-4")
@pytest.mark.parametrize("local", [{}, {"path": ""}])
def test_empty_path_is_refused(local: Object) -> None:
    _, errors = created(a_volume(local=local))

    assert causes(errors) == [("spec.local.path", "Required")]


@pytest.mark.parametrize("path", ["..", "/a/..", "/a/../b", "../b"])
def test_path_with_backsteps_is_refused(path: str) -> None:
    _, errors = created(a_volume(local={"path": path}))

    assert causes(errors) == [("spec.local.path", "Invalid")]


@pytest.mark.parametrize("path", ["/a..b", "/..data/x", "relative/is/fine/too"])
def test_dots_in_names_are_no_backsteps(path: str) -> None:
    _, errors = created(a_volume(local={"path": path}))

    assert errors == []


@pytest.mark.seed("API-5")
@pytest.mark.parametrize(
    "text", ["{", "not json", "[]", '"text"', '{"requiredDuringSchedulingIgnoredDuringExecution": []}',
             '{"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": {}}}']
)  # fmt: skip
def test_annotation_that_is_no_node_affinity_is_refused(text: str) -> None:
    _, errors = created(a_volume(annotations={ANNOTATION: text}))

    assert causes(errors) == [(f"metadata.annotations[{ANNOTATION}]", "Invalid")]


@pytest.mark.seed("API-5", "API-2")
def test_annotation_with_required_node_affinity_is_enough_for_a_local_volume() -> None:
    text = json.dumps({"requiredDuringSchedulingIgnoredDuringExecution": ON_NODE_1})
    volume, errors = created(a_volume(nodeAffinity=None, annotations={ANNOTATION: text}))

    assert errors == []
    assert any(ANNOTATION in warning for warning in volumes.warnings(volume))


@pytest.mark.seed("API-5")
def test_annotation_is_checked_as_closely_as_the_field() -> None:
    selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]}
    text = json.dumps({"requiredDuringSchedulingIgnoredDuringExecution": selector})
    _, errors = created(a_volume(nodeAffinity=None, annotations={ANNOTATION: text}))

    assert [error.reason for error in errors] == ["FieldValueInvalid"]
    assert errors[0].field.endswith("nodeSelectorTerms[0].matchExpressions[0].operator")


@pytest.mark.seed("API-6")
@pytest.mark.parametrize("mode", ["Block", "Filesystem"])
def test_local_volume_has_a_path_and_may_name_a_file_system(mode: str) -> None:
    volume, errors = created(a_volume(local={"path": "/dev/sdb", "fsType": "ext4", "size": 5}, volumeMode=mode))

    assert errors == []
    assert volume["spec"]["local"] == {"path": "/dev/sdb", "fsType": "ext4"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"accessModes": None}, [("spec.accessModes", "Required")]),
        ({"accessModes": ["ReadWriteTwice"]}, [("spec.accessModes", "NotSupported")]),
        ({"accessModes": ["ReadWriteOncePod"]}, []),
        ({"accessModes": ["ReadWriteOncePod", "ReadOnlyMany"]}, [("spec.accessModes", "Forbidden")]),
        ({"capacity": None}, [("spec.capacity", "Required"), ("spec.capacity", "NotSupported")]),
        ({"capacity": {"storage": "1Gi", "cpu": "1"}}, [("spec.capacity", "NotSupported")]),
        ({"capacity": {"storage": "0"}}, [("spec.capacity[storage]", "Invalid")]),
        ({"capacity": {"storage": "-1Gi"}}, [("spec.capacity[storage]", "Invalid")]),
        ({"persistentVolumeReclaimPolicy": "Burn"}, [("spec.persistentVolumeReclaimPolicy", "NotSupported")]),
        ({"storageClassName": "Local_Fast"}, [("spec.storageClassName", "Invalid")]),
        ({"local": None}, [("spec", "Required")]),
        ({"volumeAttributesClassName": "gold"}, [("spec.csi", "Required")]),
        ({"hostPath": {"path": "/a"}}, [("spec.local", "Forbidden")]),
        (
            {"local": None, "hostPath": {"path": "/"}, "persistentVolumeReclaimPolicy": "Recycle"},
            [("spec.persistentVolumeReclaimPolicy", "Forbidden")],
        ),
        ({"local": None, "hostPath": {"path": "/a", "type": "Door"}}, [("spec.hostPath.type", "NotSupported")]),
        (
            {"local": None, "nfs": {}},
            [("spec.nfs.server", "Required"), ("spec.nfs.path", "Required"), ("spec.nfs.path", "Invalid")],
        ),
        ({"local": None, "csi": {"driver": "d.example.com"}}, [("spec.csi.volumeHandle", "Required")]),
    ],
)
def test_what_kubernetes_refuses_is_refused_with_the_same_fields(
    change: Object, expected: list[tuple[str, str]]
) -> None:
    _, errors = created(a_volume(**change))

    assert causes(errors) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"hostPath": {"path": "/a"}}, {"path": "/a", "type": ""}),
        ({"rbd": {"monitors": ["m"], "image": "i"}},
         {"monitors": ["m"], "image": "i", "pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}),
        ({"iscsi": {"targetPortal": "1.2.3.4:3260", "iqn": "iqn.2017-05.com.example:a", "lun": 0}},
         {"targetPortal": "1.2.3.4:3260", "iqn": "iqn.2017-05.com.example:a", "lun": 0, "iscsiInterface": "default"}),
    ],
)  # fmt: skip
def test_sources_are_filled_in(source: Object, expected: Object) -> None:
    volume, errors = created(a_volume(local=None, **source))

    assert errors == []
    assert volume["spec"][next(iter(source))] == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"local": {"path": "/mnt/disks/b"}}, [("spec.persistentvolumesource", "Forbidden")]),
        ({"volumeMode": "Block"}, [("volumeMode", "Invalid")]),
        ({"nodeAffinity": None}, [("spec.nodeAffinity", "Required"), ("nodeAffinity", "Invalid")]),
        ({"capacity": {"storage": "20Gi"}}, []),
        ({"persistentVolumeReclaimPolicy": "Delete"}, []),
        ({"storageClassName": "other"}, []),
        ({"claimRef": {"namespace": "default", "name": "claim-1"}}, []),
    ],
)
def test_source_mode_and_affinity_stay(change: Object, expected: list[tuple[str, str]]) -> None:
    old, _ = created(a_volume())

    assert causes(updated(old, **change)) == expected


def test_beta_label_may_become_the_general_one() -> None:
    def on(label: str, zone: str) -> Object:
        return {
            "required": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": label, "operator": "In", "values": [zone]}]}]
            }
        }

    old, _ = created(a_volume(nodeAffinity=on("failure-domain.beta.kubernetes.io/zone", "a")))

    assert updated(old, nodeAffinity=on("topology.kubernetes.io/zone", "a")) == []
    assert causes(updated(old, nodeAffinity=on("topology.kubernetes.io/zone", "b"))) == [("nodeAffinity", "Invalid")]


def test_affinity_may_be_given_later_once() -> None:
    old, _ = created(a_volume(local=None, hostPath={"path": "/a"}, nodeAffinity=None))

    assert updated(old, nodeAffinity={"required": ON_NODE_1}) == []


def test_old_annotation_stays_as_it_is_and_may_go_once_the_field_is_there() -> None:
    def says(node: str) -> str:
        selector = copy.deepcopy(ON_NODE_1)
        selector["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] = [node]
        return json.dumps({"requiredDuringSchedulingIgnoredDuringExecution": selector})

    old, _ = created(a_volume(nodeAffinity=None, annotations={ANNOTATION: says("node-1")}))
    moved = copy.deepcopy(old)
    moved["metadata"]["annotations"][ANNOTATION] = says("node-2")
    assert causes(volumes.validate_update(moved, old)) == [(f"metadata.annotations[{ANNOTATION}]", "Invalid")]

    mended = copy.deepcopy(old)
    del mended["metadata"]["annotations"]
    mended["spec"]["nodeAffinity"] = {"required": ON_NODE_1}
    assert volumes.validate(mended) + volumes.validate_update(mended, old) == []


def test_phase_change_is_dated_and_the_spec_is_left_alone() -> None:
    old, _ = created(a_volume())
    old["status"]["lastPhaseTransitionTime"] = "2020-01-01T00:00:00Z"
    report = copy.deepcopy(old) | {"status": {"phase": "Available"}}
    report["spec"]["capacity"] = {"storage": "99Gi"}

    volumes.prepare_for_status_update(report, old)

    assert report["spec"] == old["spec"]
    assert report["status"]["phase"] == "Available"
    assert report["status"]["lastPhaseTransitionTime"] > "2020-01-01T00:00:00Z"

    same_phase = copy.deepcopy(old) | {"status": {"phase": "Pending", "message": "waiting"}}
    volumes.prepare_for_status_update(same_phase, old)
    assert same_phase["status"]["lastPhaseTransitionTime"] == "2020-01-01T00:00:00Z"
