"""Typed structs on the wire."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, get_args

import msgspec
import pytest
from msgspec import structs

from localpv import errors
from localpv.api.kinds import cluster, localdisk, localstorage, pods, volumes, workloads
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.meta import Kind, ObjectMeta, read_time, write_time
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.volumes import (
    LocalVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    StorageClass,
)
from localpv.api.schema import catalogue
from localpv.api.schema import node as schema
from localpv.client import sharing
from localpv.client.codec import TypedCodec, UntypedCodec

KINDS = [
    each
    for module in (cluster, localdisk, localstorage, pods, volumes, workloads)
    for each in vars(module).values()
    if isinstance(each, type) and issubclass(each, Kind) and each.__module__ == module.__name__
]

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
    volume = TypedCodec(PersistentVolume).read(json.dumps(VOLUME).encode())
    assert volume.key == "pv-1"
    assert volume.metadata.labels == {"a": "b"}
    assert volume.spec.local == LocalVolumeSource(path="/dev/disk/by-id/x")
    assert volume.spec.claim_ref is not None and volume.spec.claim_ref.uid == "c"
    assert volume.spec.node_affinity is not None and volume.spec.node_affinity.required is not None
    (term,) = volume.spec.node_affinity.required.node_selector_terms
    assert term.match_expressions[0].values == ("n1",)
    assert volume.status.phase == "Bound"


def test_struct_that_is_sent_says_what_it_is_and_leaves_out_what_it_does_not_have() -> None:
    sent = TypedCodec(StorageClass).write(
        StorageClass(metadata=ObjectMeta(name="fast"), provisioner="p", volume_binding_mode="Immediate")
    )
    assert json.loads(sent) == {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": "p",
        "volumeBindingMode": "Immediate",
    }


def test_claim_without_a_class_differs_from_a_claim_with_the_empty_class() -> None:
    codec = TypedCodec(PersistentVolumeClaim)
    assert codec.read(b'{"metadata":{},"spec":{}}').spec.storage_class_name is None
    assert codec.read(b'{"metadata":{},"spec":{"storageClassName":""}}').spec.storage_class_name == ""
    empty = PersistentVolumeClaim(metadata=ObjectMeta(name="c"), spec=PersistentVolumeClaimSpec(storage_class_name=""))
    assert json.loads(codec.write(empty))["spec"] == {"storageClassName": ""}


def test_maps_that_objects_do_not_have_cannot_be_changed_for_all_of_them() -> None:
    labels = ObjectMeta().labels
    with pytest.raises(TypeError):
        labels["a"] = "b"  # type: ignore[index]


def test_equal_values_of_many_objects_are_kept_once() -> None:
    codec = TypedCodec(PersistentVolume)
    one, two = (codec.read(json.dumps(VOLUME).encode()) for _ in range(2))
    assert one == two
    assert one.spec.node_affinity is two.spec.node_affinity
    assert one.metadata.labels is two.metadata.labels
    assert one.spec.local is not two.spec.local
    other = json.loads(json.dumps(VOLUME))
    other["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] = ["n2"]
    three = codec.read(json.dumps(other).encode())
    assert three.spec.node_affinity != one.spec.node_affinity
    assert three.metadata.labels is one.metadata.labels


def test_shared_values_do_not_pile_up_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "MOST_VALUES", 10)
    codec = TypedCodec(Node)
    for number in range(100):
        node = codec.read(json.dumps({"metadata": {"name": "n", "labels": {"number": str(number)}}}).encode())
        assert node.metadata.labels == {"number": str(number)}
    assert len(codec._sharing._values) <= 11


@pytest.mark.parametrize("kind", KINDS)
def test_fields_that_a_kind_shares_exist(kind: type[Kind]) -> None:
    for path in kind.shared:
        place: Any = kind
        for name in path.split("."):
            types = {field.name: field.type for field in structs.fields(place)}
            assert name in types, path
            place = types[name]


def test_answer_that_is_no_such_object_is_an_error_of_the_server() -> None:
    with pytest.raises(errors.InternalError, match="no PersistentVolume"):
        TypedCodec(PersistentVolume).read(b'{"metadata": 5}')
    with pytest.raises(errors.InternalError, match="no PersistentVolume"):
        UntypedCodec(PersistentVolume.resource).read(b"<html>")


def test_items_of_an_untyped_list_know_what_they_are() -> None:
    codec = UntypedCodec(Node.resource)
    page = codec.read_page(b'{"metadata":{"resourceVersion":"3"},"items":[{"metadata":{"name":"a"}}]}')
    assert page.items == [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}]


def test_micro_times_always_have_six_digits() -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    assert write_time(moment) == "2030-01-01T00:00:00.000000Z"
    assert read_time("2030-01-01T00:00:00Z") == moment


def _misnamed(struct: type[Any], node: schema.Node, path: str) -> Iterator[str]:
    """Fields of a struct, and of those inside it, that Kubernetes does not have under that name."""
    for field in structs.fields(struct):
        below = node.fields.get(field.encode_name)
        if below is None:
            yield f"{path}.{field.encode_name}"
            continue
        inner = [each for each in (field.type, *get_args(field.type)) if isinstance(each, type)]
        for each in inner:
            if issubclass(each, msgspec.Struct):
                yield from _misnamed(each, below.items or below, f"{path}.{field.encode_name}")


@pytest.mark.parametrize("kind", [Pod, Node, PersistentVolume, PersistentVolumeClaim])
def test_fields_of_a_struct_are_called_as_in_kubernetes(kind: type[Kind]) -> None:
    node = catalogue.built_in().node(f"io.k8s.api.core.v1.{kind.__name__}")
    # One struct serves dataSource and dataSourceRef; only the second has a namespace.
    assert [name for name in _misnamed(kind, node, kind.__name__) if "dataSource." not in name] == []
