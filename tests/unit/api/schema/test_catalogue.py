"""What the catalogue says of Kubernetes' own kinds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from localpv.api import resources, stored_resources
from localpv.api.schema import catalogue
from localpv.api.schema.catalogue import Catalogue
from localpv.api.schema.node import MISSING, ListKind, Node, Type

CORE = "io.k8s.api.core.v1."


@pytest.fixture(scope="module")
def known() -> Catalogue:
    return Catalogue()


@pytest.mark.parametrize("resource", [*stored_resources.EVERY, *resources.REVIEWS], ids=lambda r: r.qualified)
def test_every_resource_has_a_definition_of_its_kind(known: Catalogue, resource: resources.Resource) -> None:
    kinds = known.openapi(resource.schema)["x-kubernetes-group-version-kind"]

    assert {"group": resource.group, "version": resource.version, "kind": resource.kind} in kinds
    assert known.node(resource.schema).fields.keys() >= {"apiVersion", "kind", "metadata"}


def test_every_definition_can_be_built_and_shown(known: Catalogue) -> None:
    for name in known.names():
        assert known.node(name) is known.node(name)
        assert isinstance(known.openapi(name), dict)


def test_every_reference_leads_somewhere(known: Catalogue) -> None:
    text = json.dumps([known.openapi(name) for name in known.names()])
    targets = {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}

    assert targets
    assert targets <= set(known.names())


def test_fields_have_the_types_that_kubernetes_reads(known: Catalogue) -> None:
    spec = known.node(CORE + "PersistentVolumeSpec").fields

    assert spec["storageClassName"].type is Type.STRING
    assert spec["capacity"].type is Type.MAP
    assert spec["capacity"].items is known.node("io.k8s.apimachinery.pkg.api.resource.Quantity")
    assert spec["capacity"].items.type is Type.QUANTITY
    assert spec["accessModes"].type is Type.LIST
    assert spec["local"].required == ("path",)
    assert known.node(CORE + "ServicePort").fields["targetPort"].type is Type.INT_OR_STRING
    assert known.node(catalogue.OBJECT_META).fields["creationTimestamp"].format == "date-time"
    assert known.node("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1").type is Type.ANY


def test_lists_know_how_they_merge(known: Catalogue) -> None:
    pod, container = known.node(CORE + "PodSpec").fields, known.node(CORE + "Container").fields

    assert (pod["containers"].list_kind, pod["containers"].list_keys) == (ListKind.MAP, ("name",))
    assert (pod["containers"].patch_strategy, pod["containers"].patch_merge_key) == (("merge",), "name")
    assert pod["volumes"].patch_strategy == ("merge", "retainKeys")
    assert container["command"].list_kind is ListKind.ATOMIC
    assert container["ports"].list_keys == ("containerPort", "protocol")
    assert known.node(catalogue.OBJECT_META).fields["finalizers"].list_kind is ListKind.SET


def test_a_field_may_merge_differently_from_its_definition(known: Catalogue) -> None:
    definition = known.node(CORE + "ObjectReference")
    claim = known.node(CORE + "PersistentVolumeSpec").fields["claimRef"]

    assert definition.atomic
    assert not claim.atomic
    assert claim.fields == definition.fields
    assert known.node("io.k8s.api.apps.v1.DeploymentSpec").fields["strategy"].patch_strategy == ("retainKeys",)


def test_only_defaults_that_are_filled_in_count_as_defaults(known: Catalogue) -> None:
    assert known.node(CORE + "ContainerPort").fields["protocol"].default == "TCP"
    assert known.node(CORE + "Container").fields["name"].default is MISSING
    assert known.node(CORE + "PersistentVolume").fields["spec"].default is MISSING


def test_a_definition_that_contains_itself_is_one_node(known: Catalogue) -> None:
    schema = known.node(catalogue.JSON_SCHEMA)

    assert schema.fields["not"] is schema
    assert schema.fields["properties"].items is schema


def test_plain_fields_share_their_nodes(known: Catalogue) -> None:
    seen: dict[int, Node] = {}

    def count(node: Node) -> int:
        if id(node) in seen:
            return 0
        seen[id(node)] = node
        children = [*node.fields.values(), *([node.items] if node.items else [])]
        return 1 + sum(map(count, children))

    assert count(known.node(CORE + "Pod")) < 400


def test_openapi_is_in_the_form_of_documents(known: Catalogue) -> None:
    schema = known.openapi(CORE + "PersistentVolume")

    spec = schema["properties"]["spec"]

    assert schema["type"] == "object"
    assert spec["allOf"] == [{"$ref": f"#/components/schemas/{CORE}PersistentVolumeSpec"}]
    assert spec["default"] == {}
    assert schema["x-kubernetes-group-version-kind"] == [{"group": "", "kind": "PersistentVolume", "version": "v1"}]


def test_a_document_can_be_changed_without_changing_the_catalogue(known: Catalogue) -> None:
    known.openapi(CORE + "Pod").clear()

    assert known.openapi(CORE + "Pod")["type"] == "object"


def test_descriptions_come_from_a_file_of_our_own(tmp_path: Path) -> None:
    facts = {
        "a.Disk": {"type": "object", "properties": {"size": {"type": "integer"}, "node": {"$ref": "a.Node"}}},
        "a.Node": {"type": "object"},
    }
    (tmp_path / "kubernetes.json").write_text(json.dumps(facts))
    (tmp_path / "descriptions.json").write_text(
        json.dumps({"a.Disk": "A disk.", "a.Disk.size": "In bytes.", "a.Disk.node": "Where it is."})
    )

    assert Catalogue(tmp_path).openapi("a.Disk") == {
        "type": "object",
        "description": "A disk.",
        "properties": {
            "size": {"type": "integer", "description": "In bytes."},
            "node": {"allOf": [{"$ref": "#/components/schemas/a.Node"}], "description": "Where it is."},
        },
    }


def test_unknown_definitions_are_not_invented(known: Catalogue) -> None:
    assert "io.k8s.api.core.v1.Floppy" not in known
    with pytest.raises(KeyError):
        known.node("io.k8s.api.core.v1.Floppy")
