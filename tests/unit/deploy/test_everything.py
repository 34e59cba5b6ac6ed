from __future__ import annotations

from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from localpv.api import roles
from localpv.api.kinds.localdisk import LOCAL_DISKS, LocalDiskSpec
from localpv.cli import daemons
from localpv.cli.main import cli
from localpv.cli.manifests import manifests
from localpv.deploy import everything, printing, reading
from localpv.deploy.plan import Plan
from localpv.errors import ConfigurationError

CLASSES = """
storageClassMap:
  fast: {hostDir: /mnt/fast, mountDir: /local-fast, namePattern: "nvme*"}
  slow: {hostDir: /mnt/slow/}
  also-slow: {hostDir: /mnt/fast, mountDir: /local-fast, namePattern: "sd*"}
"""


def plan(more: str = "", *, drop_in: bool = False) -> Plan:
    return reading.read(CLASSES + more, source="test", drop_in=drop_in)


def by_name(made: Plan) -> dict[tuple[str, str], Any]:
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in everything.objects(made)}


def pod(made: Plan, kind: str = "DaemonSet", name: str = "localpv-agent") -> Any:
    return by_name(made)[kind, name]["spec"]["template"]["spec"]


def resources(role: Any) -> set[str]:
    return {resource for rule in role["rules"] for resource in rule["resources"]}


def verbs(role: Any, resource: str) -> set[str]:
    return {verb for rule in role["rules"] if resource in rule["resources"] for verb in rule["verbs"]}


# -- the redesign ------------------------------------------------------------------------------------------------------


@pytest.mark.seed("CFG-7")
def test_only_the_manager_gets_at_volumes() -> None:
    found = by_name(plan())
    agent = found["ClusterRole", "localpv-agent"]
    disks, pools = {"localdisks", "localdisks/status"}, {"localpools", "poolvolumes", "poolsnapshots"}
    assert resources(agent) == {*disks, *pools, *(f"{one}/status" for one in pools), "nodes", "events", "localstorages"}
    assert verbs(agent, "localstorages") == {"get"}
    assert verbs(found["ClusterRole", "localpv-agent"], "nodes") == {"get"}
    manager = found["ClusterRole", "localpv-manager"]
    assert {"create", "delete"} <= verbs(manager, "persistentvolumes")
    assert verbs(manager, "persistentvolumeclaims") == {"get", "list", "watch", "delete", "patch"}
    assert verbs(manager, "secrets") == set()
    assert resources(found["Role", "localpv-manager"]) == {"leases", "configmaps", "pods", "csistoragecapacities"}
    for kind, name in found:
        if kind.endswith("RoleBinding"):
            (subject,) = found[kind, name]["subjects"]
            assert (subject["name"], subject["namespace"]) == (name, "localpv-system")


@pytest.mark.seed("CFG-7")
def test_the_policy_is_for_the_agents_account_and_refuses_by_default() -> None:
    found = by_name(plan("namespace: disks"))
    spec = found["ValidatingAdmissionPolicy", "localpv-agent"]["spec"]
    assert spec["failurePolicy"] == "Fail"
    assert "system:serviceaccount:disks:localpv-agent" in spec["matchConditions"][0]["expression"]
    binding = found["ValidatingAdmissionPolicyBinding", "localpv-agent"]["spec"]
    assert binding == {"policyName": "localpv-agent", "validationActions": ["Deny"]}


def test_names_of_the_roles_module_are_those_of_the_kind() -> None:
    assert (LOCAL_DISKS.group, LOCAL_DISKS.plural) == (roles.DISKS_GROUP, roles.DISKS)
    assert set(roles.ORDERS) <= set(LocalDiskSpec.__struct_encode_fields__)


def test_cleaning_jobs_are_the_managers() -> None:
    found = by_name(plan("useJobForCleaning: true"))
    assert "jobs" in resources(found["Role", "localpv-manager"])
    assert ("Role", "localpv-agent") not in found


def test_objects_come_in_an_order_in_which_they_can_be_applied() -> None:
    kinds = [obj["kind"] for obj in everything.objects(plan())]
    assert kinds[:2] == ["Namespace", "CustomResourceDefinition"]
    assert kinds[-2:] == ["DaemonSet", "Deployment"]
    assert kinds.index("ValidatingAdmissionPolicyBinding") < kinds.index("DaemonSet")
    assert "Namespace" not in {obj["kind"] for obj in everything.objects(plan("namespace: kube-system"))}


# -- pools -------------------------------------------------------------------------------------------------------------

POOLS = """
storageClassMap:
  pooled: {pool: {kind: file, directory: /var/pool, size: 5Gi}}
  also-pooled: {pool: {kind: file, directory: /var/pool, size: 5Gi}, storageClass: {reclaimPolicy: Retain}}
  fast: {hostDir: /mnt/fast}
"""


