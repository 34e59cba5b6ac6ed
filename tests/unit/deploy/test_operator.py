"""What `localpv manifests --operator` installs, and the objects that the operator makes of a LocalStorage."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from localpv.api import roles
from localpv.api.kinds.localstorage import DeviceGroup, LocalStorage, LocalStorageSpec, NodeGroup
from localpv.api.kinds.meta import ObjectMeta
from localpv.api.kinds.pods import Toleration
from localpv.cli.manifests import manifests
from localpv.deploy import everything, reading
from localpv.deploy.local_storage import NodePods
from localpv.disk import labels
from localpv.errors import ConfigurationError

DEVICES = (DeviceGroup(storage_class_name="fast", device_names=("sd[b-z]",)),)


def storage(*nodes: NodeGroup) -> LocalStorage:
    meta = ObjectMeta(name="local", namespace="localpv-system", uid="u-1", generation=3)
    return LocalStorage(metadata=meta, spec=LocalStorageSpec(nodes=nodes))


def daemon_set(nodes: NodeGroup, **more: Any) -> Any:
    return NodePods(**more).daemon_set(storage(nodes), "local-12345678", "12345678", nodes)


def pod(nodes: NodeGroup, **more: Any) -> Any:
    return daemon_set(nodes, **more)["spec"]["template"]["spec"]


@pytest.mark.seed("OPR-4")
def test_a_group_has_a_daemonset_with_a_discoverer_and_a_provisioner() -> None:
    made = daemon_set(NodeGroup(devices=DEVICES), image="image:2", pull_secrets=("pull",))
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("LocalStorage", "u-1", True)
    selected = made["spec"]["selector"]["matchLabels"]
    assert selected.items() <= made["spec"]["template"]["metadata"]["labels"].items()
    assert selected[labels.LOCAL_STORAGE] == "u-1"
    spec = made["spec"]["template"]["spec"]
    assert [each["name"] for each in spec["containers"]] == ["discoverer", "provisioner"]
    assert {each["image"] for each in spec["containers"]} == {"image:2"}
    assert spec["serviceAccountName"] == roles.DISCOVERER
    assert spec["imagePullSecrets"] == [{"name": "pull"}]
    ports = [port for each in spec["containers"] for port in each["ports"]]
    assert len({port["containerPort"] for port in ports}) == len({port["name"] for port in ports}) == 2
    for each in spec["containers"]:
        (port,) = each["ports"]
        assert each["livenessProbe"]["httpGet"]["port"] == port["name"]
        assert each["args"][-1] == f"--listen-address=:{port['containerPort']}"


@pytest.mark.seed("OPR-4")
def test_only_the_discoverer_may_write_rules_and_ask_for_uevents() -> None:
    spec = pod(NodeGroup(devices=DEVICES))
    discoverer, provisioner = (
        {mount["mountPath"]: mount for mount in each["volumeMounts"]} for each in spec["containers"]
    )
    assert not discoverer["/etc/udev/rules.d"]["readOnly"]
    assert provisioner["/etc/udev/rules.d"]["readOnly"]
    assert not discoverer["/run/udev"]["readOnly"]
    assert "/sys" in discoverer
    assert "/sys" not in provisioner
    names = [volume["name"] for volume in spec["volumes"]]
    assert len(names) == len(set(names))
    assert {mount["name"] for mount in (*discoverer.values(), *provisioner.values())} == set(names)


@pytest.mark.seed("OPR-2")
def test_labels_node_selectors_and_names_choose_the_nodes() -> None:
    everywhere = pod(NodeGroup(devices=DEVICES))
    assert everywhere["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert "affinity" not in everywhere
    by_label = pod(NodeGroup(node_selector={"localStorage": "true"}, devices=DEVICES))
    assert by_label["nodeSelector"] == {"kubernetes.io/os": "linux", "localStorage": "true"}
    terms = [{"matchExpressions": [{"key": "disks", "operator": "Exists"}]}]
    by_terms = pod(NodeGroup(node_selector={"nodeSelectorTerms": terms}, devices=DEVICES))
    required = by_terms["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required == {"nodeSelectorTerms": terms}
    by_name = pod(NodeGroup(node_name="n1", devices=DEVICES))
    (term,) = by_name["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}


def test_pods_tolerate_what_the_group_says_and_nothing_else() -> None:
    taint = Toleration(key="storage", operator="Exists", effect="NoSchedule")
    spec = pod(NodeGroup(devices=DEVICES, tolerations=(taint,)))
    assert spec["tolerations"] == [{"key": "storage", "operator": "Exists", "effect": "NoSchedule"}]
    assert "tolerations" not in pod(NodeGroup(devices=DEVICES))


@pytest.mark.seed("OPR-1")
def test_a_class_is_for_claims_that_wait_and_says_whose_it_is() -> None:
    made = NodePods().storage_class("fast", made_for="localpv-system/local")
    assert made["provisioner"] == "kubernetes.io/no-provisioner"
    assert made["volumeBindingMode"] == "WaitForFirstConsumer"
    assert made["metadata"]["annotations"][labels.LOCAL_STORAGE] == "localpv-system/local"


# -- the installation --------------------------------------------------------------------------------------------------


def installed(text: str = "{}") -> dict[tuple[str, str], Any]:
    plan = reading.read(text, source="test", operator=True)
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in everything.objects(plan)}


def test_with_the_operator_no_class_is_needed_and_then_no_agent() -> None:
    found = installed()
    assert ("DaemonSet", "localpv-agent") not in found
    args = found["Deployment", "localpv-manager"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--image=localhost/localpv:0.1.0" in args
    both = installed("storageClassMap: {slow: {hostDir: /mnt/slow}}")
    mounts = both["DaemonSet", "localpv-agent"]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    assert {"name": "rules", "mountPath": "/etc/udev/rules.d", "readOnly": True} in mounts


def test_the_discoverer_is_held_to_its_node_and_has_no_volumes() -> None:
    found = installed()
    rules = found["ClusterRole", roles.DISCOVERER]["rules"]
    resources = {resource for rule in rules for resource in rule["resources"]}
    assert not {each for each in resources if each.startswith(("persistentvolume", "pods", "secrets", "configmaps"))}
    spec = found["ValidatingAdmissionPolicy", roles.DISCOVERER]["spec"]
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert {"localdisks", "localstoragenodes", "localstoragenodes/status"} <= set(rule["resources"])
    assert f"localpv-system:{roles.DISCOVERER}" in spec["matchConditions"][0]["expression"]


def test_no_role_for_people_gets_localstorages() -> None:
    for (kind, name), obj in installed().items():
        aggregated = [key for key in obj["metadata"].get("labels", {}) if "aggregate-to" in key]
        assert not (kind == "ClusterRole" and aggregated), name


def test_a_drop_in_and_the_operator_do_not_go_together() -> None:
    with pytest.raises(ConfigurationError, match="do not go together"):
        CliRunner().invoke(manifests, ["--drop-in", "--operator"], catch_exceptions=False, standalone_mode=False)


def test_the_command_prints_what_the_operator_needs() -> None:
    printed = CliRunner().invoke(manifests, ["--operator", "--image", "registry/localpv:9"], catch_exceptions=False)
    found = {(obj["kind"], obj["metadata"]["name"]): obj for obj in yaml.safe_load_all(printed.output)}
    container = found["Deployment", "localpv-manager"]["spec"]["template"]["spec"]["containers"][0]
    assert "--image=registry/localpv:9" in container["args"]
