"""The Helm chart makes what `localpv manifests` prints, and a cluster that takes it offers its disks."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests import observe
from tests.contract import wire
from tests.kubernetes import build, cluster, skipping
from tests.kubernetes.node import Node

import localpv
from localpv.config import reading as config_reading
from localpv.deploy import everything, reading

CHART = Path(localpv.__file__).parents[2] / "charts" / "localpv"
NAMESPACE = "localpv-system"
SECONDS = 120.0

CLASSES: dict[str, dict[str, Any]] = {
    "fast": {"hostDir": "/mnt/fast", "mountDir": "/local-fast", "blockCleanerCommand": ["/scripts/shred.sh", "2"]},
    "raw": {"hostDir": "/mnt/raw/", "volumeMode": "Block", "reclaim": "Retain", "nodeLoss": "delete"},
    "odd": {"hostDir": "/dev", "namePattern": "nvme*"},
}
POOLED: list[Any] = [
    {"name": "pooled", "pool": {"kind": "file", "directory": "/var/pool", "size": "5Gi"}},
    {"name": "same-pool", "pool": {"kind": "file", "directory": "/var/pool", "size": "5Gi"}},
    {"name": "other-pool", "pool": {"kind": "file", "name": "other", "directory": "/srv/other", "size": "1Gi"}},
]
CASES: dict[str, tuple[Any, Any]] = {
    "plain": ({}, {}),
    "jobs and labels": (
        {"useJobForCleaning": True, "nodeLabels": ["zone"], "labelsForPV": {"a": "0123"}, "setPVOwnerRef": True},
        {"useJobForCleaning": True, "nodeLabelsForPV": ["zone"], "labelsForPV": {"a": "0123"}, "setPVOwnerRef": True},
    ),
    "pods": (
        {
            "podLabels": {"team": "storage"},
            "podAnnotations": {"prometheus.io/scrape": "false", "team": "storage"},
            "manager": {"replicas": 3},
            "imagePullSecrets": [{"name": "pull"}],
            "affinity": {"nodeAffinity": {}},
        },
        {
            "agent": {
                "podLabels": {"team": "storage"},
                "podAnnotations": {"prometheus.io/scrape": "false", "team": "storage"},
                "affinity": {"nodeAffinity": {}},
            },
            "manager": {"replicas": 3},
            "imagePullSecrets": ["pull"],
        },
    ),
    "operator": (
        {"operator": {"enabled": True}, "imagePullSecrets": [{"name": "pull"}]},
        {"imagePullSecrets": ["pull"]},
    ),
    "pools": (
        {"classes": [{"name": "fast", "hostDir": "/mnt/fast"}, *POOLED]},
        {
            "storageClassMap": {
                "fast": {"hostDir": "/mnt/fast"},
                **{one["name"]: {"pool": one["pool"]} for one in POOLED},
            }
        },
    ),
    "watched": ({"serviceMonitor": {"enabled": True}}, {"podMonitor": True}),
}

Render = Callable[..., list[Any]]

pytestmark = pytest.mark.seed("CFG-5")


@pytest.fixture(scope="module")
def helm() -> Path:
    return skipping.program("helm")


@pytest.fixture
def render(helm: Path, tmp_path: Path) -> Render:
    """The objects that the chart makes of values, as `helm template` prints them."""

    def render(given: Any, *options: str, namespace: str = NAMESPACE) -> list[Any]:
        return [obj for obj in yaml.safe_load_all(_template(helm, tmp_path, given, namespace, *options)) if obj]

    return render


# -- what it renders ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("drop_in", [False, True], ids=["agents", "drop-in"])
@pytest.mark.parametrize("case", CASES)
def test_chart_makes_what_the_command_prints(case: str, drop_in: bool, render: Render) -> None:
    for_helm, for_us = CASES[case]
    if drop_in and case in ("operator", "pools"):
        pytest.skip("a drop-in has no operator, and no manager that could carve volumes out of pools")
    if drop_in:
        for_us = {key: value for key, value in for_us.items() if key != "manager"}
    classes = [{"name": name, **settings} for name, settings in CLASSES.items()]
    classes[0]["storageClass"] = {"isDefaultClass": True, "mountOptions": ["noatime"]}
    ours = {name: dict(settings) for name, settings in CLASSES.items()}
    ours["fast"]["storageClass"] = {"default": True, "mountOptions": ["noatime"]}
    rendered = render({"classes": classes, "dropIn": drop_in, **for_helm})
    operator = case == "operator"
    plan = reading.read(json.dumps({"storageClassMap": ours, **for_us}), source="x", drop_in=drop_in, operator=operator)
    printed = {_key(obj): _comparable(obj) for obj in everything.objects(plan)}
    # Helm makes the namespace itself, and definitions lie beside its templates.
    expected = {key: obj for key, obj in printed.items() if key[0] not in ("Namespace", "CustomResourceDefinition")}
    found = {_key(obj): _comparable(obj) for obj in rendered}
    assert set(found) == set(expected)
    for key, obj in expected.items():
        assert found[key] == obj


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "classes is empty"),
        ({"operator": {"enabled": True}, "dropIn": True}, "do not go together"),
        ({"classes": [{"name": "a"}]}, "each class needs a hostDir"),
        ({"classes": [{"hostDir": "/a"}]}, "each class needs a name"),
        ({"classes": POOLED, "dropIn": True}, "pools need a manager"),
        ({"classes": [{"name": "a", "hostDir": "/a"}], "enableWindows": True}, "Linux nodes only"),
    ],
)
def test_values_that_cannot_work_are_refused_by_name(wrong: Any, said: str, render: Render) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        render(wrong)
    assert said in refused.value.stderr


def test_with_the_operator_alone_nothing_else_runs_on_nodes(render: Render) -> None:
    plan = reading.read("{}", source="x", operator=True)
    expected = {_key(obj): _comparable(obj) for obj in everything.objects(plan)}
    found = {_key(obj): _comparable(obj) for obj in render({"operator": {"enabled": True}})}
    assert {key for key in found if key[0] == "DaemonSet"} == set()
    assert found == {key: expected[key] for key in found}


def test_alert_rules_and_dashboard_come_with_the_chart_when_they_are_wanted(render: Render) -> None:
    given = {
        "classes": [{"name": "fast", "hostDir": "/mnt/fast"}],
        "prometheusRule": {"enabled": True, "additionalLabels": {"release": "monitoring"}},
        "dashboard": {"enabled": True, "namespace": "grafana"},
    }
    made = {_key(obj): obj for obj in render(given)}
    rule, board = made["PrometheusRule", "localpv"], made["ConfigMap", "localpv-dashboard"]
    assert [each for group in rule["spec"]["groups"] for each in group["rules"]] == observe.rules()
    assert rule["metadata"]["labels"] == {"release": "monitoring"}
    assert json.loads(board["data"]["localpv.json"]) == observe.dashboard()
    assert board["metadata"] == {
        "name": "localpv-dashboard",
        "namespace": "grafana",
        "labels": {"grafana_dashboard": "1"},
    }
    usual = {_key(obj) for obj in render({"classes": given["classes"]})}
    assert usual == set(made) - {("PrometheusRule", "localpv"), ("ConfigMap", "localpv-dashboard")}


def test_given_probes_take_the_place_of_ours_in_all_pods(render: Render) -> None:
    probe = {"tcpSocket": {"port": "metrics"}, "initialDelaySeconds": 60}
    given = {
        "classes": [{"name": "fast", "hostDir": "/mnt/fast"}],
        **{"livenessProbe": probe, "readinessProbe": probe, "startupProbe": probe},
    }
    for obj in render(given):
        if obj["kind"] in ("DaemonSet", "Deployment"):
            container = obj["spec"]["template"]["spec"]["containers"][0]
            assert [container[f"{word}Probe"] for word in ("liveness", "readiness", "startup")] == [probe] * 3


# -- what it installs --------------------------------------------------------------------------------------------------


@pytest.fixture
def installed(running: cluster.Cluster, helm: Path, localpv_image: str, tmp_path: Path, api: wire.Api) -> Iterator[str]:
    """The chart on the cluster, under names of its own; the namespace."""
    name = "chart-test"
    given = {
        "fullnameOverride": name,
        "image": localpv_image,
        "imagePullPolicy": "Never",
        "classes": [{"name": name, "hostDir": f"/mnt/{name}"}],
    }
    objects = _template(helm, tmp_path, given, name, "--include-crds")
    api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    _kubectl(running, "apply", "-f", "-", given=objects)
    try:
        yield name
    finally:
        _kubectl(running, "delete", "--timeout=100s", "--ignore-not-found", "-f", "-", given=objects)
        for volume in _volumes(api, name):
            path = f"/api/v1/persistentvolumes/{volume['metadata']['name']}"
            # Nobody is left who would take the finalizers away.
            api.send("PATCH", path, {"metadata": {"finalizers": None}}, content_type=wire.MERGE_PATCH)
            api.send("DELETE", path)
        api.delete(f"/api/v1/namespaces/{name}")
        for node in running.nodes:
            node.run("rm", "-rf", "--one-file-system", f"/mnt/{name}")


@pytest.mark.seed("CFG-6")
def test_installed_chart_runs_offers_disks_and_can_be_watched(
    running: cluster.Cluster, installed: str, api: wire.Api
) -> None:
    wire.eventually(lambda: _all_ready(running, api, installed), "agents and managers are ready", within=SECONDS)
    node = running.nodes[0]
    node.run("mkdir", f"/mnt/{installed}/disk")
    volume = wire.eventually(lambda: _volumes(api, installed), "the disk is a volume", within=SECONDS)[0]
    assert volume["spec"]["local"]["path"] == f"/mnt/{installed}/disk"

    pods = _pods(api, installed)
    agent = next(pod for pod in pods if _component(pod) == "agent" and pod["spec"]["nodeName"] == node.name)
    assert agent["metadata"]["annotations"]["prometheus.io/port"] == "8080"
    text = wire.eventually(
        lambda: _told(node, agent, f'localpv_disks{{storage_class="{installed}",phase="Published"}} 1'),
        "the agent's metrics tell of the disk",
        within=SECONDS,
    )
    assert "local_volume_provisioner_proctable_running 0\n" in text
    managers = [pod for pod in pods if _component(pod) == "manager"]
    nodes = {each.name: each for each in running.nodes}

    def leaders() -> int:
        told = [_scrape(nodes[pod["spec"]["nodeName"]], pod) for pod in managers]
        return sum("leader_election_master_status" in text and '-manager"} 1\n' in text for text in told)

    wire.eventually(lambda: leaders() == 1, "one manager leads", within=SECONDS)


# -- doing and looking -------------------------------------------------------------------------------------------------


def _template(helm: Path, folder: Path, given: Any, namespace: str, *options: str) -> str:
    file = folder / "values.yaml"
    file.write_text(json.dumps(given))
    command = [str(helm), "template", "localpv", str(CHART), "--namespace", namespace, "--values", str(file)]
    version = ["--kube-version", build.version()]
    done = subprocess.run([*command, *version, *options], capture_output=True, text=True, check=True, timeout=SECONDS)
    return done.stdout


def _kubectl(running: cluster.Cluster, *arguments: str, given: str) -> None:
    command = [str(build.program("kubectl")), "--kubeconfig", str(running.kubeconfig), *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=2 * SECONDS)
    assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"


def _pods(api: wire.Api, namespace: str) -> list[Any]:
    return list(api.get(f"/api/v1/namespaces/{namespace}/pods")["items"])


def _component(pod: Any) -> str:
    return str(pod["metadata"]["labels"]["app.kubernetes.io/component"])


def _all_ready(running: cluster.Cluster, api: wire.Api, namespace: str) -> bool:
    ready = [
        _component(pod)
        for pod in _pods(api, namespace)
        if any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ()))
    ]
    return sorted(ready) == ["agent"] * len(running.nodes) + ["manager"] * 2


def _volumes(api: wire.Api, name: str) -> list[Any]:
    found = api.get("/api/v1/persistentvolumes")["items"]
    return [volume for volume in found if volume["spec"].get("storageClassName") == name]


def _scrape(node: Node, pod: Any) -> str:
    return node.run("busybox", "wget", "-q", "-O", "-", f"http://{pod['status']['podIP']}:8080/metrics")


def _told(node: Node, pod: Any, line: str) -> str:
    text = _scrape(node, pod)
    return text if f"{line}\n" in text else ""


def _key(obj: Any) -> tuple[str, str]:
    return obj["kind"], obj["metadata"]["name"]


def _comparable(obj: Any) -> Any:
    """An object as the API server sees it; of the ConfigMap, what it means."""
    made = json.loads(json.dumps(obj))
    if made["kind"] == "ConfigMap":
        config = config_reading.read(made.pop("data")).config
        assert config is not None
        made["data"] = config
    return made
