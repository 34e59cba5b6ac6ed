"""kubectl, unchanged, as people look around with it: discovery, explain, get, watch."""

from __future__ import annotations

import json

import pytest
import yaml
from tests.clients.conftest import CONFIG, Kubectl
from tests.contract import builders
from tests.contract.wire import Api


def test_version_of_the_server(kubectl: Kubectl) -> None:
    assert "Server Version: v1." in kubectl("version")


def test_api_resources(kubectl: Kubectl) -> None:
    lines = {line.split()[0]: line for line in kubectl("api-resources", "--no-headers").splitlines()}
    assert lines["persistentvolumes"].split() == ["persistentvolumes", "pv", "v1", "false", "PersistentVolume"]
    assert lines["storageclasses"].split()[1:3] == ["sc", "storage.k8s.io/v1"]
    namespaced = kubectl("api-resources", "--namespaced=true", "--output=name").split()
    assert "persistentvolumeclaims" in namespaced
    assert "persistentvolumes" not in namespaced
    wide = kubectl("api-resources", "--api-group=apps", "--output=wide")
    assert "create,delete,deletecollection,get,list,patch,update,watch" in wide


def test_api_versions(kubectl: Kubectl) -> None:
    assert {"v1", "apps/v1", "storage.k8s.io/v1", "rbac.authorization.k8s.io/v1"} <= set(
        kubectl("api-versions").split()
    )


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("persistentvolume.spec.local", ["path", "fsType", "<string>"]),
        ("pvc.spec", ["volumeMode", "accessModes", "storageClassName"]),
        ("storageclass", ["provisioner", "reclaimPolicy", "GROUP:", "storage.k8s.io"]),
        ("pod.spec.containers.volumeDevices", ["devicePath", "-required-"]),
        ("statefulset.spec.volumeClaimTemplates", ["<[]PersistentVolumeClaim>"]),
    ],
)
def test_explain(kubectl: Kubectl, what: str, words: list[str]) -> None:
    text = kubectl("explain", what)
    assert all(word in text for word in words), text


def test_explain_recursive(kubectl: Kubectl) -> None:
    assert "nodeSelectorTerms" in kubectl("explain", "pv.spec.nodeAffinity", "--recursive")


def test_explain_of_an_unknown_field(kubectl: Kubectl) -> None:
    assert 'field "nothing" does not exist' in kubectl("explain", "pv.spec.nothing", expect=1)


def test_unknown_kind(kubectl: Kubectl) -> None:
    assert 'the server doesn\'t have a resource type "wonders"' in kubectl("get", "wonders", expect=1)


def test_raw(kubectl: Kubectl) -> None:
    assert json.loads(kubectl("get", "--raw=/version"))["major"] == "1"


def test_get_of_nothing(kubectl: Kubectl) -> None:
    assert kubectl("get", "pods").strip() == f"No resources found in {kubectl.space.name} namespace."
    assert 'Error from server (NotFound): pods "missing" not found' in kubectl("get", "pod", "missing", expect=1)


def test_get_in_every_shape(kubectl: Kubectl) -> None:
    kubectl("apply", "--filename=-", stdin=CONFIG)
    head, row = kubectl("get", "configmap", "settings").splitlines()
    assert head.split() == ["NAME", "DATA", "AGE"]
    assert row.split()[:2] == ["settings", "1"]
    assert yaml.safe_load(kubectl("get", "cm", "settings", "--output=yaml"))["data"] == {"color": "red"}
    assert kubectl.json("get", "cm/settings")["kind"] == "ConfigMap"
    assert kubectl("get", "cm", "settings", "--output=jsonpath={.data.color}") == "red"
    assert kubectl("get", "cm", "settings", "--output=name").strip() == "configmap/settings"
    columns = kubectl("get", "cm", "settings", "--output=custom-columns=C:.data.color", "--no-headers")
    assert columns.strip() == "red"
    template = kubectl("get", "cm", "settings", "--output=go-template={{.metadata.name}}")
    assert template == "settings"
    assert kubectl("get", "cm", "settings", "--show-labels").splitlines()[1].endswith("app=demo")
    assert kubectl("get", "cm", "--label-columns=app", "--selector=app=demo").splitlines()[1].endswith("demo")
    assert "No resources" in kubectl("get", "cm", "--selector=app=other")
    named = kubectl("get", "cm", "--field-selector=metadata.name=settings", "--output=name")
    assert named.strip() == "configmap/settings"


