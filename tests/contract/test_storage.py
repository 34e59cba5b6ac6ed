"""Volumes, claims and storage classes: defaults, what is refused and with which cause, and what may change."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract import builders, wire
from tests.contract.spaces import Space
from tests.contract.wire import Api

VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


def _refused(api: Api, path: str, body: builders.Object) -> list[tuple[str, str]]:
    return wire.causes(api.post(path, body, expect=422))


@pytest.mark.seed("API-6", "API-8")
def test_local_volume_is_taken_with_its_defaults(api: Api) -> None:
    made = api.post(VOLUMES, builders.local_volume(persistentVolumeReclaimPolicy=None))
    assert made["spec"]["local"] == {"path": "/mnt/disks/ssd1"}
    assert made["spec"]["volumeMode"] == "Filesystem"
    assert made["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert made["status"]["phase"] == "Pending"


@pytest.mark.seed("API-6")
def test_local_volume_may_name_a_file_system(api: Api) -> None:
    local = {"path": "/dev/disk/by-id/x", "fsType": "xfs"}
    assert api.post(VOLUMES, builders.local_volume(local=local))["spec"]["local"] == local


@pytest.mark.seed("API-2")
def test_local_volume_needs_node_affinity(api: Api) -> None:
    status = api.post(VOLUMES, builders.local_volume(nodeAffinity=None), expect=422)
    assert wire.causes(status) == [("FieldValueRequired", "spec.nodeAffinity")]
    assert "spec.nodeAffinity: Required value" in status["message"]


@pytest.mark.seed("API-3")
def test_preferred_node_affinity_is_refused(api: Api) -> None:
    term = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}
    api.post(VOLUMES, builders.local_volume(nodeAffinity=preferred), expect=422)
    both = builders.local_volume(nodeAffinity=builders.node_affinity() | preferred)
    answer = api.send("POST", VOLUMES, both, fieldValidation="Strict")
    # To Kubernetes the field is unknown (400); a server that knows what was meant may say so (422).
    assert answer.code in (400, 422)
    assert "spec.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution" in answer.body["message"]


@pytest.mark.seed("API-4")
@pytest.mark.parametrize("local", [{"path": ""}, {}])
def test_local_volume_needs_a_path(api: Api, local: dict[str, str]) -> None:
    assert ("FieldValueRequired", "spec.local.path") in _refused(api, VOLUMES, builders.local_volume(local=local))


@pytest.mark.parametrize("path", ["/mnt/../etc", "..", "/mnt/disks/.."])
def test_local_path_has_no_backsteps(api: Api, path: str) -> None:
    status = api.post(VOLUMES, builders.local_volume(local={"path": path}), expect=422)
    assert wire.causes(status) == [("FieldValueInvalid", "spec.local.path")]
    assert "must not contain '..'" in status["message"]


@pytest.mark.seed("API-8")
@pytest.mark.parametrize("mode", ["Block", "Filesystem"])
def test_volume_and_claim_have_a_mode(api: Api, space: Space, mode: str) -> None:
    assert api.post(VOLUMES, builders.local_volume(volumeMode=mode))["spec"]["volumeMode"] == mode
    claims = space.core("persistentvolumeclaims")
    assert api.post(claims, builders.claim(volumeMode=mode))["spec"]["volumeMode"] == mode


@pytest.mark.seed("API-8")
def test_unset_mode_of_a_claim_is_filesystem(api: Api, space: Space) -> None:
    made = api.post(space.core("persistentvolumeclaims"), builders.claim())
    assert made["spec"]["volumeMode"] == "Filesystem"
    assert made["status"] == {"phase": "Pending"}


@pytest.mark.seed("API-8")
def test_no_other_mode_exists(api: Api, space: Space) -> None:
    wanted = [("FieldValueNotSupported", "spec.volumeMode")]
    assert _refused(api, VOLUMES, builders.local_volume(volumeMode="Tape")) == wanted
    assert _refused(api, space.core("persistentvolumeclaims"), builders.claim(volumeMode="Tape")) == wanted


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        ({"capacity": None}, ("FieldValueRequired", "spec.capacity")),
        ({"capacity": {"memory": "1Gi"}}, ("FieldValueNotSupported", "spec.capacity")),
        ({"capacity": {"storage": "0"}}, ("FieldValueInvalid", "spec.capacity[storage]")),
        ({"capacity": {"storage": "-1Gi"}}, ("FieldValueInvalid", "spec.capacity[storage]")),
        ({"accessModes": None}, ("FieldValueRequired", "spec.accessModes")),
        ({"accessModes": ["Sometimes"]}, ("FieldValueNotSupported", "spec.accessModes")),
        ({"persistentVolumeReclaimPolicy": "Keep"}, ("FieldValueNotSupported", "spec.persistentVolumeReclaimPolicy")),
        ({"local": None}, ("FieldValueRequired", "spec")),
        ({"hostPath": {"path": "/x"}}, ("FieldValueForbidden", "spec.local")),
        ({"storageClassName": "Not Good"}, ("FieldValueInvalid", "spec.storageClassName")),
        (
            {"nodeAffinity": {"required": {"nodeSelectorTerms": []}}},
            ("FieldValueRequired", "spec.nodeAffinity.required.nodeSelectorTerms"),
        ),
        (
            {"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]},
            ("FieldValueForbidden", "spec.accessModes"),
        ),
    ],
)
def test_volume_is_validated(api: Api, spec: Any, cause: tuple[str, str]) -> None:
    assert cause in _refused(api, VOLUMES, builders.local_volume(**spec))


@pytest.mark.parametrize(
    ("expression", "field"),
    [
        ({"key": "a", "operator": "In"}, "values"),
        ({"key": "a", "operator": "Exists", "values": ["x"]}, "values"),
        ({"key": "a", "operator": "Gt", "values": ["1", "2"]}, "values"),
        ({"key": "a", "operator": "Near", "values": ["x"]}, "operator"),
        ({"key": "not a key", "operator": "Exists"}, "key"),
    ],
)
def test_node_affinity_is_validated(api: Api, expression: Any, field: str) -> None:
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    fields = {path for _, path in _refused(api, VOLUMES, builders.local_volume(nodeAffinity=affinity))}
    assert f"spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].{field}" in fields


def test_source_of_a_volume_stays(api: Api) -> None:
    made = api.post(VOLUMES, builders.local_volume())
    path = f"{VOLUMES}/{made['metadata']['name']}"
    status = api.merge(path, {"spec": {"local": {"path": "/elsewhere"}}}, expect=422)
    assert ("FieldValueForbidden", "spec.persistentvolumesource") in wire.causes(status)
    status = api.merge(path, {"spec": {"volumeMode": "Block"}}, expect=422)
    assert ("FieldValueInvalid", "volumeMode") in wire.causes(status)
    other = builders.node_affinity("node-2")
    assert ("FieldValueInvalid", "nodeAffinity") in wire.causes(
        api.merge(path, {"spec": {"nodeAffinity": other}}, expect=422)
    )


def test_capacity_policy_class_and_claim_of_a_volume_may_change(api: Api, space: Space) -> None:
    made = api.post(VOLUMES, builders.local_volume())
    path = f"{VOLUMES}/{made['metadata']['name']}"
    change = {
        "capacity": {"storage": "20Gi"},
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": space.name, "name": "x"},
    }
    spec = api.merge(path, {"spec": change})["spec"]
    assert {key: spec[key] for key in change} == change


def test_quantities_are_written_canonically(api: Api) -> None:
    made = api.post(VOLUMES, builders.local_volume(capacity={"storage": "1024Mi"}))
    assert made["spec"]["capacity"]["storage"] == "1Gi"
    made = api.post(VOLUMES, builders.local_volume(capacity={"storage": "1000000000"}))
    assert made["spec"]["capacity"]["storage"] == "1G"
    made = api.post(VOLUMES, builders.local_volume(capacity={"storage": "1.5Gi"}))
    assert made["spec"]["capacity"]["storage"] == "1536Mi"


def test_malformed_quantity_is_a_bad_request(api: Api) -> None:
    status = api.post(VOLUMES, builders.local_volume(capacity={"storage": "much"}), expect=400)
    assert status["reason"] == "BadRequest"


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        ({"accessModes": None}, ("FieldValueRequired", "spec.accessModes")),
        ({"accessModes": ["Sometimes"]}, ("FieldValueNotSupported", "spec.accessModes")),
        ({"resources": None}, ("FieldValueRequired", "spec.resources[storage]")),
        ({"resources": {"requests": {"storage": "0"}}}, ("FieldValueInvalid", "spec.resources[storage]")),
        ({"storageClassName": "Not Good"}, ("FieldValueInvalid", "spec.storageClassName")),
        ({"selector": {"matchLabels": {"a b": "c"}}}, ("FieldValueInvalid", "spec.selector.matchLabels")),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            ("FieldValueRequired", "spec.selector.matchExpressions[0].values"),
        ),
    ],
)
def test_claim_is_validated(api: Api, space: Space, spec: Any, cause: tuple[str, str]) -> None:
    assert cause in _refused(api, space.core("persistentvolumeclaims"), builders.claim(**spec))


def test_spec_of_a_claim_stays(api: Api, space: Space) -> None:
    api.post(space.core("persistentvolumeclaims"), builders.claim("one"))
    path = space.core("persistentvolumeclaims", "one")
    status = api.merge(path, {"spec": {"storageClassName": "other"}}, expect=422)
    assert wire.causes(status) == [("FieldValueForbidden", "spec")]
    status = api.merge(path, {"spec": {"volumeMode": "Block"}}, expect=422)
    assert ("FieldValueInvalid", "volumeMode") in wire.causes(status)


def test_volume_name_of_a_claim_is_set_once(api: Api, space: Space) -> None:
    api.post(space.core("persistentvolumeclaims"), builders.claim("one"))
    path = space.core("persistentvolumeclaims", "one")
    assert api.merge(path, {"spec": {"volumeName": "volume"}})["spec"]["volumeName"] == "volume"
    status = api.merge(path, {"spec": {"volumeName": "other"}}, expect=422)
    assert wire.causes(status) == [("FieldValueForbidden", "spec")]


def test_size_of_an_unbound_claim_stays(api: Api, space: Space) -> None:
    api.post(space.core("persistentvolumeclaims"), builders.claim("one"))
    path = space.core("persistentvolumeclaims", "one")
    api.merge(path, {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}, expect=422)


def test_storage_class_defaults(api: Api) -> None:
    made = api.post(CLASSES, builders.storage_class())
    assert (made["reclaimPolicy"], made["volumeBindingMode"]) == ("Delete", "Immediate")


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"provisioner": ""}, ("FieldValueRequired", "provisioner")),
        ({"volumeBindingMode": "Later"}, ("FieldValueNotSupported", "volumeBindingMode")),
        ({"reclaimPolicy": "Keep"}, ("FieldValueNotSupported", "reclaimPolicy")),
        ({"parameters": {"": "x"}}, ("FieldValueInvalid", "parameters")),
    ],
)
def test_storage_class_is_validated(api: Api, fields: Any, cause: tuple[str, str]) -> None:
    assert cause in _refused(api, CLASSES, builders.storage_class(**fields))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"provisioner": "other.localpv.dev"}, "provisioner"),
        ({"parameters": {"a": "1"}}, "parameters"),
        ({"reclaimPolicy": "Retain"}, "reclaimPolicy"),
        ({"volumeBindingMode": "WaitForFirstConsumer"}, "volumeBindingMode"),
    ],
)
def test_storage_class_stays(api: Api, change: Any, field: str) -> None:
    made = api.post(CLASSES, builders.storage_class())
    status = api.merge(f"{CLASSES}/{made['metadata']['name']}", change, expect=422)
    assert field in {path for _, path in wire.causes(status)}


def test_empty_class_of_a_claim_stays_empty(api: Api, space: Space) -> None:
    made = api.post(space.core("persistentvolumeclaims"), builders.claim(storageClassName=""))
    assert made["spec"]["storageClassName"] == ""


@pytest.mark.parametrize(
    ("plural", "body"),
    [
        ("csidrivers", {"kind": "CSIDriver", "spec": {}}),
        ("csinodes", {"kind": "CSINode", "spec": {"drivers": []}}),
        (
            "volumeattachments",
            {
                "kind": "VolumeAttachment",
                "spec": {"attacher": "a.b", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
            },
        ),
    ],
)
def test_other_storage_kinds_are_taken(api: Api, plural: str, body: builders.Object) -> None:
    whole = {"apiVersion": "storage.k8s.io/v1", "metadata": builders.metadata()} | body
    assert api.post(f"/apis/storage.k8s.io/v1/{plural}", whole)["metadata"]["uid"]


def test_storage_capacity_is_taken(api: Api, space: Space) -> None:
    body = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": builders.metadata(),
        "storageClassName": "contract",
        "capacity": "10Gi",
    }
    assert api.post(space.of("storage.k8s.io/v1", "csistoragecapacities"), body)["capacity"] == "10Gi"


def test_csi_driver_defaults(api: Api) -> None:
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": builders.metadata(), "spec": {}}
    spec = api.post("/apis/storage.k8s.io/v1/csidrivers", body)["spec"]
    assert (spec["attachRequired"], spec["podInfoOnMount"]) == (True, False)
    assert (spec["fsGroupPolicy"], spec["volumeLifecycleModes"]) == ("ReadWriteOnceWithFSType", ["Persistent"])
