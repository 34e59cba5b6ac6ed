"""What `localpv manifests` prints and `localpv bootstrap` makes is taken by an API server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.contract import builders, wire
from tests.contract.spaces import Space
from tests.contract.wire import Api

from localpv.api import well_known
from localpv.api.resources import BUILT_IN
from localpv.deploy import bootstrap
from localpv.testing.waiting import PATIENCE_SECONDS

CONFIG = """
storageClassMap:
  {name}:
    hostDir: /mnt/contract
    mountDir: /local
    blockCleanerCommand: [/scripts/shred.sh, "2"]
    fsType: ext4
    selector:
    - matchExpressions:
      - {{key: rack, operator: In, values: [a]}}
    storageClass:
      default: false
      mountOptions: [noatime]
      allowedTopologies:
      - matchLabelExpressions:
        - {{key: kubernetes.io/hostname, values: [a, b]}}
useJobForCleaning: yes
removeNodeNotReadyTaint: true
imagePullSecrets: [pull]
agent:
  privileged: {privileged}
  podAnnotations: {{a: b}}
  affinity:
    nodeAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 1
        preference: {{matchExpressions: [{{key: disks, operator: Exists}}]}}
"""
PATHS = {(resource.api_version, resource.kind): resource for resource in BUILT_IN}


def localpv(*arguments: str, text: str = "", code: int = 0) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "localpv", *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert ended.returncode == code, ended.stderr
    return ended.stdout if code == 0 else ended.stderr


def path_of(obj: Any) -> str:
    resource = PATHS[obj["apiVersion"], obj["kind"]]
    space = f"namespaces/{obj['metadata']['namespace']}/" if resource.namespaced else ""
    return f"{resource.path}/{space}{resource.plural}/{obj['metadata']['name']}"


def takes_privileged_pods(api: Api, space: Space) -> bool:
    """kube-apiserver can be told to refuse them."""
    spec = {"containers": [{"name": "a", "image": "a", "securityContext": {"privileged": True}}]}
    return api.send("POST", space.core("pods"), builders.pod(spec=spec), dryRun="All").code != 422


@pytest.mark.seed("CFG-3")
@pytest.mark.parametrize("form", ["", "--drop-in"])
def test_every_object_printed_is_valid_and_has_no_unknown_field(api: Api, space: Space, form: str) -> None:
    # A pod is created only where its account is, which a dry run of the account does not make.
    privileged = "true" if takes_privileged_pods(api, space) else "false"
    config = CONFIG.format(name=builders.unique("class"), privileged=privileged)
    printed = localpv("manifests", "-f", "-", "-n", space.name, *filter(None, [form]), text=config)
    objects = list(yaml.safe_load_all(printed))
    assert {"DaemonSet", "ConfigMap", "StorageClass", "ClusterRole"} <= {obj["kind"] for obj in objects}
    for obj in objects:
        api.apply(path_of(obj), obj, force="true", dryRun="All", fieldValidation="Strict")


@pytest.fixture
def bootstrapped(api: Api, space: Space) -> Iterator[Space]:
    if not takes_privileged_pods(api, space):
        pytest.skip("this API server refuses privileged pods")
    yield space
    for each in api.get("/apis/storage.k8s.io/v1/storageclasses", labelSelector=_OURS)["items"]:
        api.delete(f"/apis/storage.k8s.io/v1/storageclasses/{each['metadata']['name']}")
    for kind in ("clusterrolebindings", "clusterroles"):
        listed = api.get(f"/apis/rbac.authorization.k8s.io/v1/{kind}", labelSelector=_OURS)["items"]
        for item in listed:
            if f":{space.name}:" in item["metadata"]["name"]:
                api.delete(f"/apis/rbac.authorization.k8s.io/v1/{kind}/{item['metadata']['name']}")


_OURS = f"app.kubernetes.io/managed-by={bootstrap.MANAGED_BY}"
CLASSES = """\
local-fast:
  hostDir: "/mnt/ssds"  # the quick ones
local-slow:
  hostDir: "/mnt/hdds"
