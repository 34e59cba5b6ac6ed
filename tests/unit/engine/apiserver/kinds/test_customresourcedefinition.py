"""CustomResourceDefinitions: what is allowed, which names are accepted, what is served."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.apiserver.kinds.writes import Writes

from localpv.engine.apiserver.kinds import customresourcedefinition as definitions

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