def test_a_class_with_a_pool_gets_a_storage_class_of_the_driver_and_may_grow() -> None:
    found = by_name(reading.read(POOLS, source="test"))
    made = found["StorageClass", "pooled"]
    assert (made["provisioner"], made["volumeBindingMode"]) == ("localpv.dev", "WaitForFirstConsumer")
    assert made["allowVolumeExpansion"] is True
    assert found["StorageClass", "also-pooled"]["reclaimPolicy"] == "Retain"
    assert found["StorageClass", "fast"]["provisioner"] == "kubernetes.io/no-provisioner"
    assert "allowVolumeExpansion" not in found["StorageClass", "fast"]
    driver = found["CSIDriver", "localpv.dev"]["spec"]
    assert (driver["attachRequired"], driver["storageCapacity"]) == (False, True)


def test_agents_with_pools_show_the_host_what_they_mount_for_pods() -> None:
    spec = pod(reading.read(POOLS, source="test"))
    mounts = {mount["mountPath"]: mount.get("mountPropagation") for mount in spec["containers"][0]["volumeMounts"]}
    assert mounts["/var/lib/kubelet/plugins"] == mounts["/var/lib/kubelet/pods"] == "Bidirectional"
    assert "/var/lib/kubelet/plugins_registry" in mounts
    volumes = {volume["name"]: volume.get("hostPath", {}).get("path") for volume in spec["volumes"]}
    assert [*volumes.values()].count("/var/pool") == 1


def test_without_pools_nothing_of_them_is_installed() -> None:
    assert ("CSIDriver", "localpv.dev") not in by_name(plan())
    assert not [volume for volume in pod(plan())["volumes"] if "kubelet" in volume["name"]]


@pytest.mark.parametrize(
    ("more", "drop_in", "words"),
    [("agent: {privileged: false}", False, "needs agents that are privileged"), ("", True, "needs a manager")],
)
def test_pools_are_refused_where_they_cannot_be_served(more: str, drop_in: bool, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        reading.read(POOLS + more, source="test", drop_in=drop_in)


# -- pods --------------------------------------------------------------------------------------------------------------


@pytest.mark.seed("CFG-3")
def test_agents_run_on_every_node_with_its_name_and_high_priority() -> None:
    spec = pod(plan())
    assert spec["priorityClassName"] == "system-node-critical"
    assert spec["tolerations"] == [{"operator": "Exists"}]
    container = spec["containers"][0]
    assert {"name": "MY_NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}} in container["env"]
    assert container["resources"]["requests"]
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


@pytest.mark.seed("CFG-3")
def test_each_directory_of_the_host_is_mounted_once_where_the_configuration_says() -> None:
    spec = pod(plan())
    volumes = {volume["name"]: volume.get("hostPath", {}).get("path") for volume in spec["volumes"]}
    mounts = {mount["mountPath"]: mount for mount in spec["containers"][0]["volumeMounts"]}
    assert len(mounts) == len(spec["containers"][0]["volumeMounts"]) == len(volumes)
    for host, inside in (("/mnt/fast", "/local-fast"), ("/mnt/slow", "/mnt/slow")):
        assert volumes[mounts[inside]["name"]] == host
        assert mounts[inside]["mountPropagation"] == "HostToContainer"
    assert mounts["/etc/provisioner/config"]["readOnly"]
    assert {"/dev", "/run/udev"} <= set(mounts)


def test_agents_for_directories_alone_are_not_privileged_and_see_no_devices() -> None:
    spec = pod(plan("agent: {privileged: false}"))
    context = spec["containers"][0]["securityContext"]
    assert "privileged" not in context
    assert context["capabilities"]["drop"] == ["ALL"]
    assert "/dev" not in [mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]]


def test_the_manager_is_not_root_and_has_nothing_of_the_host() -> None:
    found = by_name(plan())["Deployment", "localpv-manager"]["spec"]
    assert found["replicas"] == 2
    spec = found["template"]["spec"]
    assert "hostPID" not in spec
    assert not [volume for volume in spec["volumes"] if "hostPath" in volume]
    assert spec["containers"][0]["args"] == [
        "manager",
        "--namespace=$(MY_NAMESPACE)",
        "--config-map=localpv-config",
        "--agents=localpv-agent",
        "--listen-address=:8080",
    ]
    context = spec["containers"][0]["securityContext"]
    assert context["runAsNonRoot"] and context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]


def test_pods_run_as_the_configuration_says() -> None:
    made = plan(
        """
agent:
  nodeSelector: {disks: "yes"}
  tolerations: []
  resources: {requests: {cpu: 1}, limits: {memory: 1Gi}}
  priorityClassName: ""
  podLabels: {team: storage, app.kubernetes.io/name: stolen}
  podAnnotations: {a: b}
manager: {replicas: 3, priorityClassName: mine}
imagePullSecrets: [pull]
imagePullPolicy: Always
image: localhost/mine:1
"""
    )
    template = by_name(made)["DaemonSet", "localpv-agent"]["spec"]["template"]
    spec = template["spec"]
    assert spec["nodeSelector"] == {"disks": "yes"}
    assert "tolerations" not in spec and "priorityClassName" not in spec
    assert spec["containers"][0]["resources"] == {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}
    assert (spec["containers"][0]["image"], spec["containers"][0]["imagePullPolicy"]) == ("localhost/mine:1", "Always")
    assert spec["imagePullSecrets"] == [{"name": "pull"}]
    assert template["metadata"]["labels"] == {
        "team": "storage",
        "app.kubernetes.io/name": "localpv",
        "app.kubernetes.io/component": "agent",
    }
    manager = by_name(made)["Deployment", "localpv-manager"]["spec"]
    assert (manager["replicas"], manager["template"]["spec"]["priorityClassName"]) == (3, "mine")