"""


@pytest.mark.seed("CFG-4")
def test_bootstrap_completes_the_config_map_and_starts_the_provisioner(api: Api, bootstrapped: Space) -> None:
    space = bootstrapped
    command = ("bootstrap", "--kubeconfig", str(api.target.kubeconfig), "-n", space.name)
    config_map = builders.config_map("local-volume-default-config", data={"storageClassMap": CLASSES})
    api.post(space.core("configmaps"), config_map)
    localpv(*command)

    filled = yaml.safe_load(api.get(space.core("configmaps", "local-volume-default-config"))["data"]["storageClassMap"])
    assert {name: each["mountDir"] for name, each in filled.items()} == {
        "local-fast": "/mnt/local-storage/mnt~ssds",
        "local-slow": "/mnt/local-storage/mnt~hdds",
    }
    account = api.get(space.core("serviceaccounts", "local-storage-admin"))["metadata"]["name"]
    daemon_set = space.of("apps/v1", "daemonsets", "local-volume-provisioner")
    pod = api.get(daemon_set)["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account
    assert {"mountPath": "/mnt/local-storage/mnt~ssds", "mountPropagation": "HostToContainer"}.items() <= next(
        mount for mount in pod["containers"][0]["volumeMounts"] if "ssds" in mount["mountPath"]
    ).items()
    assert "/mnt/hdds" in [volume.get("hostPath", {}).get("path") for volume in pod["volumes"]]

    for name in ("local-fast", "local-slow"):
        made = api.get(f"/apis/storage.k8s.io/v1/storageclasses/{name}")
        assert (made["provisioner"], made["volumeBindingMode"]) == (well_known.NO_PROVISIONER, "WaitForFirstConsumer")

    assert "updated" not in localpv(*command)
    again = localpv(*command, "-image", "localhost/other:1", "-serviceaccount=local-storage-admin")
    assert "daemonsets.apps/local-volume-provisioner updated" in again
    assert api.get(daemon_set)["spec"]["template"]["spec"]["containers"][0]["image"] == "localhost/other:1"


@pytest.mark.seed("CFG-4")
def test_the_account_that_bootstrap_makes_has_the_documented_rights(api: Api, bootstrapped: Space) -> None:
    space = bootstrapped
    api.post(space.core("configmaps"), builders.config_map("mine", data={"storageClassMap": CLASSES}))
    localpv("bootstrap", "--kubeconfig", str(api.target.kubeconfig), "-n", space.name, "-volume-config", "mine")
    token = api.post(space.core("serviceaccounts", "local-storage-admin", "token"), {"spec": {}})["status"]["token"]
    robot = api.as_bearer(token)
    node = f"/api/v1/nodes/{api.post('/api/v1/nodes', builders.node())['metadata']['name']}"
    for path in ("/api/v1/persistentvolumes", node, space.core("configmaps", "mine")):
        # Each comes from a role of its own, of which a server hears in its own time.
        wire.eventually(lambda path=path: robot.send("GET", path).code == 200, f"the right to {path}")
    volume = robot.post("/api/v1/persistentvolumes", builders.local_volume())["metadata"]["name"]
    robot.get(f"/api/v1/persistentvolumes/{volume}")
    robot.delete(f"/api/v1/persistentvolumes/{volume}")
    robot.get(space.core("secrets"), expect=403)
    robot.delete(node, expect=403)


def test_a_wrong_config_map_changes_nothing(api: Api, space: Space) -> None:
    wrong = "fast: {hostDir: /}\nslow: {hostDIR: /mnt/hdds}\n"
    made = api.post(space.core("configmaps"), builders.config_map("mine", data={"storageClassMap": wrong}))
    command = ("bootstrap", "--kubeconfig", str(api.target.kubeconfig), "-n", space.name)
    said = localpv(*command, "-volume-config", "mine", code=1)
    assert "storageClassMap.fast.hostDir: / belongs to the system" in said
    assert "storageClassMap.slow.hostDIR: unknown key; did you mean hostDir?" in said
    assert "there is no ConfigMap local-volume-default-config" in localpv(*command, code=1)
    assert api.get(space.core("configmaps", "mine")) == made
    assert api.gone(space.core("serviceaccounts", "local-storage-admin"))
