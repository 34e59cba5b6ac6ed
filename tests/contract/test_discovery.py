"""What the server says it serves: the version, the health, the groups, the resources, the schemas."""

from __future__ import annotations

import re

import pytest
from tests.contract import wire
from tests.contract.wire import Api

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

CORE_RESOURCES = {
    "configmaps": ("ConfigMap", True, ["cm"]),
    "events": ("Event", True, ["ev"]),
    "namespaces": ("Namespace", False, ["ns"]),
    "nodes": ("Node", False, ["no"]),
    "persistentvolumeclaims": ("PersistentVolumeClaim", True, ["pvc"]),
    "persistentvolumes": ("PersistentVolume", False, ["pv"]),
    "pods": ("Pod", True, ["po"]),
    "podtemplates": ("PodTemplate", True, None),
    "replicationcontrollers": ("ReplicationController", True, ["rc"]),
    "secrets": ("Secret", True, None),
    "serviceaccounts": ("ServiceAccount", True, ["sa"]),
    "services": ("Service", True, ["svc"]),
}

GROUP_RESOURCES = [
    ("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False),
    ("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False),
    ("admissionregistration.k8s.io/v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False),
    ("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", False),
    ("apps/v1", "daemonsets", "DaemonSet", True),
    ("apps/v1", "controllerrevisions", "ControllerRevision", True),
    ("apps/v1", "deployments", "Deployment", True),
    ("apps/v1", "replicasets", "ReplicaSet", True),
    ("apps/v1", "statefulsets", "StatefulSet", True),
    ("batch/v1", "jobs", "Job", True),
    ("coordination.k8s.io/v1", "leases", "Lease", True),
    ("events.k8s.io/v1", "events", "Event", True),
    ("rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", False),
    ("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", False),
    ("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding", True),
    ("rbac.authorization.k8s.io/v1", "roles", "Role", True),
    ("storage.k8s.io/v1", "csidrivers", "CSIDriver", False),
    ("storage.k8s.io/v1", "csinodes", "CSINode", False),
    ("storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity", True),
    ("storage.k8s.io/v1", "storageclasses", "StorageClass", False),
    ("storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", False),
]


def test_version_names_a_release_and_needs_no_token(api: Api) -> None:
    version = api.as_bearer(None).get("/version")
    assert version["major"] == "1"
    assert re.fullmatch(r"v1\.\d+\.\d+.*", version["gitVersion"])
    assert {"minor", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"} <= version.keys()


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_health_is_ok_in_plain_text_and_needs_no_token(api: Api, path: str) -> None:
    answer = api.as_bearer(None).send("GET", path, accept="*/*")
    assert (answer.code, answer.raw) == (200, b"ok")
    assert answer.headers["content-type"].startswith("text/plain")


def test_verbose_health_lists_its_checks(api: Api) -> None:
    text = api.send("GET", "/readyz", accept="*/*", verbose="").raw.decode()
    assert "[+]ping ok" in text
    assert text.rstrip().endswith("readyz check passed")


def test_core_versions(api: Api) -> None:
    versions = api.get("/api")
    assert (versions["kind"], versions["versions"]) == ("APIVersions", ["v1"])
    assert versions["serverAddressByClientCIDRs"]


@pytest.mark.parametrize("plural", CORE_RESOURCES)
def test_core_resources_with_scope_and_short_names(api: Api, plural: str) -> None:
    kind, namespaced, short_names = CORE_RESOURCES[plural]
    listed = {resource["name"]: resource for resource in api.get("/api/v1")["resources"]}
    entry = listed[plural]
    assert (entry["kind"], entry["namespaced"], entry.get("shortNames")) == (kind, namespaced, short_names)
    assert {"create", "delete", "get", "list", "patch", "update", "watch"} <= set(entry["verbs"])
    assert entry["storageVersionHash"]


def test_subresources_are_listed_beside_their_resource(api: Api) -> None:
    listed = {resource["name"]: resource for resource in api.get("/api/v1")["resources"]}
    assert listed["pods/status"]["verbs"] == ["get", "patch", "update"]
    assert listed["pods/binding"]["kind"] == "Binding"
    assert (listed["pods/eviction"]["group"], listed["pods/eviction"]["version"]) == ("policy", "v1")
    assert listed["serviceaccounts/token"]["kind"] == "TokenRequest"
    assert listed["serviceaccounts/token"]["group"] == "authentication.k8s.io"
    assert listed["namespaces/finalize"]["verbs"] == ["update"]
    scale = {resource["name"]: resource for resource in api.get("/apis/apps/v1")["resources"]}["deployments/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")


@pytest.mark.parametrize(("group_version", "plural", "kind", "namespaced"), GROUP_RESOURCES)
def test_group_resources(api: Api, group_version: str, plural: str, kind: str, namespaced: bool) -> None:
    listing = api.get(f"/apis/{group_version}")
    assert (listing["kind"], listing["apiVersion"], listing["groupVersion"]) == ("APIResourceList", "v1", group_version)
    entry = next(resource for resource in listing["resources"] if resource["name"] == plural)
    assert (entry["kind"], entry["namespaced"]) == (kind, namespaced)
    assert entry["singularName"] == kind.lower()


def test_groups_name_their_versions_and_the_preferred_one(api: Api) -> None:
    listing = api.get("/apis")
    assert (listing["kind"], listing["apiVersion"]) == ("APIGroupList", "v1")
    apps = next(group for group in listing["groups"] if group["name"] == "apps")
    assert apps["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    one = api.get("/apis/apps")
    assert (one["kind"], one["name"]) == ("APIGroup", "apps")
    assert one["versions"] == apps["versions"]


def test_pods_are_in_category_all(api: Api) -> None:
    listed = {resource["name"]: resource for resource in api.get("/api/v1")["resources"]}
    assert listed["pods"]["categories"] == ["all"]
    assert "categories" not in listed["configmaps"]


@pytest.mark.parametrize(("path", "group"), [("/api", ""), ("/apis", "storage.k8s.io")])
def test_aggregated_discovery_carries_everything_in_one_answer(api: Api, path: str, group: str) -> None:
    answer = api.send("GET", path, accept=f"{AGGREGATED},application/json")
    assert answer.headers["content-type"] == AGGREGATED
    assert answer.body["kind"] == "APIGroupDiscoveryList"
    assert answer.body["apiVersion"] == "apidiscovery.k8s.io/v2"
    found = next(item for item in answer.body["items"] if item.get("metadata", {}).get("name", "") == group)
    version = next(version for version in found["versions"] if version["version"] == "v1")
    assert version["freshness"] == "Current"
    wanted = "pods" if group == "" else "storageclasses"
    resource = next(resource for resource in version["resources"] if resource["resource"] == wanted)
    assert resource["responseKind"]["kind"] in ("Pod", "StorageClass")
    assert resource["scope"] == ("Namespaced" if group == "" else "Cluster")
    assert resource["singularResource"] == wanted.removesuffix("s").replace("classe", "class")
    if group == "":
        assert "binding" in {sub["subresource"] for sub in resource["subresources"]}


def test_aggregated_discovery_answers_304_to_its_own_etag(api: Api) -> None:
    def unchanged() -> bool:
        first = api.send("GET", "/apis", accept=AGGREGATED)
        again = api.send("GET", "/apis", accept=AGGREGATED, headers={"If-None-Match": first.headers["etag"]})
        return (again.code, again.raw) == (304, b"")

    # Kinds that tests before this one have defined may go between the two requests.
    wire.eventually(unchanged, "nothing has changed")


def test_openapi_v3_index_points_to_schemas_with_group_version_kinds(api: Api) -> None:
    paths = api.get("/openapi/v3")["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/storage.k8s.io/v1"} <= paths.keys()
    document = api.get(paths["api/v1"]["serverRelativeURL"])
    assert document["openapi"].startswith("3.0")
    schemas = document["components"]["schemas"]
    volume = schemas["io.k8s.api.core.v1.PersistentVolume"]
    assert {"group": "", "kind": "PersistentVolume", "version": "v1"} in volume["x-kubernetes-group-version-kind"]
    assert "/api/v1/persistentvolumes" in document["paths"]


def test_openapi_v2_defines_the_kinds(api: Api) -> None:
    document = api.get("/openapi/v2")
    assert document["swagger"] == "2.0"
    claim = document["definitions"]["io.k8s.api.core.v1.PersistentVolumeClaim"]
    assert claim["x-kubernetes-group-version-kind"] == [{"group": "", "kind": "PersistentVolumeClaim", "version": "v1"}]
