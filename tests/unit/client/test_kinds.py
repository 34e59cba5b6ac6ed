"""Typed structs on the wire."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from localpv import errors
from localpv.api import kinds
from localpv.client.codec import TypedCodec, UntypedCodec

VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {
        "name": "pv-1",
        "uid": "u",
        "resourceVersion": "7",
        "labels": {"a": "b"},
        "finalizers": ["kubernetes.io/pv-protection"],
        "managedFields": [{"manager": "x"}],
    },
    "spec": {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": "fast",
        "volumeMode": "Block",
        "local": {"path": "/dev/disk/by-id/x"},
        "claimRef": {"namespace": "default", "name": "claim", "uid": "c"},
        "nodeAffinity": {
            "required": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}
                ]
            }
        },
    },
    "status": {"phase": "Bound", "aFieldOfTheFuture": 1},
}


def test_volume_is_read_with_the_fields_that_controllers_use() -> None:
    volume = TypedCodec(kinds.PersistentVolume).read(json.dumps(VOLUME).encode())
    assert volume.key == "pv-1"
    assert volume.metadata.labels == {"a": "b"}
    assert volume.spec.local == kinds.LocalVolumeSource(path="/dev/disk/by-id/x")
    assert volume.spec.claim_ref is not None and volume.spec.claim_ref.uid == "c"
    assert volume.spec.node_affinity is not None and volume.spec.node_affinity.required is not None
    (term,) = volume.spec.node_affinity.required.node_selector_terms
    assert term.match_expressions[0].values == ("n1",)
    assert volume.status.phase == "Bound"


def test_struct_that_is_sent_says_what_it_is_and_leaves_out_what_it_does_not_have() -> None:
    sent = TypedCodec(kinds.StorageClass).write(
        kinds.StorageClass(metadata=kinds.ObjectMeta(name="fast"), provisioner="p", volume_binding_mode="Immediate")
    )
    assert json.loads(sent) == {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": "p",
        "volumeBindingMode": "Immediate",
    }


def test_claim_without_a_class_differs_from_a_claim_with_the_empty_class() -> None:
    codec = TypedCodec(kinds.PersistentVolumeClaim)
    assert codec.read(b'{"metadata":{},"spec":{}}').spec.storage_class_name is None
    assert codec.read(b'{"metadata":{},"spec":{"storageClassName":""}}').spec.storage_class_name == ""
    empty = kinds.PersistentVolumeClaim(
        metadata=kinds.ObjectMeta(name="c"), spec=kinds.PersistentVolumeClaimSpec(storage_class_name="")
    )
    assert json.loads(codec.write(empty))["spec"] == {"storageClassName": ""}


def test_maps_that_objects_do_not_have_cannot_be_changed_for_all_of_them() -> None:
    labels = kinds.ObjectMeta().labels
    with pytest.raises(TypeError):
        labels["a"] = "b"  # type: ignore[index]


def test_answer_that_is_no_such_object_is_an_error_of_the_server() -> None:
    with pytest.raises(errors.InternalError, match="no PersistentVolume"):
        TypedCodec(kinds.PersistentVolume).read(b'{"metadata": 5}')
    with pytest.raises(errors.InternalError, match="no PersistentVolume"):
        UntypedCodec(kinds.PersistentVolume.resource).read(b"<html>")


def test_items_of_an_untyped_list_know_what_they_are() -> None:
    codec = UntypedCodec(kinds.Node.resource)
    page = codec.read_page(b'{"metadata":{"resourceVersion":"3"},"items":[{"metadata":{"name":"a"}}]}')
    assert page.items == [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}]


def test_micro_times_always_have_six_digits() -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    assert kinds.write_time(moment) == "2030-01-01T00:00:00.000000Z"
    assert kinds.read_time("2030-01-01T00:00:00Z") == moment
