"""The Helm chart makes what `localpv manifests` prints. Rendering needs helm, the rest nothing."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import localpv
from localpv.api import crds
from localpv.deploy import everything, reading
from localpv.deploy.plan import IMAGE, Pods, agent_pods, manager_pods
from localpv.lifecycle.config import reading as config_reading

CHART = Path(localpv.__file__).parents[2] / "charts" / "localpv"
HELM = shutil.which("helm")

pytestmark = pytest.mark.seed("CFG-5")
needs_helm = pytest.mark.skipif(HELM is None, reason="helm is not installed")


def values() -> Any:
    return yaml.safe_load((CHART / "values.yaml").read_text())


def test_versions_and_the_image_are_those_of_the_code() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (localpv.__version__, localpv.__version__)
    assert values()["image"] == IMAGE


def test_the_chart_has_the_definition_of_the_kind() -> None:
    assert (CHART / "crds" / "localdisks.yaml").read_text() == crds.text("localdisks")


@pytest.mark.parametrize(("usual", "given"), [(agent_pods(), values()), (manager_pods(), values()["manager"])])
def test_pods_run_by_default_as_the_code_has_it(usual: Pods, given: Any) -> None:
    assert given["priorityClassName"] == usual.priority_class
    assert given["nodeSelector"] == usual.node_selector
    assert given["tolerations"] == list(usual.tolerations)
    assert given["resources"] == usual.resources


def test_values_of_the_classic_chart_keep_their_names() -> None:
    assert {
        "additionalVolumeMounts", "additionalVolumes", "affinity", "classes", "fullnameOverride", "image",
        "imagePullPolicy", "imagePullSecrets", "initContainers", "labelsForPV", "minResyncPeriod", "mountDevVolume",
        "nameOverride", "nodeLabels", "nodeSelector", "podAnnotations", "podLabels", "priorityClassName", "privileged",
        "provisionerNotReadyNodeTaintKey", "rbac", "removeNodeNotReadyTaint", "resources", "serviceAccount",
        "serviceMonitor", "setPVOwnerRef", "tolerations", "updateStrategy", "useJobForCleaning", "useNodeNameOnly",
    } <= set(values())  # fmt: skip


def test_every_value_is_used_by_a_template_and_every_used_value_exists() -> None:
    text = "\n".join(path.read_text() for path in (CHART / "templates").iterdir())
    used = set(re.findall(r"\.Values\.(\w+)", text)) | set(re.findall(r'"(\w+)"', text))
    assert set(values()) - used == set()
    assert set(re.findall(r"\.Values\.(\w+)", text)) - set(values()) == set()


CLASSES = {
    "fast": {"hostDir": "/mnt/fast", "mountDir": "/local-fast", "blockCleanerCommand": ["/scripts/shred.sh", "2"]},
    "raw": {"hostDir": "/mnt/raw/", "volumeMode": "Block", "reclaim": "Retain", "nodeLoss": "delete"},
    "odd": {"hostDir": "/dev", "namePattern": "nvme*"},
}
CASES: dict[str, tuple[Any, Any]] = {
    "plain": ({}, {}),
    "jobs and labels": (
        {"useJobForCleaning": True, "nodeLabels": ["zone"], "labelsForPV": {"a": "0123"}, "setPVOwnerRef": True},
        {"useJobForCleaning": True, "nodeLabelsForPV": ["zone"], "labelsForPV": {"a": "0123"}, "setPVOwnerRef": True},
    ),
    "pods": (
        {
            "podLabels": {"team": "storage"},
            "manager": {"replicas": 3},
            "imagePullSecrets": [{"name": "pull"}],
            "affinity": {"nodeAffinity": {}},
        },
        {
            "agent": {"podLabels": {"team": "storage"}, "affinity": {"nodeAffinity": {}}},
            "manager": {"replicas": 3},
            "imagePullSecrets": ["pull"],
        },
    ),
}


@needs_helm
@pytest.mark.parametrize("drop_in", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_chart_makes_what_the_command_prints(case: str, drop_in: bool, tmp_path: Path) -> None:
    for_helm, for_us = CASES[case]
    if drop_in:
        for_us = {key: value for key, value in for_us.items() if key != "manager"}
    classes = [{"name": name, **settings} for name, settings in CLASSES.items()]
    classes[0]["storageClass"] = {"isDefaultClass": True, "mountOptions": ["noatime"]}
    ours = {name: dict(settings) for name, settings in CLASSES.items()}
    ours["fast"]["storageClass"] = {"default": True, "mountOptions": ["noatime"]}
    rendered = _render(tmp_path, {"classes": classes, "dropIn": drop_in, **for_helm})
    plan = reading.read(json.dumps({"storageClassMap": ours, **for_us}), source="x", drop_in=drop_in)
    printed = {_key(obj): _comparable(obj) for obj in everything.objects(plan)}
    # Helm makes the namespace itself, and definitions lie beside its templates.
    expected = {key: obj for key, obj in printed.items() if key[0] not in ("Namespace", "CustomResourceDefinition")}
    found = {_key(obj): _comparable(obj) for obj in rendered}
    assert set(found) == set(expected)
    for key, obj in expected.items():
        assert found[key] == obj


@needs_helm
def test_no_classes_and_a_class_without_a_directory_are_refused(tmp_path: Path) -> None:
    for wrong in ({}, {"classes": [{"name": "a"}]}, {"classes": [{"hostDir": "/a"}]}):
        with pytest.raises(subprocess.CalledProcessError):
            _render(tmp_path, wrong)


def _render(folder: Path, given: Any) -> list[Any]:
    assert HELM is not None
    file = folder / "values.yaml"
    file.write_text(json.dumps(given))
    ended = subprocess.run(
        [HELM, "template", "localpv", str(CHART), "-n", "localpv-system", "-f", str(file), "--kube-version", "1.35.0"],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return [obj for obj in yaml.safe_load_all(ended.stdout) if obj]


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
