"""The documents' DaemonSet, ConfigMap and bootstrapper on a real cluster, followed to the letter, end in volumes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.contract import wire
from tests.journey import documents
from tests.kubernetes import build, cluster

SECONDS = 120.0
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
PODS = "/api/v1/namespaces/kube-system/pods"
NAMES = ("local-fast", "local-slow")


@pytest.fixture
def disks(running: cluster.Cluster, api: wire.Api) -> Iterator[set[tuple[str, str, str]]]:
    """A directory of each class on each node; node, path and class of each."""
    folders = {"local-fast": "/mnt/ssds", "local-slow": "/mnt/hdds"}
    made = {(node.name, f"{folder}/disk-1", name) for node in running.nodes for name, folder in folders.items()}
    for node in running.nodes:
        node.run("mkdir", "-p", *(f"{folder}/disk-1" for folder in folders.values()))
    yield made
    for name in NAMES:
        api.send("DELETE", f"{CLASSES}/{name}")
    for volume in api.get(VOLUMES)["items"]:
        if volume["spec"].get("storageClassName") in NAMES:
            path = f"{VOLUMES}/{volume['metadata']['name']}"
            api.send("PATCH", path, {"metadata": {"finalizers": None}}, content_type=wire.MERGE_PATCH)
            api.send("DELETE", path)
    for node in running.nodes:
        node.run("rm", "-rf", "--one-file-system", "/var/lib/localpv", *folders.values())


def offered(api: wire.Api) -> set[tuple[str, str, str]]:
    found = set()
    for volume in api.get(VOLUMES)["items"]:
        spec = volume["spec"]
        if spec.get("storageClassName") in NAMES:
            term = spec["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]
            found.add((term["values"][0], spec["local"]["path"], spec["storageClassName"]))
    return found


def localpv(*words: str, text: str = "") -> str:
    argv = [sys.executable, "-m", "localpv", *words]
    done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


def kubectl(running: cluster.Cluster, *words: str, text: str = "") -> str:
    argv = [str(build.cache() / "kubectl"), "--kubeconfig", str(running.kubeconfig), *words]
    done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def local_only(daemon_set: dict[str, Any]) -> dict[str, Any]:
    """This cluster has no registry: its images are in its nodes, and are never pulled."""
    for container in daemon_set["spec"]["template"]["spec"]["containers"]:
        container["imagePullPolicy"] = "Never"
    return daemon_set


@pytest.mark.seed("CFG-8")
def test_daemon_set_of_the_documents_offers_what_is_in_its_directories(
    running: cluster.Cluster, api: wire.Api, localpv_image: str, disks: set[tuple[str, str, str]]
) -> None:
    written = [documents.CONFIG_MAP, local_only(documents.daemon_set(localpv_image))]
    text = localpv("translate", "-f", "-", text=yaml.safe_dump_all(written)) + "---\n"
    text += yaml.safe_dump_all(documents.rights())
    kubectl(running, "apply", "-f", "-", text=text)
    try:

        def asked_for() -> bool:
            events = api.get("/api/v1/namespaces/default/events", fieldSelector="reason=NoStorageClass")["items"]
            named = {event["involvedObject"]["name"] for event in events if all(n in event["message"] for n in NAMES)}
            return {node.name for node in running.nodes} <= named

        wire.eventually(asked_for, "the classes that are missing are asked for on each node", within=SECONDS)
        for name in NAMES:
            api.post(CLASSES, {"metadata": {"name": name}, "provisioner": "kubernetes.io/no-provisioner"})
        wire.eventually(lambda: offered(api) == disks, "everything is offered", within=SECONDS)
    finally:
        kubectl(running, "delete", "--ignore-not-found", "-f", "-", text=text)


@pytest.mark.seed("CFG-9", "CFG-10")
def test_steps_of_the_bootstrapper_end_in_volumes(
    running: cluster.Cluster, api: wire.Api, localpv_image: str, disks: set[tuple[str, str, str]]
) -> None:
    text = localpv("translate", "-f", "-", text=yaml.safe_dump(documents.SHORT_CONFIG_MAP))
    kubectl(running, "apply", "-f", "-", text=text)
    command = ("bootstrap", "-n", "kube-system", "--kubeconfig", str(running.kubeconfig))
    try:
        localpv(*command, "-image", localpv_image, "-volume-config", "local-volume-config")
        wire.eventually(lambda: offered(api) == disks, "everything is offered", within=SECONDS)
        assert "as safe as that one disk" in kubectl(running, "describe", "storageclass", "local-fast")
    finally:
        made = "daemonset,serviceaccount,role,rolebinding,clusterrole,clusterrolebinding,storageclass"
        kubectl(running, "-n", "kube-system", "delete", made, "-l", "app.kubernetes.io/managed-by=localpv-bootstrap")
        kubectl(running, "delete", "--ignore-not-found", "-f", "-", text=text)
