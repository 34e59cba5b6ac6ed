"""The OpenAPI documents as clients see them."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from localpv.api.resources import BUILT_IN, REVIEWS, Resource
from localpv.api.schema.catalogue import Catalogue
from localpv.engine.apiserver.discovery import Answer
from localpv.engine.apiserver.openapi import Documents
from localpv.testing.waiting import PATIENCE_SECONDS

DISK = Resource(
    group="localpv.dev",
    version="v1alpha1",
    kind="LocalDisk",
    plural="localdisks",
    singular="localdisk",
    namespaced=False,
    schema="",
    custom=True,
    list_kind="LocalDiskList",
    subresources=("status", "scale"),
    selectable_fields=("spec.nodeName",),
)
DISK_SCHEMA = {
    "type": "object",
    "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
}
PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


class World:
    """A server's kinds, which a test can change."""

    def __init__(self) -> None:
        self.resources: list[Resource] = [*BUILT_IN, *REVIEWS, DISK]
        self.schema: dict[str, Any] | None = DISK_SCHEMA
        self.documents = Documents(lambda: self.resources, Catalogue(), lambda resource: self.schema)

    def v3(self, path: str) -> Any:
        return json.loads(self.get(f"/openapi/v3/{path.strip('/')}").body)

    def index(self) -> bytes:
        return self.get("/openapi/v3").body

    def v2(self, accept: str = "") -> bytes:
        return self.get("/openapi/v2", accept=accept).body

    def get(self, path: str, **more: str) -> Answer:
        answer = self.documents.respond(path, **more)
        assert answer is not None
        return answer


@pytest.fixture(scope="module")
def shared() -> World:
    """For tests that change nothing."""
    return World()


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for child in value.values():
            yield from references(child)
    elif isinstance(value, list):
        for child in value:
            yield from references(child)


def operations(document: Any) -> Iterator[tuple[str, str, Any]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method != "parameters":
                yield path, method, operation


def test_the_index_leads_to_a_document_for_every_group_and_version(shared: World) -> None:
    index = json.loads(shared.index())["paths"]
    assert set(index) == {resource.path.strip("/") for resource in shared.resources}
    for path, entry in index.items():
        address, _, hash = entry["serverRelativeURL"].partition("?hash=")
        assert address == f"/openapi/v3/{path}"
        assert shared.get(address, hash=hash).status == 200


def test_every_reference_of_every_document_leads_somewhere(shared: World) -> None:
    documents = [shared.v3(path) for path in json.loads(shared.index())["paths"]]
    for document in documents:
        schemas = document["components"]["schemas"]
        assert {target.rpartition("/")[2] for target in references(document)} <= set(schemas)
    old = json.loads(shared.v2())
    assert {target.removeprefix("#/definitions/") for target in references(old)} == set(old["definitions"])


def test_every_operation_has_an_id_of_its_own(shared: World) -> None:
    old = json.loads(shared.v2())
    ids = [operation["operationId"] for _, _, operation in operations(old)]
    assert len(ids) == len(set(ids)) > 200
    assert {"listCoreV1PodForAllNamespaces", "createCoreV1NamespacedPodBinding", "readCoreV1PersistentVolume",
            "deleteStorageV1CollectionStorageClass", "patchRbacAuthorizationV1NamespacedRole",
            "replaceLocalpvDevV1alpha1LocalDiskStatus"} <= set(ids)  # fmt: skip


def test_patching_any_kind_allows_dry_run_and_field_validation(shared: World) -> None:
    """This is what kubectl looks for before it sends such a request."""
    for resource in shared.resources:
        if "patch" not in resource.verbs:
            continue
        wanted = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        found = [
            {parameter["name"] for parameter in operation["parameters"]}
            for _, method, operation in operations(shared.v3(resource.path))
            if method == "patch" and operation["x-kubernetes-group-version-kind"] == wanted
        ]
        assert found
        assert all({"dryRun", "fieldManager", "fieldValidation", "force"} <= names for names in found)


def test_custom_kinds_offer_no_strategic_merge_patch(shared: World) -> None:
    strategic = "application/strategic-merge-patch+json"
    old = json.loads(shared.v2())["paths"]
    assert strategic in old["/api/v1/persistentvolumes/{name}"]["patch"]["consumes"]
    assert strategic not in old["/apis/localpv.dev/v1alpha1/localdisks/{name}"]["patch"]["consumes"]


def test_deletion_returns_what_kubernetes_returns(shared: World) -> None:
    paths = shared.v3("api/v1")["paths"]

    def returned(path: str) -> str:
        schema = paths[path]["delete"]["responses"]["200"]["content"]["application/json"]["schema"]
        return str(schema["$ref"]).rpartition(".")[2]

    assert returned("/api/v1/persistentvolumes/{name}") == "PersistentVolume"
    assert returned("/api/v1/nodes/{name}") == "Status"


def test_reviews_can_only_be_created(shared: World) -> None:
    paths = shared.v3("apis/authorization.k8s.io/v1")["paths"]
    assert set(paths["/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"]) == {"post", "parameters"}
    assert "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/{name}" not in paths


def test_a_field_of_a_volume_is_explained(shared: World) -> None:
    schemas = shared.v3("api/v1")["components"]["schemas"]
    local = schemas["io.k8s.api.core.v1.PersistentVolumeSpec"]["properties"]["local"]
    assert local["allOf"] == [{"$ref": "#/components/schemas/io.k8s.api.core.v1.LocalVolumeSource"}]
    assert "node" in local["description"]


def test_v2_writes_quantities_and_int_or_string_as_strings(shared: World) -> None:
    definitions = json.loads(shared.v2())["definitions"]
    assert definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"]["type"] == "string"
    port = definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]
    assert (port["type"], port["format"]) == ("string", "int-or-string")


