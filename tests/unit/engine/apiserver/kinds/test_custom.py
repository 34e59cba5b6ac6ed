from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from tests.unit.engine.apiserver.kinds.writes import Writes

from localpv.api.objects import Object
from localpv.api.resources import Resource
from localpv.engine.apiserver.kinds import custom as definitions
from localpv.engine.apiserver.kinds.custom import BroughtUpToDate, CustomStrategy

CRDS = Writes(definitions.CustomResourceDefinition(), "CustomResourceDefinition", "apiextensions.k8s.io")
WHEN = "2020-01-01T00:00:00Z"
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {"node": {"type": "string"}, "size": {"type": "integer"}, "tags": {"type": "object"}},
        },
    },
}


def version(name: str = "v1", **change: Any) -> dict[str, Any]:
    entry = {"name": name, "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}, **change}
    return {key: value for key, value in entry.items() if value is not None}


def definition(plural: str = "disks", *, names: Any = (), versions: Any = None, **spec: Any) -> dict[str, Any]:
    group = spec.get("group", "example.com")
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": plural, "kind": "Disk", **dict(names)},
            "versions": [version()] if versions is None else versions,
            **spec,
        },
    }


def established(**change: Any) -> dict[str, Any]:
    obj = CRDS.stored(definition(**change))
    obj["status"] = definitions.established(obj, now=WHEN)
    return obj


def test_definition_is_completed() -> None:
    obj = CRDS.stored(definition())

    assert obj["spec"]["names"] == {"plural": "disks", "kind": "Disk", "singular": "disk", "listKind": "DiskList"}
    assert obj["spec"]["conversion"] == {"strategy": "None"}
    assert obj["status"]["storedVersions"] == ["v1"]


@pytest.mark.parametrize(
    ("obj", "wrong"),
    [
        (definition() | {"metadata": {"name": "other.example.com"}}, {("metadata.name", "Invalid")}),
        (definition(scope="X"), {("spec.scope", "NotSupported")}),
        (definition(group="local"), {("spec.group", "Invalid")}),
        (definition(names={"kind": "disk_"}), {("spec.names.kind", "Invalid"), ("spec.names.singular", "Invalid"),
                                               ("spec.names.listKind", "Invalid")}),
        (definition(names={"listKind": "Disk"}), {("spec.names.listKind", "Invalid")}),
        (definition(names={"shortNames": ["d", "D_"]}), {("spec.names.shortNames[1]", "Invalid")}),
        (definition(versions=[version(storage=False)]),
         {("spec.versions", "Invalid"), ("status.storedVersions", "Invalid")}),
        (definition(versions=[version(), version("v2")]),
         {("spec.versions", "Invalid"), ("status.storedVersions", "Invalid")}),
        (definition(versions=[version(schema=None)]), {("spec.versions[0].schema.openAPIV3Schema", "Required")}),
        (definition(versions=[version(deprecationWarning="x")]), {("spec.versions[0].deprecationWarning", "Invalid")}),
        (definition(versions=[version(additionalPrinterColumns=[{"name": "a", "type": "x", "jsonPath": "spec"}])]),
         {("spec.additionalPrinterColumns[0].type", "Invalid"),
          ("spec.additionalPrinterColumns[0].JSONPath", "Invalid")}),
        (definition(versions=[version(subresources={"scale": {"specReplicasPath": ".status.x"}})]),
         {("spec.subresources.scale.specReplicasPath", "Invalid"),
          ("spec.subresources.scale.statusReplicasPath", "Required")}),
        (definition(versions=[version(selectableFields=[{"jsonPath": ".spec.other"}, {"jsonPath": ".spec.tags"}])]),
         {("spec.selectableFields[0].jsonPath", "Invalid"), ("spec.selectableFields[1].jsonPath", "Invalid")}),
        (definition(preserveUnknownFields=True), {("spec.preserveUnknownFields", "Invalid")}),
        (definition(group="disks.k8s.io"), {("metadata.annotations[api-approved.kubernetes.io]", "Required")}),
    ],
)  # fmt: skip
def test_definition_that_makes_no_sense_is_refused(obj: Any, wrong: set[tuple[str, str]]) -> None:
    assert CRDS.create(obj).causes == wrong


def test_conversion_webhooks_are_refused_by_name() -> None:
    outcome = CRDS.create(definition(conversion={"strategy": "Webhook"}))

    assert outcome.causes == {("spec.conversion.strategy", "Invalid")}
    assert "webhooks are not supported" in outcome.errors[0].message


