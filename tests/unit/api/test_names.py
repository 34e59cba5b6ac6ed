"""What things may be called, and which metadata is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localpv.api import names


@pytest.mark.parametrize("name", ["a", "my-name", "0", "a" * 63])
def test_short_lowercase_names_are_dns_labels(name: str) -> None:
    assert names.dns_label(name) == []


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a_b", "ä", "a\n", "a b"])
def test_other_names_are_no_dns_labels_and_the_rule_is_told(name: str) -> None:
    (sentence,) = names.dns_label(name)
    assert "[a-z0-9]([-a-z0-9]*[a-z0-9])?" in sentence


def test_a_dns_label_is_told_about_its_dots_rather_than_its_letters() -> None:
    assert names.dns_label("a.b") == ["must not contain dots"]


def test_a_dns_label_ends_at_63_characters() -> None:
    assert names.dns_label("a" * 64) == ["must be no more than 63 characters"]


@pytest.mark.parametrize("name", ["a.b", "local-pv-1", "a" * 253])
def test_subdomains_may_have_dots_and_253_characters(name: str) -> None:
    assert names.dns_subdomain(name) == []


@pytest.mark.parametrize("name", ["", "a..b", ".a", "a.", "A.b", "a" * 254])
def test_bad_subdomains_are_refused(name: str) -> None:
    assert names.dns_subdomain(name) != []


def test_a_dns1035_label_starts_with_a_letter() -> None:
    assert names.dns1035_label("a1") == []
    assert names.dns1035_label("1a") != []
    assert names.dns1035_label("a" * 64) != []


@pytest.mark.parametrize("key", ["a", "A_b.C-1", "example.com/Name", "a/b", "a" * 253 + "/" + "b" * 63])
def test_qualified_names_have_an_optional_domain(key: str) -> None:
    assert names.qualified_name(key) == []


@pytest.mark.parametrize("key", ["", "/a", "a/", "a/b/c", "UP.com/a", "a b", "-a", "a-", "b" * 64, "a" * 254 + "/b"])
def test_bad_qualified_names_are_refused(key: str) -> None:
    assert names.qualified_name(key) != []


@pytest.mark.parametrize("value", ["", "a", "A.b_c-1", "1" * 63])
def test_label_values_may_be_empty_and_in_capitals(value: str) -> None:
    assert names.label_value(value) == []


@pytest.mark.parametrize("value", ["-", "a-", "a b", "a/b", "1" * 64, "a\n"])
def test_bad_label_values_are_refused(value: str) -> None:
    assert names.label_value(value) != []


def test_path_segments_refuse_only_what_breaks_a_url() -> None:
    assert names.path_segment("system:node:Ä b") == []
    assert names.path_segment(".") == ["may not be '.'"]
    assert names.path_segment("a/b%") == ["may not contain '/'", "may not contain '%'"]


def test_config_map_keys_are_safe_file_names() -> None:
    assert names.config_map_key("Key_1.conf") == []
    assert names.config_map_key(".hidden") == []
    for key in ("", "a/b", ".", "..", "..a", "k" * 254):
        assert names.config_map_key(key) != []


@given(st.text("abcdef-", max_size=80))
def test_generated_names_keep_the_start_and_fit_in_a_label(base: str) -> None:
    name = names.generate(base)
    assert name[:-5] == base[:58]
    assert len(name) <= 63
    assert set(name[-5:]) <= set("bcdfghjklmnpqrstvwxz2456789")


def wrong(meta: dict[str, Any], *, namespaced: bool = False, custom: bool = False) -> list[tuple[str, str]]:
    found = names.validate_object_meta(meta, namespaced=namespaced, check_name=names.dns_subdomain, custom=custom)
    return [(error.field, error.reason) for error in found]


def test_sound_metadata_has_nothing_wrong() -> None:
    meta = {
        "name": "a",
        "generateName": "a-",
        "namespace": "default",
        "labels": {"app": "x", "example.com/b": ""},
        "annotations": {"Example.COM/Note": "anything\n at all"},
        "finalizers": ["kubernetes.io/pv-protection", "orphan"],
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "1", "controller": True}
        ],
    }
    assert wrong(meta, namespaced=True) == []


@pytest.mark.parametrize(
    ("meta", "field", "reason"),
    [
        ({}, "metadata.name", "FieldValueRequired"),
        ({"name": "A"}, "metadata.name", "FieldValueInvalid"),
        ({"name": "a", "generateName": "A-"}, "metadata.generateName", "FieldValueInvalid"),
        ({"name": "a", "namespace": "b"}, "metadata.namespace", "FieldValueForbidden"),
        ({"name": "a", "labels": {"a b": ""}}, "metadata.labels", "FieldValueInvalid"),
        ({"name": "a", "labels": {"a": "-"}}, "metadata.labels", "FieldValueInvalid"),
        ({"name": "a", "annotations": {"a b": ""}}, "metadata.annotations", "FieldValueInvalid"),
        ({"name": "a", "annotations": {"a": "ä" * 131072}}, "metadata.annotations", "FieldValueTooLong"),
        ({"name": "a", "finalizers": ["a/b/c"]}, "metadata.finalizers", "FieldValueInvalid"),
        ({"name": "a", "finalizers": ["bare"]}, "metadata.finalizers[0]", "FieldValueInvalid"),
        ({"name": "a", "finalizers": ["orphan", "foregroundDeletion"]}, "metadata.finalizers", "FieldValueInvalid"),
        ({"name": "a", "generation": -1}, "metadata.generation", "FieldValueInvalid"),
    ],
)
def test_metadata_names_the_field_that_is_wrong(meta: dict[str, Any], field: str, reason: str) -> None:
    assert wrong(meta) == [(field, reason)]


def test_a_namespaced_object_needs_a_sound_namespace() -> None:
    assert wrong({"name": "a"}, namespaced=True) == [("metadata.namespace", "FieldValueRequired")]
    assert wrong({"name": "a", "namespace": "a.b"}, namespaced=True) == [("metadata.namespace", "FieldValueInvalid")]


def test_objects_of_custom_kinds_may_have_finalizers_without_a_domain() -> None:
    assert wrong({"name": "a", "finalizers": ["bare"]}, custom=True) == []


def test_an_owner_reference_needs_all_four_fields() -> None:
    path = "metadata.ownerReferences"
    assert [field for field, _ in wrong({"name": "a", "ownerReferences": [{}]})] == [
        f"{path}.apiVersion", f"{path}.kind", f"{path}.name", f"{path}.uid",
    ]  # fmt: skip


@pytest.mark.parametrize("version", ["a/b/c", "apps/", ""])
def test_an_owner_needs_a_version_that_can_be_read(version: str) -> None:
    owner = {"apiVersion": version, "kind": "Pod", "name": "p", "uid": "1"}
    assert wrong({"name": "a", "ownerReferences": [owner]}) == [
        ("metadata.ownerReferences.apiVersion", "FieldValueInvalid")
    ]


def test_only_one_owner_may_be_the_controller_and_events_own_nothing() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", "controller": True}
    assert wrong({"name": "a", "ownerReferences": [pod, pod | {"uid": "2"}]}) != []
    assert wrong({"name": "a", "ownerReferences": [pod, pod | {"controller": False}]}) == []
    assert wrong({"name": "a", "ownerReferences": [pod | {"kind": "Event"}]}) != []


@pytest.mark.parametrize("field", ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"])
def test_what_identifies_an_object_never_changes(field: str) -> None:
    (error,) = names.validate_object_meta_update({field: "new"}, {field: "old"})
    assert (error.field, error.message) == (f"metadata.{field}", 'Invalid value: "new": field is immutable')
    assert names.validate_object_meta_update({}, {field: "old"}) == []


def test_a_dying_object_may_lose_finalizers_and_not_gain_any() -> None:
    old = {"deletionTimestamp": "2025-01-01T00:00:00Z", "finalizers": ["a.io/x", "a.io/y"]}
    assert names.validate_object_meta_update({"finalizers": ["a.io/x"]}, old) == []
    (error,) = names.validate_object_meta_update({"finalizers": ["a.io/x", "a.io/z"]}, old)
    assert (error.field, error.reason) == ("metadata.finalizers", "FieldValueForbidden")
    assert names.validate_object_meta_update({"finalizers": ["a.io/z"]}, {}) == []
