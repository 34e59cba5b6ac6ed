"""What clients learn about the API before they ask for an object."""

from __future__ import annotations

import json
from typing import Any

import pytest

from localpv.api.resources import BUILT_IN, REVIEWS, Resource
from localpv.engine.apiserver import discovery

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
KUBECTL = f"{AGGREGATED},{AGGREGATED.replace('v=v2', 'v=v2beta1')},application/json"


def custom(version: str = "v1alpha1", **more: Any) -> Resource:
    fields = {
        "group": "localpv.dev",
        "kind": "LocalDisk",
        "plural": "localdisks",
        "singular": "localdisk",
        "namespaced": False,
        "schema": "",
        "custom": True,
        "subresources": ("status", "scale"),
        **more,
    }
    return Resource(version=version, **fields)


RESOURCES = (*BUILT_IN, *REVIEWS, custom())


def read(path: str, accept: str = "application/json", resources: tuple[Resource, ...] = RESOURCES) -> Any:
    answer = discovery.respond(path, accept, resources)
    assert answer is not None
    assert answer.status == 200
    return json.loads(answer.body)


def test_groups_come_in_the_order_of_kubernetes_and_custom_ones_last() -> None:
    assert [group["name"] for group in read("/apis")["groups"]] == [
        "apps",
        "events.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "batch",
        "rbac.authorization.k8s.io",
        "storage.k8s.io",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "coordination.k8s.io",
        "localpv.dev",
    ]


def test_the_most_stable_and_newest_version_is_preferred() -> None:
    names = ("v1beta1", "v2alpha1", "v1", "next", "v10", "v1beta2", "v2")
    found = read("/apis/localpv.dev", resources=tuple(custom(name) for name in names))
    assert found["preferredVersion"] == {"groupVersion": "localpv.dev/v10", "version": "v10"}
    assert [version["version"] for version in found["versions"]] == [
        "v10", "v2", "v1", "v1beta2", "v1beta1", "v2alpha1", "next",
    ]  # fmt: skip


def test_core_resources_list_their_subresources_with_the_kinds_these_take() -> None:
    found = {entry["name"]: entry for entry in read("/api/v1")["resources"]}
    assert found["pods"]["shortNames"] == ["po"]
    assert found["pods"]["categories"] == ["all"]
    assert "deletecollection" not in found["namespaces"]["verbs"]
    assert found["pods/status"] == {
        "name": "pods/status",
        "singularName": "",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["get", "patch", "update"],
    }
    assert found["pods/binding"]["kind"] == "Binding"
    assert "group" not in found["pods/binding"]
    eviction = found["pods/eviction"]
    assert (eviction["group"], eviction["version"], eviction["kind"]) == ("policy", "v1", "Eviction")
    token = found["serviceaccounts/token"]
    assert (token["group"], token["kind"], token["verbs"]) == ("authentication.k8s.io", "TokenRequest", ["create"])
    assert found["namespaces/finalize"]["verbs"] == ["update"]


def test_a_group_version_names_itself_as_kubernetes_does() -> None:
    core, apps = read("/api/v1"), read("/apis/apps/v1/")
    assert (core["kind"], core["groupVersion"], "apiVersion" in core) == ("APIResourceList", "v1", False)
    assert (apps["kind"], apps["groupVersion"], apps["apiVersion"]) == ("APIResourceList", "apps/v1", "v1")
    assert read("/api")["versions"] == ["v1"]


@pytest.mark.parametrize("path", ["/apis/nowhere", "/apis/apps/v7", "/api/v2", "/api/v1/pods", "/apis//v1", "/x"])
def test_what_does_not_exist_is_not_described(path: str) -> None:
    assert discovery.respond(path, "application/json", RESOURCES) is None


@pytest.mark.parametrize(
    ("accept", "aggregated"),
    [
        (KUBECTL, True),
        (AGGREGATED, True),
        (f"{AGGREGATED};profile=nopeer", True),
        ("application/json", False),
        ("", False),
        ("*/*", False),
        (AGGREGATED.replace("v=v2", "v=v2beta1") + ",application/json", False),
        (f"application/json,{AGGREGATED}", False),
        (f"application/vnd.kubernetes.protobuf,{AGGREGATED}", True),
    ],
)
def test_aggregated_discovery_is_for_those_who_ask_for_it_first(accept: str, aggregated: bool) -> None:
    kind = read("/apis", accept)["kind"]
    assert kind == ("APIGroupDiscoveryList" if aggregated else "APIGroupList")


def test_aggregated_discovery_tells_everything_at_once() -> None:
    answer = discovery.respond("/apis", KUBECTL, RESOURCES)
    assert answer is not None
    assert answer.content_type == AGGREGATED
    items = {item["metadata"]["name"]: item for item in json.loads(answer.body)["items"]}
    (apps,) = items["apps"]["versions"]
    assert apps["freshness"] == "Current"
    scaled = next(entry for entry in apps["resources"] if entry["resource"] == "statefulsets")
    assert scaled["scope"] == "Namespaced"
    assert scaled["responseKind"] == {"group": "", "version": "", "kind": "StatefulSet"}
    assert scaled["subresources"][0] == {
        "subresource": "scale",
        "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "verbs": ["get", "patch", "update"],
    }
    (disks,) = items["localpv.dev"]["versions"][0]["resources"]
    assert disks["scope"] == "Cluster"
    assert disks["responseKind"] == {"group": "localpv.dev", "version": "v1alpha1", "kind": "LocalDisk"}


def test_aggregated_discovery_of_the_core_group_has_no_name() -> None:
    (core,) = read("/api", KUBECTL)["items"]
    assert core["metadata"] == {}
    assert [version["version"] for version in core["versions"]] == ["v1"]


def test_who_has_the_present_state_is_told_so_and_who_has_an_old_one_gets_the_new() -> None:
    first = discovery.respond("/apis", KUBECTL, RESOURCES)
    assert first is not None
    etag = first.headers["ETag"]
    again = discovery.respond("/apis", KUBECTL, RESOURCES, if_none_match=etag)
    changed = discovery.respond("/apis", KUBECTL, BUILT_IN, if_none_match=etag)
    assert again is not None and changed is not None
    assert (again.status, again.body) == (304, b"")
    assert changed.status == 200
    assert changed.headers["ETag"] != etag


def test_version_is_that_of_kubernetes_with_ours_behind_it() -> None:
    found = read("/version")
    assert (found["major"], found["minor"]) == ("1", "35")
    assert found["gitVersion"].startswith("v1.35.8+localpv-")
    assert all(isinstance(value, str) for value in found.values())


def test_the_root_lists_where_to_go() -> None:
    found = read("/")["paths"]
    assert found == sorted(found)
    assert {"/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/openapi/v3", "/version"} <= set(found)