def test_v2_keeps_the_fields_of_the_schema_of_schemas_whatever_they_are_called(shared: World) -> None:
    definitions = json.loads(shared.v2())["definitions"]
    name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    assert {"$ref", "default", "oneOf", "not", "nullable", "allOf"} <= set(definitions[name]["properties"])


def test_a_custom_kind_is_published_under_its_group_backwards(shared: World) -> None:
    schemas = shared.v3("apis/localpv.dev/v1alpha1")["components"]["schemas"]
    disk = schemas["dev.localpv.v1alpha1.LocalDisk"]
    assert set(disk["properties"]) == {"apiVersion", "kind", "metadata", "spec"}
    assert disk["x-kubernetes-group-version-kind"] == [
        {"group": "localpv.dev", "kind": "LocalDisk", "version": "v1alpha1"}
    ]
    assert disk["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.nodeName"}]
    items = schemas["dev.localpv.v1alpha1.LocalDiskList"]["properties"]["items"]
    assert items["items"] == {"$ref": "#/components/schemas/dev.localpv.v1alpha1.LocalDisk"}
    assert "io.k8s.api.autoscaling.v1.Scale" in schemas


def test_a_changed_custom_kind_shows_after_invalidation() -> None:
    world = World()
    index = json.loads(world.index())["paths"]
    world.v2()

    world.schema = {"type": "object", "properties": {"status": {"type": "object"}}}
    world.documents.invalidate()

    disk = world.v3("apis/localpv.dev/v1alpha1")["components"]["schemas"]["dev.localpv.v1alpha1.LocalDisk"]
    assert set(disk["properties"]) == {"apiVersion", "kind", "metadata", "status"}
    definitions = json.loads(world.v2())["definitions"]
    assert "status" in definitions["dev.localpv.v1alpha1.LocalDisk"]["properties"]
    changed = json.loads(world.index())["paths"]
    assert {path for path in index if index[path] != changed[path]} == {"apis/localpv.dev/v1alpha1"}


def test_documents_of_built_in_kinds_are_built_once() -> None:
    asked: list[str] = []

    class Watched(Catalogue):
        def openapi(self, name: str) -> dict[str, Any]:
            asked.append(name)
            return super().openapi(name)

    documents = Documents(lambda: [*BUILT_IN, DISK], Watched(), lambda resource: DISK_SCHEMA)
    first = documents.respond("/openapi/v3/api/v1")
    assert "io.k8s.api.core.v1.Pod" in asked
    asked.clear()
    documents.invalidate()
    assert documents.respond("/openapi/v3/api/v1") == first
    assert asked == []