@pytest.mark.parametrize(
    ("kind", "name", "drop_in"),
    [
        ("DaemonSet", "localpv-agent", False),
        ("Deployment", "localpv-manager", False),
        ("DaemonSet", "localpv-provisioner", True),
    ],
)
def test_the_programs_take_the_arguments_they_are_given(kind: str, name: str, drop_in: bool) -> None:
    program, *arguments = pod(plan(drop_in=drop_in), kind, name)["containers"][0]["args"]
    command = cli.get_command(click.Context(cli), program)
    assert command is not None
    assert command.make_context(program, list(arguments)).info_name == program


def test_folders_that_the_programs_expect_are_mounted() -> None:
    places = [mount["mountPath"] for mount in pod(plan())["containers"][0]["volumeMounts"]]
    assert str(daemons.CONFIG_FOLDER) in places
    assert str(daemons.STATE_FOLDER.parent) in places


# -- the drop-in -------------------------------------------------------------------------------------------------------


@pytest.mark.seed("CFG-3")
def test_the_drop_in_is_one_daemon_set_with_the_classic_rights_and_that_to_hold_volumes() -> None:
    found = by_name(plan(drop_in=True))
    assert [name for kind, name in found if kind in ("DaemonSet", "Deployment")] == ["localpv-provisioner"]
    role = found["ClusterRole", "localpv-provisioner"]
    assert verbs(role, "persistentvolumes") == {"get", "list", "watch", "create", "delete", "patch"}
    assert verbs(role, "nodes") == {"get", "list", "watch"}
    assert verbs(found["Role", "localpv-provisioner"], "configmaps") == {"get"}
    assert resources(role) == {"persistentvolumes", "storageclasses", "events", "nodes"}
    spec = pod(plan(drop_in=True), name="localpv-provisioner")
    assert spec["containers"][0]["args"] == ["provisioner", "--listen-address=:8080"]
    assert "/var/lib/localpv" in [mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]]
    assert not [kind for kind, _ in found if kind.startswith(("Validating", "Custom"))]


def test_a_drop_in_changes_nodes_only_when_it_is_to_remove_their_taint() -> None:
    role = by_name(plan("removeNodeNotReadyTaint: true", drop_in=True))["ClusterRole", "localpv-provisioner"]
    assert verbs(role, "nodes") == {"get", "list", "watch", "patch", "update"}


# -- classes, printing, the command ------------------------------------------------------------------------------------


def test_storage_classes_wait_for_the_pod_and_provision_nothing() -> None:
    made = reading.read(
        "storageClassMap: {a: {hostDir: /a, storageClass: {default: true, mountOptions: [noatime]}}}", source="x"
    )
    found = by_name(made)["StorageClass", "a"]
    assert found["provisioner"] == "kubernetes.io/no-provisioner"
    assert found["volumeBindingMode"] == "WaitForFirstConsumer"
    assert found["mountOptions"] == ["noatime"]
    assert found["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true"


@pytest.mark.seed("CFG-10")
def test_who_chooses_a_class_is_told_its_risks() -> None:
    made = reading.read("storageClassMap: {a: {hostDir: /a}}", source="x")
    told = by_name(made)["StorageClass", "a"]["metadata"]["annotations"]["kubernetes.io/description"]
    assert "runs on that node only" in told and "as safe as that one disk" in told


def test_what_is_printed_is_what_was_built() -> None:
    objects = everything.objects(plan())
    text = printing.documents(objects)
    assert list(yaml.safe_load_all(text)) == objects
    assert "&id" not in text
    assert "storageClassMap: |\n" in text


def test_the_command_prints_everything_for_classes_on_the_command_line() -> None:
    ended = CliRunner().invoke(manifests, ["--class", "fast=/mnt/fast", "--image", "localhost/a:1", "-n", "disks"])
    found = list(yaml.safe_load_all(ended.output))
    assert found == everything.objects(
        reading.read(
            '{"storageClassMap": {"fast": {"hostDir": "/mnt/fast"}}}',
            source="x",
            image="localhost/a:1",
            namespace="disks",
        )
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no class is configured"),
        (["--class", "fast"], "--class takes NAME=DIR"),
        (["--class", "a=/a", "--class", "a=/b"], "each name once"),
        (["--class", "a=/a", "-f", "x"], "do not go together"),
        (["-f", "/nowhere/config.yaml"], "cannot be read"),
        (["--class", "a=b"], "storageClassMap.a.hostDir: must be a full path"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused(arguments: list[str], message: str) -> None:
    ended = CliRunner().invoke(manifests, arguments)
    assert isinstance(ended.exception, ConfigurationError)
    assert message in ended.exception.message
