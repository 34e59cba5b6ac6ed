"""The values and files of the Helm chart are those of the code. What it renders is tested in tests/kubernetes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import localpv
from localpv.api import crds
from localpv.deploy import monitoring, pods, storage
from localpv.deploy.plan import IMAGE, Pods, agent_pods, manager_pods

CHART = Path(localpv.__file__).parents[2] / "charts" / "localpv"

pytestmark = pytest.mark.seed("CFG-5")


def values() -> Any:
    return yaml.safe_load((CHART / "values.yaml").read_text())


def test_versions_and_the_image_are_those_of_the_code() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (localpv.__version__, localpv.__version__)
    assert values()["image"] == IMAGE


def test_the_chart_has_the_definitions_of_all_kinds() -> None:
    assert {path.stem for path in (CHART / "crds").iterdir()} == set(crds.NAMES)
    for name in crds.NAMES:
        assert (CHART / "crds" / f"{name}.yaml").read_text() == crds.text(name)


@pytest.mark.parametrize(("usual", "given"), [(agent_pods(), values()), (manager_pods(), values()["manager"])])
def test_pods_run_by_default_as_the_code_has_it(usual: Pods, given: Any) -> None:
    assert given["priorityClassName"] == usual.priority_class
    assert given["nodeSelector"] == usual.node_selector
    assert given["tolerations"] == list(usual.tolerations)
    assert given["resources"] == usual.resources


def test_values_of_the_classic_chart_keep_their_names() -> None:
    assert {
        "additionalVolumeMounts", "additionalVolumes", "affinity", "classes", "enableWindows", "fullnameOverride",
        "image", "imagePullPolicy", "imagePullSecrets", "initContainers", "labelsForPV", "minResyncPeriod",
        "mountDevVolume", "livenessProbe", "nameOverride", "nodeLabels", "nodeSelector", "podAnnotations", "podLabels",
        "priorityClassName", "privileged", "provisionerNotReadyNodeTaintKey", "rbac", "readinessProbe",
        "removeNodeNotReadyTaint", "resources", "securityContext", "serviceAccount", "serviceMonitor",
        "setPVOwnerRef", "startupProbe", "tolerations", "updateStrategy", "useJobForCleaning", "useNodeNameOnly",
    } <= set(values())  # fmt: skip


@pytest.mark.seed("CFG-10")
def test_the_chart_tells_the_risks_in_the_words_of_the_code() -> None:
    assert f"-}}}}{storage.RISKS}{{{{-" in (CHART / "templates" / "_helpers.tpl").read_text()
    assert "localpv.risks" in (CHART / "templates" / "NOTES.txt").read_text()


def test_every_value_is_used_by_a_template_and_every_used_value_exists() -> None:
    text = "\n".join(path.read_text() for path in (CHART / "templates").iterdir())
    used = set(re.findall(r"\.Values\.(\w+)", text)) | set(re.findall(r'"(\w+)"', text))
    assert set(values()) - used == set()
    assert set(re.findall(r"\.Values\.(\w+)", text)) - set(values()) == set()


def test_metrics_are_where_the_code_has_them() -> None:
    texts = {path.name: path.read_text() for path in (CHART / "templates").iterdir()}
    scraped = " ".join(f'"{key}" "{value}"' for key, value in pods.SCRAPED.items())
    assert f"dict {scraped}" in texts["_helpers.tpl"]
    assert values()["serviceMonitor"]["interval"] == monitoring.INTERVAL
    for name in ("nodes.yaml", "manager.yaml"):
        assert f"containerPort: {pods.PORT}" in texts[name]
