"""kubectl, unchanged, as people ask it: describe, events, rights; and with a kind of their own."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from tests.clients.conftest import Kubectl
from tests.contract import builders, custom, wire
from tests.contract.wire import Api


def test_describe_of_storage(kubectl: Kubectl, api: Api) -> None:
    volume = api.post("/api/v1/persistentvolumes", builders.local_volume())["metadata"]["name"]
    text = kubectl("describe", "pv", volume)
    assert "LocalVolume (a persistent volume backed by local storage on a node)" in text
    assert "/mnt/disks/ssd1" in text
    assert "kubernetes.io/hostname in [node-1]" in text
    api.post(kubectl.space.core("persistentvolumeclaims"), builders.claim("claim"))
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}]
    api.post(kubectl.space.core("pods"), builders.pod("user", spec={"volumes": volumes}))
    text = kubectl("describe", "pvc", "claim")
    assert "VolumeMode:    Filesystem" in text
    assert "Used By:       user" in text
    name = api.post("/apis/storage.k8s.io/v1/storageclasses", builders.storage_class())["metadata"]["name"]
    assert "kubernetes.io/no-provisioner" in kubectl("describe", "sc", name)


def test_describe_shows_events(kubectl: Kubectl, api: Api) -> None:
    pod = api.post(kubectl.space.core("pods"), builders.pod("p"))
    about = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "p",
        "namespace": kubectl.space.name,
        "uid": pod["metadata"]["uid"],
    }
    api.post(kubectl.space.core("events"), builders.core_event(kubectl.space.name, "e", involvedObject=about))
    text = kubectl("describe", "pod", "p")
    assert re.search(r"^Node: +<none>$", text, re.MULTILINE)
    assert "a test was here" in text


@pytest.mark.parametrize(
    ("kind", "path", "body", "words"),
    [
        ("cm", "/api/v1 configmaps", builders.config_map("x", data={"a": "1"}), "Data"),
        ("secret", "/api/v1 secrets", builders.secret("x", stringData={"key": "1"}), "key:  1 bytes"),
        ("svc", "/api/v1 services", builders.service("x"), "app=demo"),
        ("sa", "/api/v1 serviceaccounts", builders.service_account("x"), "Image pull secrets:"),
        ("deployment", "/apis/apps/v1 deployments", builders.deployment("x"), "RollingUpdateStrategy:"),
        ("statefulset", "/apis/apps/v1 statefulsets", builders.stateful_set("x"), "Pods Status:"),
        ("job", "/apis/batch/v1 jobs", builders.job("x"), "Completions:"),
        ("lease", "/apis/coordination.k8s.io/v1 leases", builders.lease("x"), "Holder Identity"),
        ("role", "/apis/rbac.authorization.k8s.io/v1 roles", builders.role("x", builders.rule("get", "pods")), "[get]"),
    ],
)
def test_describe(kubectl: Kubectl, api: Api, kind: str, path: str, body: builders.Object, words: str) -> None:
    version, plural = path.split()
    api.post(f"{version}/namespaces/{kubectl.space.name}/{plural}", body)
    text = kubectl("describe", kind, "x")
    assert text.startswith("Name:")
    assert words in text


def test_describe_of_nodes_and_namespaces(kubectl: Kubectl, api: Api) -> None:
    name = api.post("/api/v1/nodes", builders.node())["metadata"]["name"]
    assert "Unschedulable:      false" in kubectl("describe", "node", name)
    assert "Status:       Active" in kubectl("describe", "namespace", kubectl.space.name)


def test_events(kubectl: Kubectl, api: Api) -> None:
    seen: builders.Object = {
        "lastTimestamp": "2024-01-02T03:04:05Z",
        "firstTimestamp": "2024-01-02T03:04:05Z",
        "count": 2,
    }
    api.post(kubectl.space.core("events"), builders.core_event(kubectl.space.name, **seen))
    head, row = kubectl("events").splitlines()
    assert head.split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert row.split()[-5:] == ["ConfigMap/some", "a", "test", "was", "here"]
    assert "a test was here" in kubectl("events", "--for=configmap/some")
    assert "No events found" in kubectl("events", "--types=Warning")
    assert "Tested" in kubectl("get", "events")
    assert "Tested" in kubectl("get", "events.events.k8s.io")


def test_auth(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pvc").strip() == "yes"
    robot = f"--as=system:serviceaccount:{kubectl.space.name}:robot"
    assert kubectl("auth", "can-i", "get", "secrets", robot, expect=1).strip() == "no"
    assert "selfsubjectaccessreviews.authorization.k8s.io" in kubectl("auth", "can-i", "--list", robot)
    text = kubectl("auth", "whoami")
    assert "Username" in text
    assert "system:authenticated" in text
    assert f"system:serviceaccount:{kubectl.space.name}:robot" in kubectl("auth", "whoami", robot)


def test_refusal_is_printed(kubectl: Kubectl) -> None:
    said = kubectl("get", "secrets", "--as=jane", expect=1)
    assert 'Error from server (Forbidden): secrets is forbidden: User "jane" cannot list resource "secrets"' in said


def test_custom_kind_from_definition_to_deletion(kubectl: Kubectl, api: Api) -> None:
    kind = custom.Kind()
    size = {"type": "integer", "description": "How big it is."}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": size}}}}
    columns = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]
    definition = kind.definition(schema, additionalPrinterColumns=columns)
    definition["spec"]["names"] |= {"shortNames": ["wdg"]}
    api.created.append(f"{custom.DEFINITIONS}/{kind.name}")
    said = kubectl("apply", "--filename=-", stdin=json.dumps(definition))
    assert said.strip() == f"customresourcedefinition.apiextensions.k8s.io/{kind.name} created"
    assert "condition met" in kubectl("wait", f"crd/{kind.name}", "--for=condition=Established", "--timeout=100s")

    widget = json.dumps(kind.object(spec={"size": 3}))
    wire.eventually(lambda: api.send("GET", kind.path(kubectl.space)).code == 200, "the kind is served")
    assert kubectl("apply", "--filename=-", stdin=widget).strip() == f"widget.{kind.group}/one created"
    head, row = kubectl("get", kind.name).splitlines()
    assert (head.split(), row.split()) == (["NAME", "SIZE"], ["one", "3"])
    wrong = json.dumps(kind.object(spec={"size": "big"}))
    assert "spec.size: Invalid value" in kubectl("apply", "--filename=-", stdin=wrong, expect=1)
    assert "Size:  3" in kubectl("describe", kind.name, "one")

    def explained() -> bool:
        described = subprocess.run(
            [kubectl.program, "explain", "widgets.spec.size", f"--api-version={kind.group}/v1"],
            env=kubectl.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return "How big it is." in described.stdout

    wire.eventually(explained, "the schema of the new kind is published")
    assert f'"{kind.name}" deleted' in kubectl("delete", "crd", kind.name, "--timeout=100s")
