"""Our own words for `kubectl explain`."""

from __future__ import annotations

import json
from importlib import resources

import pytest

from localpv.api.resources import REVIEWS, Resource
from localpv.api.schema.catalogue import Catalogue
from localpv.api.stored_resources import EVERY

CORE = "io.k8s.api.core.v1"
STORAGE = "io.k8s.api.storage.v1"
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
COMPLETE = (
    f"{CORE}.PersistentVolumeSpec", f"{CORE}.PersistentVolumeStatus", f"{CORE}.PersistentVolumeClaimSpec",
    f"{CORE}.PersistentVolumeClaimStatus", f"{CORE}.LocalVolumeSource", f"{CORE}.VolumeNodeAffinity",
    f"{CORE}.NodeSelector", f"{CORE}.NodeSelectorTerm", f"{CORE}.NodeSelectorRequirement", f"{CORE}.VolumeMount",
    f"{CORE}.VolumeDevice", f"{CORE}.Volume", f"{CORE}.CSIPersistentVolumeSource", f"{STORAGE}.StorageClass",
    f"{STORAGE}.CSIDriver", f"{STORAGE}.CSIDriverSpec", f"{STORAGE}.CSIStorageCapacity", f"{STORAGE}.VolumeAttachment",
    f"{STORAGE}.VolumeAttachmentSpec", f"{STORAGE}.VolumeAttachmentStatus", "io.k8s.api.apps.v1.StatefulSetSpec",
    "io.k8s.api.coordination.v1.LeaseSpec", f"{META}.ObjectMeta", f"{META}.OwnerReference", f"{META}.LabelSelector",
)  # fmt: skip


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue()


@pytest.fixture(scope="module")
def descriptions() -> dict[str, str]:
    text = (resources.files("localpv.api.schema") / "descriptions.json").read_text()
    found: dict[str, str] = json.loads(text)
    return found


def test_every_sentence_is_about_something_that_exists(catalogue: Catalogue, descriptions: dict[str, str]) -> None:
    known = set(catalogue.names())
    fields = {f"{name}.{field}" for name in known for field in catalogue.openapi(name).get("properties", {})}
    assert set(descriptions) <= known | fields


def test_every_sentence_ends_like_one(descriptions: dict[str, str]) -> None:
    assert [name for name, text in descriptions.items() if not text.endswith(".") or text != text.strip()] == []


def test_sentences_are_kept_in_order(descriptions: dict[str, str]) -> None:
    assert list(descriptions) == sorted(descriptions)


@pytest.mark.parametrize("resource", [*EVERY, *REVIEWS], ids=lambda resource: resource.qualified)
def test_every_kind_is_explained_at_its_top(resource: Resource, catalogue: Catalogue) -> None:
    schema = catalogue.openapi(resource.schema)
    assert schema["description"]
    common = {"apiVersion", "kind", "metadata", "spec", "status"} & set(schema["properties"])
    assert [field for field in sorted(common) if not schema["properties"][field].get("description")] == []


@pytest.mark.parametrize("name", COMPLETE)
def test_every_field_that_has_to_do_with_volumes_is_explained(name: str, catalogue: Catalogue) -> None:
    schema = catalogue.openapi(name)
    assert schema["description"]
    assert [field for field, child in schema["properties"].items() if not child.get("description")] == []
