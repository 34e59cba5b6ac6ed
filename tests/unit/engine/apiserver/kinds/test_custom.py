"""Objects of custom kinds follow the schema and the subresources of their definition."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from localpv.api.objects import Object
from localpv.api.resources import Resource
from localpv.engine.apiserver.kinds.custom import BroughtUpToDate, CustomStrategy

RESOURCE = Resource(
    group="example.com",
    version="v1",
    kind="Disk",
    plural="disks",
    namespaced=False,
    schema="com.example.v1.Disk",
    custom=True,
    selectable_fields=("spec.node", "spec.spare", "spec.size"),
)
VERSION: dict[str, Any] = {
    "name": "v1",
    "schema": {
        "openAPIV3Schema": {
            "type": "object",
            "required": ["spec"],
            "properties": {
                "spec": {
                    "type": "object",
                    "required": ["node"],
                    "properties": {
                        "node": {"type": "string", "minLength": 2},
                        "spare": {"type": "boolean"},
                        "size": {"type": "integer"},
                        "mode": {"type": "string", "default": "Block", "enum": ["Block", "Filesystem"]},
                    },
                },
                "status": {
                    "type": "object",
                    "properties": {
                        "phase": {"type": "string", "maxLength": 5},
                        "size": {"type": "integer"},
                        "labels": {"x-kubernetes-preserve-unknown-fields": True},
                    },
                },
            },
        }
    },
}
SUBRESOURCES = {
    "status": {},
    "scale": {
        "specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.size",
        "labelSelectorPath": ".status.labels",
    },
}
PLAIN = CustomStrategy(RESOURCE, VERSION)
FULL = CustomStrategy(RESOURCE, {**VERSION, "subresources": SUBRESOURCES})


def a_disk(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Disk",
        "metadata": {"name": "d", "labels": {"a": "b"}, "resourceVersion": "1"},
        "spec": {"node": "n1", **spec},
        "status": {"phase": "Here"},
    }


def test_defaults_of_the_schema_are_filled_in() -> None:
    disk = a_disk()
    PLAIN.default(disk)

    assert disk["spec"] == {"node": "n1", "mode": "Block"}


def test_values_are_checked_against_the_schema() -> None:
    assert [error.field for error in PLAIN.validate(a_disk(node="n", mode="Tape"))] == ["spec.node", "spec.mode"]
    missing = a_disk()
    del missing["spec"]["node"]
    assert [(error.field, error.reason) for error in PLAIN.validate(missing)] == [("spec.node", "FieldValueRequired")]


def test_status_belongs_to_its_subresource_where_there_is_one() -> None:
    old, sent = a_disk(), a_disk(size=4)
    sent["status"] = {"phase": "Gone"}

    plain, full = deepcopy(sent), deepcopy(sent)
    PLAIN.prepare_for_update(plain, old)
    FULL.prepare_for_update(full, old)
    assert plain["status"] == {"phase": "Gone"}
    assert full["status"] == {"phase": "Here"}
    assert (PLAIN.generation_counts_status, FULL.generation_counts_status) == (True, False)

    fresh = a_disk()
    FULL.prepare_for_create(fresh)
    assert "status" not in fresh


def test_status_update_changes_nothing_else_not_even_labels() -> None:
    old, sent = a_disk(), a_disk(node="other")
    sent["status"] = {"phase": "Gone"}
    sent["metadata"] |= {"labels": {"c": "d"}, "resourceVersion": "2", "managedFields": [{"manager": "me"}]}
    FULL.prepare_for_status_update(sent, old)

    assert sent["spec"] == old["spec"]
    assert sent["status"] == {"phase": "Gone"}
    assert sent["metadata"] == {**old["metadata"], "resourceVersion": "2", "managedFields": [{"manager": "me"}]}


def test_only_the_status_is_judged_in_a_status_update() -> None:
    disk = a_disk(node="n")
    disk["status"] = {"phase": "Too long"}

    assert [error.field for error in FULL.validate_status_update(disk, a_disk())] == ["status.phase"]


def test_counts_of_the_scale_subresource_stay_within_bounds() -> None:
    disk = a_disk(size=-1)
    disk["status"] = {"size": 2**31, "labels": 3}

    assert [error.field for error in FULL.validate(disk)] == [".spec.size", ".status.size", ".status.labels"]
    assert PLAIN.scale is None


def test_objects_are_found_by_the_fields_that_the_definition_names() -> None:
    assert PLAIN.selectable(a_disk(spare=True, size=3)) == {"spec.node": "n1", "spec.spare": "true", "spec.size": "3"}
    assert PLAIN.selectable({"metadata": {}}) == {"spec.node": "", "spec.spare": "", "spec.size": ""}


def test_finalizer_without_a_domain_is_taken_with_a_warning() -> None:
    disk = a_disk()
    disk["metadata"]["finalizers"] = ["example.com/hold", "orphan", "hold"]

    assert len(PLAIN.warnings(disk)) == 1


def test_what_was_stored_is_read_by_the_schema_of_its_own_version() -> None:
    def version(name: str, **properties: Object) -> Object:
        return {"name": name, "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}

    text = {"type": "string"}
    read = BroughtUpToDate([version("v1", color=text), version("v2", mode={**text, "default": "fast"})], "v2")

    def stored(name: str) -> Object:
        return {"apiVersion": f"example.com/{name}", "kind": "Widget", "metadata": {}, "color": "red"}

    assert read(stored("v1"))["color"] == "red"
    assert "mode" not in read(stored("v1"))
    assert read(stored("v2"))["mode"] == "fast"
    assert "color" not in read(stored("v2"))
    assert read(stored("v0"))["mode"] == "fast", "of a version that is no more"