def test_errors_in_one_of_several_versions_name_that_version() -> None:
    broken = version("v2", storage=False, additionalPrinterColumns=[{"type": "string", "jsonPath": ".spec"}])

    assert CRDS.create(definition(versions=[version(), broken])).causes == {
        ("spec.versions[1].additionalPrinterColumns[0].name", "Required")
    }


def test_schema_of_a_kind_with_status_has_no_rules_for_the_whole_object() -> None:
    schema = {"openAPIV3Schema": {**SCHEMA, "minProperties": 1}}

    assert not CRDS.create(definition(versions=[version(schema=schema)])).errors
    assert CRDS.create(definition(versions=[version(schema=schema, subresources={"status": {}})])).causes == {
        ("spec.validation.openAPIV3Schema", "Invalid")
    }


def test_names_are_accepted_and_the_kind_is_established() -> None:
    status = definitions.established(CRDS.stored(definition(names={"shortNames": ["ld"]})), now=WHEN)

    assert status["acceptedNames"] == {
        "plural": "disks", "singular": "disk", "shortNames": ["ld"], "kind": "Disk", "listKind": "DiskList",
    }  # fmt: skip
    assert [(c["type"], c["status"], c["reason"], c["lastTransitionTime"]) for c in status["conditions"]] == [
        ("NamesAccepted", "True", "NoConflicts", WHEN),
        ("Established", "True", "InitialNamesAccepted", WHEN),
    ]
    assert status["storedVersions"] == ["v1"]


def test_name_of_another_definition_in_the_group_is_not_accepted() -> None:
    first = established(names={"shortNames": ["ld"]})
    second = CRDS.stored(definition("drives", names={"kind": "Drive", "shortNames": ["ld"]}))
    elsewhere = CRDS.stored(definition("disks", names={"shortNames": ["ld"]}, group="other.com"))

    status = definitions.established(second, others=[first, second])
    assert [(c["type"], c["status"], c["reason"]) for c in status["conditions"]] == [
        ("NamesAccepted", "False", "ShortNamesConflict"),
        ("Established", "False", "NotAccepted"),
    ]
    assert "shortNames" not in status["acceptedNames"]
    assert definitions.resources_of(second | {"status": status}) == []
    assert definitions.is_established({"status": definitions.established(elsewhere, others=[first])})

    again = definitions.established(second | {"status": status}, others=[], now=WHEN)
    assert [c["status"] for c in again["conditions"]] == ["True", "True"]


def test_established_kind_stays_served_when_a_new_name_is_taken() -> None:
    first, second = established(names={"shortNames": ["ld"]}), established(plural="drives", names={"kind": "Drive"})
    second["spec"]["names"]["shortNames"] = ["ld"]
    second["status"] = definitions.established(second, others=[first])

    assert [c["status"] for c in second["status"]["conditions"]] == ["False", "True"]
    assert [resource.short_names for resource in definitions.resources_of(second)] == [()]


def test_what_is_stored_and_addressed_stays() -> None:
    old = established()

    assert CRDS.update(old, spec__scope="Namespaced").causes == {("spec.scope", "Invalid")}
    assert ("spec.names.plural", "Invalid") in CRDS.update(old, spec__names__plural="drives").causes
    assert CRDS.update(old, spec__versions=[version("v2")]).causes == {("status.storedVersions[0]", "Invalid")}
    outcome = CRDS.update(old, spec__versions=[version(storage=False), version("v2")])
    assert not outcome.errors
    assert outcome.obj["status"]["storedVersions"] == ["v1", "v2"]


def test_each_served_version_is_a_resource_of_its_own() -> None:
    old = version("v1beta1", storage=False, subresources={"status": {}})
    hidden = version("v1alpha1", storage=False, served=False)
    now = version(selectableFields=[{"jsonPath": ".spec.node"}])
    crd = established(versions=[old, hidden, now], names={"categories": ["all"]})
    first, second = definitions.resources_of(crd)

    assert (first.api_version, first.subresources, first.selectable_fields) == ("example.com/v1beta1", ("status",), ())
    assert (second.api_version, second.subresources, second.selectable_fields) == ("example.com/v1", (), ("spec.node",))
    assert (second.schema, second.storage_prefix) == ("com.example.v1.Disk", first.storage_prefix)
    assert second.custom
    assert not second.namespaced
    assert definitions.storage_version(crd) == "v1"


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