def test_a_custom_kind_that_is_gone_is_gone_from_all_documents() -> None:
    world = World()
    assert world.v3("apis/localpv.dev/v1alpha1")
    world.resources.remove(DISK)
    world.documents.invalidate()
    assert world.documents.respond("/openapi/v3/apis/localpv.dev/v1alpha1") is None
    assert "apis/localpv.dev/v1alpha1" not in json.loads(world.index())["paths"]
    assert b"LocalDisk" not in world.v2()
    assert b"LocalDisk" not in world.v2(PROTOBUF)


def test_a_change_while_a_document_is_built_is_not_lost() -> None:
    world = World()
    building, change_made = threading.Event(), threading.Event()

    def slow(resource: Resource) -> dict[str, Any] | None:
        schema = world.schema
        building.set()
        change_made.wait(PATIENCE_SECONDS)
        return schema

    documents = Documents(lambda: world.resources, Catalogue(), slow)
    thread = threading.Thread(target=documents.respond, args=("/openapi/v3/apis/localpv.dev/v1alpha1",))
    thread.start()
    building.wait(PATIENCE_SECONDS)
    world.schema = {"type": "object", "properties": {"late": {"type": "string"}}}
    documents.invalidate()
    change_made.set()
    thread.join(10)
    answer = documents.respond("/openapi/v3/apis/localpv.dev/v1alpha1")
    assert answer is not None and b'"late"' in answer.body


def test_nothing_is_built_before_somebody_asks() -> None:
    class Untouchable:
        def openapi(self, name: str) -> dict[str, Any]:
            raise AssertionError(name)

    def no_resources() -> list[Resource]:
        raise AssertionError

    documents = Documents(no_resources, Untouchable(), lambda resource: None)
    documents.invalidate()
    assert documents.respond("/openapi/v4") is None


def test_an_outdated_hash_is_sent_to_the_present_one(shared: World) -> None:
    moved = shared.get("/openapi/v3/api/v1", hash="0123")
    assert moved.status == 301
    address, _, hash = moved.headers["Location"].partition("?hash=")
    found = shared.get(address, hash=hash)
    assert found.status == 200
    assert found.headers["Cache-Control"] == "public, immutable"
    assert "Expires" in found.headers


def test_without_a_hash_a_client_has_to_ask_again_and_may_learn_that_nothing_changed(shared: World) -> None:
    found = shared.get("/openapi/v3/api/v1")
    assert found.headers["Cache-Control"] == "no-cache, private"
    again = shared.get("/openapi/v3/api/v1", if_none_match=found.headers["ETag"])
    assert (again.status, again.body) == (304, b"")


def test_compressed_answers_are_for_those_who_take_them(shared: World) -> None:
    plain = shared.get("/openapi/v2")
    small = shared.get("/openapi/v2", accept_encoding="gzip, deflate")
    assert small.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert gzip.decompress(small.body) == plain.body
    assert len(small.body) < len(plain.body) / 10


@pytest.mark.parametrize(
    ("path", "accept", "status", "content_type"),
    [
        ("/openapi/v2", "", 200, "application/json"),
        ("/openapi/v2", "application/json", 200, "application/json"),
        ("/openapi/v2", PROTOBUF, 200, PROTOBUF.replace("@", ".")),
        ("/openapi/v2", f"{PROTOBUF},application/json", 200, PROTOBUF.replace("@", ".")),
        ("/openapi/v2", "text/html", 406, ""),
        ("/openapi/v3", "application/json, */*", 200, "application/json"),
        ("/openapi/v3/api/v1", "application/json", 200, "application/json"),
        ("/openapi/v3/api/v1", "*/*", 200, "application/json"),
        ("/openapi/v3/api/v1", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf", 406, ""),
    ],
)
def test_the_form_is_the_one_the_client_accepts(
    shared: World, path: str, accept: str, status: int, content_type: str
) -> None:
    found = shared.get(path, accept=accept)
    assert found.status == status
    if content_type:
        assert found.content_type == content_type


@pytest.mark.parametrize("path", ["/openapi/v3/api/v7", "/openapi/v3/apis/nowhere/v1", "/openapi/v3/x", "/openapi"])
def test_there_is_no_document_for_what_does_not_exist(shared: World, path: str) -> None:
    assert shared.documents.respond(path) is None


def test_what_is_kept_is_small(shared: World) -> None:
    shared.index(), shared.v2(), shared.v2(PROTOBUF)
    assert sum(len(kept.gzipped) for kept in shared.documents._kept.values()) < 300_000