def test_get_of_several_kinds_pages_and_sorting(kubectl: Kubectl, api: Api) -> None:
    for index in range(5):
        api.post(kubectl.space.core("secrets"), builders.secret(f"s{index}"))
    kubectl("apply", "--filename=-", stdin=CONFIG)
    text = kubectl("get", "secrets,configmaps", "--output=name", "--chunk-size=2")
    assert {f"secret/s{index}" for index in range(5)} | {"configmap/settings"} <= set(text.split())
    backwards = kubectl("get", "secrets", "--sort-by={.metadata.name}", "--output=jsonpath={.items[*].metadata.name}")
    assert backwards.split() == [f"s{index}" for index in range(5)]


def test_get_all(kubectl: Kubectl, api: Api) -> None:
    api.post(kubectl.space.core("pods"), builders.pod("one"))
    api.post(kubectl.space.of("apps/v1", "deployments"), builders.deployment("two"))
    text = kubectl("get", "all")
    assert "pod/one" in text
    assert "deployment.apps/two" in text


WIDE_POD = "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES"


def test_get_wide_shows_more_columns(kubectl: Kubectl, api: Api) -> None:
    api.post(kubectl.space.core("pods"), builders.pod("one", spec={"nodeName": "node-1"}))
    head, row = kubectl("get", "pods", "--output=wide").splitlines()
    assert head.split() == WIDE_POD.split()
    assert "node-1" in row


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("namespaces", "NAME STATUS AGE"),
        ("pv", "NAME CAPACITY ACCESS MODES RECLAIM POLICY STATUS CLAIM STORAGECLASS VOLUMEATTRIBUTESCLASS REASON AGE"),
        ("sc", "NAME PROVISIONER RECLAIMPOLICY VOLUMEBINDINGMODE ALLOWVOLUMEEXPANSION AGE"),
        ("nodes", "NAME STATUS ROLES AGE VERSION"),
    ],
)
def test_columns_of_cluster_scoped_kinds(kubectl: Kubectl, api: Api, kind: str, columns: str) -> None:
    api.post("/api/v1/persistentvolumes", builders.local_volume())
    api.post("/apis/storage.k8s.io/v1/storageclasses", builders.storage_class())
    api.post("/api/v1/nodes", builders.node())
    assert kubectl("get", kind).splitlines()[0].split() == columns.split()


@pytest.mark.parametrize(
    ("kind", "path", "body", "columns"),
    [
        (
            "pvc",
            "/api/v1",
            builders.claim("x"),
            "NAME STATUS VOLUME CAPACITY ACCESS MODES STORAGECLASS VOLUMEATTRIBUTESCLASS AGE",
        ),
        ("secrets", "/api/v1", builders.secret("x"), "NAME TYPE DATA AGE"),
        ("services", "/api/v1", builders.service("x"), "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE"),
        ("deployments", "/apis/apps/v1", builders.deployment("x"), "NAME READY UP-TO-DATE AVAILABLE AGE"),
        ("statefulsets", "/apis/apps/v1", builders.stateful_set("x"), "NAME READY AGE"),
        ("jobs", "/apis/batch/v1", builders.job("x"), "NAME STATUS COMPLETIONS DURATION AGE"),
        ("leases", "/apis/coordination.k8s.io/v1", builders.lease("x"), "NAME HOLDER AGE"),
        ("roles", "/apis/rbac.authorization.k8s.io/v1", builders.role("x"), "NAME CREATED AT"),
    ],
)
def test_columns_of_namespaced_kinds(
    kubectl: Kubectl, api: Api, kind: str, path: str, body: builders.Object, columns: str
) -> None:
    plural = "persistentvolumeclaims" if kind == "pvc" else kind
    api.post(f"{path}/namespaces/{kubectl.space.name}/{plural}", body)
    assert kubectl("get", kind).splitlines()[0].split() == columns.split()


def test_get_watch_names_the_events(kubectl: Kubectl, api: Api) -> None:
    api.post(kubectl.space.core("secrets"), builders.secret("one"))
    with kubectl.started("get", "secrets", "--watch", "--output-watch-events", "--no-headers") as watch:
        assert watch.line()[:2] == ["ADDED", "one"]
        api.merge(kubectl.space.core("secrets", "one"), {"data": {"a": "MQ=="}})
        assert watch.line()[:2] == ["MODIFIED", "one"]
        api.delete(kubectl.space.core("secrets", "one"))
        assert watch.line()[:2] == ["DELETED", "one"]


def test_get_watch_as_table(kubectl: Kubectl, api: Api) -> None:
    api.post(kubectl.space.core("secrets"), builders.secret("one"))
    with kubectl.started("get", "secrets", "--watch") as watch:
        assert watch.line() == ["NAME", "TYPE", "DATA", "AGE"]
        assert watch.line()[:3] == ["one", "Opaque", "0"]
        api.post(kubectl.space.core("secrets"), builders.secret("two"))
        assert watch.line()[:3] == ["two", "Opaque", "0"]
