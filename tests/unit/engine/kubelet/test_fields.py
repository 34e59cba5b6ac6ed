"""Every field that a pod may have: who enforces it, where it is refused by name, or why it may be left out.

The list of fields comes from the schema of the API. A field that a newer Kubernetes brings is in no table, and these
tests fail until somebody has decided about it: what protects must never be accepted and ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from localpv.api import well_known
from localpv.api.kinds.containers import (
    Container,
    ContainerPort,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    Lifecycle,
    LifecycleHandler,
    Probe,
    ResourceRequirements,
    SecurityContext,
    SecurityProfile,
    VolumeDevice,
    VolumeMount,
)
from localpv.api.kinds.pods import Pod, PodDNSConfig, PodSecurityContext, PodSpec, SchedulingGate
from localpv.api.schema import catalogue
from localpv.api.schema.node import Node
from localpv.engine.kubelet import unsupported
from localpv.host.containers import Features

CORE = "io.k8s.api.core.v1."
SCHEDULER = "enforced: engine/scheduler"
SERVER = "enforced: apiserver"
NODE = "enforced: pods"
VOLUMES = "enforced: engine/kubelet/volumes"
REFUSED_BY_NODE = "refused: engine/kubelet/unsupported.py"
REFUSED_BY_SERVER = "refused: apiserver"
REFUSED_BY_VOLUMES = "refused: engine/kubelet/volumes, as a source that is not supported"


def harmless(why: str) -> str:
    return f"harmless: {why}"


NO_NETWORK = harmless("pods have no network but their own loopback, and no Service routes anything: docs/limits.md")
NOT_PULLED = harmless("nothing is pulled: docs/limits.md")
NOT_RESIZED = harmless("there is no way to change the resources of a pod that runs: docs/limits.md")

FIELDS: dict[str, dict[str, str]] = {
    "PodSpec": {
        **dict.fromkeys(("affinity", "nodeSelector", "schedulerName", "schedulingGates", "tolerations"), SCHEDULER),
        **dict.fromkeys(("topologySpreadConstraints", "overhead", "nodeName"), SCHEDULER),
        **dict.fromkeys(("priority", "priorityClassName", "serviceAccount", "serviceAccountName"), SERVER),
        "automountServiceAccountToken": harmless("no token is mounted unless a projected volume asks for it"),
        **dict.fromkeys(("activeDeadlineSeconds", "containers", "initContainers", "restartPolicy"), NODE),
        **dict.fromkeys(("dnsConfig", "dnsPolicy", "hostAliases", "hostname", "hostnameOverride"), NODE),
        **dict.fromkeys(("hostIPC", "hostNetwork", "hostPID", "readinessGates", "securityContext"), NODE),
        **dict.fromkeys(("setHostnameAsFQDN", "subdomain", "terminationGracePeriodSeconds"), NODE),
        "volumes": VOLUMES,
        **dict.fromkeys(("hostUsers", "os", "shareProcessNamespace"), REFUSED_BY_NODE),
        **dict.fromkeys(("runtimeClassName", "ephemeralContainers"), REFUSED_BY_SERVER),
        "enableServiceLinks": NO_NETWORK,
        "imagePullSecrets": NOT_PULLED,
        "preemptionPolicy": harmless("pods are not preempted: docs/limits.md"),
        "resources": REFUSED_BY_NODE,  # limits; requests are the scheduler's
        "resourceClaims": harmless("a container that uses one is refused: ResourceRequirements.claims"),
        "workloadRef": harmless("pods of a group are scheduled one by one, as without the feature"),
    },
    "PodSecurityContext": {
        **dict.fromkeys(("fsGroup", "fsGroupChangePolicy"), VOLUMES),
        **dict.fromkeys(("runAsGroup", "runAsNonRoot", "runAsUser", "seccompProfile", "supplementalGroups"), NODE),
        **dict.fromkeys(("supplementalGroupsPolicy", "sysctls"), NODE),
        **dict.fromkeys(("appArmorProfile", "seLinuxOptions"), REFUSED_BY_NODE),
        "seLinuxChangePolicy": harmless("only says how seLinuxOptions reach volumes"),
        "windowsOptions": harmless("means nothing on Linux, as on Kubernetes"),
    },
    "SecurityContext": {
        **dict.fromkeys(("allowPrivilegeEscalation", "capabilities", "privileged", "readOnlyRootFilesystem"), NODE),
        **dict.fromkeys(("runAsGroup", "runAsNonRoot", "runAsUser", "seccompProfile"), NODE),
        **dict.fromkeys(("appArmorProfile", "procMount", "seLinuxOptions"), REFUSED_BY_NODE),
        "windowsOptions": harmless("means nothing on Linux, as on Kubernetes"),
    },
    "Container": {
        **dict.fromkeys(("args", "command", "env", "envFrom", "image", "lifecycle", "livenessProbe", "name"), NODE),
        **dict.fromkeys(("readinessProbe", "restartPolicy", "securityContext", "startupProbe", "stdin", "tty"), NODE),
        **dict.fromkeys(("resources", "terminationMessagePath", "terminationMessagePolicy", "workingDir"), NODE),
        **dict.fromkeys(("volumeDevices", "volumeMounts"), NODE),
        "ports": SCHEDULER,
        "restartPolicyRules": REFUSED_BY_NODE,
        "imagePullPolicy": NOT_PULLED,
        "resizePolicy": NOT_RESIZED,
        "stdinOnce": harmless("nobody can attach: docs/limits.md"),
    },
    "ContainerPort": {
        **dict.fromkeys(("containerPort", "name"), "enforced: probes and hooks by the name of a port"),
        **dict.fromkeys(("hostIP", "hostPort", "protocol"), SCHEDULER),
    },
    "ResourceRequirements": {"limits": NODE, "requests": NODE, "claims": REFUSED_BY_NODE},
    "VolumeMount": {
        **dict.fromkeys(("mountPath", "name", "readOnly", "recursiveReadOnly", "subPath", "subPathExpr"), NODE),
        "mountPropagation": REFUSED_BY_NODE,
    },
    "VolumeDevice": {"devicePath": NODE, "name": NODE},
    "EnvVar": dict.fromkeys(("name", "value", "valueFrom"), NODE),
    "EnvVarSource": {
        **dict.fromkeys(("configMapKeyRef", "fieldRef", "resourceFieldRef", "secretKeyRef"), NODE),
        "fileKeyRef": REFUSED_BY_NODE,
    },
    "EnvFromSource": dict.fromkeys(("configMapRef", "prefix", "secretRef"), NODE),
    "Probe": {
        **dict.fromkeys(("exec", "httpGet", "tcpSocket", "failureThreshold", "initialDelaySeconds"), NODE),
        **dict.fromkeys(("periodSeconds", "successThreshold", "timeoutSeconds", "terminationGracePeriodSeconds"), NODE),
        "grpc": REFUSED_BY_NODE,
    },
    "Lifecycle": dict.fromkeys(("postStart", "preStop", "stopSignal"), NODE),
    "LifecycleHandler": {**dict.fromkeys(("exec", "httpGet", "sleep"), NODE), "tcpSocket": REFUSED_BY_NODE},
    "Volume": {
        **dict.fromkeys(("configMap", "downwardAPI", "emptyDir", "ephemeral", "hostPath", "name"), VOLUMES),
        **dict.fromkeys(("persistentVolumeClaim", "projected", "secret"), VOLUMES),
        "localVolume": SERVER,  # becomes `ephemeral`
        **dict.fromkeys(("awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder"), REFUSED_BY_VOLUMES),
        **dict.fromkeys(("csi", "fc", "flexVolume", "flocker", "gcePersistentDisk", "gitRepo"), REFUSED_BY_VOLUMES),
        **dict.fromkeys(("glusterfs", "image", "iscsi", "nfs", "photonPersistentDisk"), REFUSED_BY_VOLUMES),
        **dict.fromkeys(("portworxVolume", "quobyte", "rbd", "scaleIO", "storageos"), REFUSED_BY_VOLUMES),
        "vsphereVolume": REFUSED_BY_VOLUMES,
    },
    "SeccompProfile": {"localhostProfile": NODE, "type": NODE},
    "Sysctl": {"name": NODE, "value": NODE},
    "Capabilities": {"add": NODE, "drop": NODE},
    "HostAlias": {"hostnames": NODE, "ip": NODE},
    "PodDNSConfig": dict.fromkeys(("nameservers", "options", "searches"), NODE),
    "PodDNSConfigOption": {"name": NODE, "value": NODE},
    "PodReadinessGate": {"conditionType": NODE},
    "ExecAction": {"command": NODE},
    "SleepAction": {"seconds": NODE},
    "HTTPGetAction": dict.fromkeys(("host", "httpHeaders", "path", "port", "scheme"), NODE),
    "HTTPHeader": {"name": NODE, "value": NODE},
    "TCPSocketAction": {"host": NODE, "port": NODE},
    "ConfigMapEnvSource": {"name": NODE, "optional": NODE},
    "SecretEnvSource": {"name": NODE, "optional": NODE},
    "ConfigMapKeySelector": {"key": NODE, "name": NODE, "optional": NODE},
    "SecretKeySelector": {"key": NODE, "name": NODE, "optional": NODE},
    "ObjectFieldSelector": {"apiVersion": NODE, "fieldPath": NODE},
    "ResourceFieldSelector": {"containerName": NODE, "divisor": NODE, "resource": NODE},
    "Toleration": dict.fromkeys(("effect", "key", "operator", "tolerationSeconds", "value"), SCHEDULER),
    "PodSchedulingGate": {"name": SCHEDULER},
    "ConfigMapVolumeSource": dict.fromkeys(("defaultMode", "items", "name", "optional"), VOLUMES),
    "SecretVolumeSource": dict.fromkeys(("defaultMode", "items", "optional", "secretName"), VOLUMES),
    "DownwardAPIVolumeSource": {"defaultMode": VOLUMES, "items": VOLUMES},
    "EmptyDirVolumeSource": {"medium": VOLUMES, "sizeLimit": VOLUMES},
    "HostPathVolumeSource": {"path": VOLUMES, "type": VOLUMES},
    "PersistentVolumeClaimVolumeSource": {"claimName": VOLUMES, "readOnly": VOLUMES},
    "ProjectedVolumeSource": {"defaultMode": VOLUMES, "sources": VOLUMES},
}

DECIDED_ABOVE = {
    # Below a field that is refused or left out as a whole.
    *("AppArmorProfile", "SELinuxOptions", "WindowsSecurityContextOptions", "GRPCAction", "FileKeySelector"),
    *("ResourceClaim", "ContainerRestartRule", "ContainerResizePolicy", "EphemeralContainer", "LocalObjectReference"),
    *("PodOS", "PodResourceClaim", "WorkloadReference"),
    *("AWSElasticBlockStoreVolumeSource", "AzureDiskVolumeSource", "AzureFileVolumeSource"),
    *("CephFSVolumeSource", "CinderVolumeSource", "CSIVolumeSource", "FCVolumeSource", "FlexVolumeSource"),
    *("FlockerVolumeSource", "GCEPersistentDiskVolumeSource", "GitRepoVolumeSource", "GlusterfsVolumeSource"),
    *("ImageVolumeSource", "ISCSIVolumeSource", "NFSVolumeSource", "PhotonPersistentDiskVolumeSource"),
    *("PortworxVolumeSource", "QuobyteVolumeSource", "RBDVolumeSource", "ScaleIOVolumeSource"),
    *("StorageOSVolumeSource", "VsphereVirtualDiskVolumeSource", "dev.localpv.core.v1.LocalVolumeSource"),
    # Shown elsewhere as a whole: what the scheduler is asked, and claims with their own kind.
    *("Affinity", "TopologySpreadConstraint", "EphemeralVolumeSource"),
    # Keys and paths of files, and the sources that are put together: tests of `engine/kubelet/volumes`.
    *("KeyToPath", "DownwardAPIVolumeFile", "VolumeProjection"),
}


def definitions(node: Node, seen: dict[str, Node]) -> dict[str, Node]:
    """Every struct below a node, but for what is decided above."""
    while node.items is not None:
        node = node.items
    name = node.name.removeprefix(CORE)
    if node.fields and name not in seen and name not in DECIDED_ABOVE:
        seen[name] = node
        for field in node.fields.values():
            definitions(field, seen)
    return seen


ALL = definitions(catalogue.built_in().node(f"{CORE}PodSpec"), {})


def test_every_struct_of_a_pod_is_in_the_table() -> None:
    assert ALL.keys() == FIELDS.keys()


@pytest.mark.parametrize("name", sorted(ALL))
def test_somebody_has_decided_about_every_field(name: str) -> None:
    assert {*ALL[name].fields} == {*FIELDS[name]}


STRUCTS: dict[str, type[msgspec.Struct]] = {
    "PodSpec": PodSpec,
    "PodSecurityContext": PodSecurityContext,
    "SecurityContext": SecurityContext,
    "Container": Container,
    "ContainerPort": ContainerPort,
    "ResourceRequirements": ResourceRequirements,
    "VolumeMount": VolumeMount,
    "VolumeDevice": VolumeDevice,
    "EnvVar": EnvVar,
    "EnvVarSource": EnvVarSource,
    "EnvFromSource": EnvFromSource,
    "Probe": Probe,
    "Lifecycle": Lifecycle,
    "LifecycleHandler": LifecycleHandler,
    "SeccompProfile": SecurityProfile,
    "PodDNSConfig": PodDNSConfig,
    "PodSchedulingGate": SchedulingGate,
}


@pytest.mark.parametrize("name", sorted(STRUCTS))
def test_node_can_see_what_it_is_to_enforce_or_refuse(name: str) -> None:
    """A field that the struct of a kind lacks is dropped when a pod is read: nobody could do anything about it."""
    seen = {field.encode_name for field in msgspec.structs.fields(STRUCTS[name])}
    by_others = {SERVER, REFUSED_BY_SERVER}
    wanted = {
        field
        for field, verdict in FIELDS[name].items()
        if verdict not in by_others and not verdict.startswith("harmless")
    }
    assert wanted <= seen


def a_pod(spec: dict[str, Any] | None = None, **container: Any) -> Pod:
    one = {"name": "main", "image": "x", **container}
    whole = {"containers": [one], **(spec or {})}
    return msgspec.convert({"metadata": {"name": "pod", "namespace": "default"}, "spec": whole}, Pod)


def mounted(**mount: Any) -> Pod:
    return a_pod(volumeMounts=[{"name": "v", "mountPath": "/v", **mount}])


def samples() -> Iterator[tuple[str, Pod]]:
    yield "PodSpec.hostUsers", a_pod({"hostUsers": False})
    yield "PodSpec.resources", a_pod({"resources": {"limits": {"memory": "1Gi"}}})
    yield "PodSpec.os", a_pod({"os": {"name": "windows"}})
    yield "PodSpec.shareProcessNamespace", a_pod({"shareProcessNamespace": True})
    armor = {"appArmorProfile": {"type": "Localhost", "localhostProfile": "x"}}
    yield "PodSecurityContext.appArmorProfile", a_pod({"securityContext": armor})
    yield "SecurityContext.appArmorProfile", a_pod(securityContext=armor)
    yield "SecurityContext.procMount", a_pod(securityContext={"procMount": "Unmasked"})
    level = {"seLinuxOptions": {"level": "s0"}}
    yield "PodSecurityContext.seLinuxOptions", a_pod({"securityContext": level})
    yield "SecurityContext.seLinuxOptions", a_pod(securityContext=level)
    yield "Container.restartPolicyRules", a_pod(restartPolicyRules=[{"action": "Restart"}])
    yield "ResourceRequirements.claims", a_pod(resources={"claims": [{"name": "gpu"}]})
    yield "VolumeMount.mountPropagation", mounted(mountPropagation="HostToContainer")
    yield "EnvVarSource.fileKeyRef", a_pod(env=[{"name": "A", "valueFrom": {"fileKeyRef": {"key": "a"}}}])
    yield "Probe.grpc", a_pod(readinessProbe={"grpc": {"port": 1}})
    yield "LifecycleHandler.tcpSocket", a_pod(lifecycle={"preStop": {"tcpSocket": {"port": 1}}})


SAMPLES = dict(samples())


def test_there_is_a_pod_for_each_field_that_the_node_refuses() -> None:
    refused = {f"{name}.{field}" for name in FIELDS for field in FIELDS[name] if FIELDS[name][field] == REFUSED_BY_NODE}
    assert refused == SAMPLES.keys()


@pytest.mark.parametrize("field", sorted(SAMPLES))
def test_node_refuses_by_name(field: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsupported, "_SELINUX", tmp_path)  # a machine that has it on
    found = unsupported.refusal(SAMPLES[field], features=Features(seccomp=True, recursive_read_only=True))
    assert found is not None
    reason, message = found
    words = {"grpc": "gRPC", "appArmorProfile": "AppArmor", "os": "OS field", "claims": "resources.claims"}
    assert reason and words.get(field.rpartition(".")[2], field.rpartition(".")[2]) in message


def test_ordinary_pod_is_not_refused() -> None:
    features = Features()
    assert unsupported.refusal(a_pod(), features=features) is None
    assert unsupported.refusal(mounted(mountPropagation="None", readOnly=True), features=features) is None
    plain = {"seccompProfile": {"type": "Unconfined"}, "appArmorProfile": {"type": "Unconfined"}}
    assert unsupported.refusal(a_pod({"securityContext": plain, "hostUsers": True}), features=features) is None


def test_runtime_that_lacks_a_feature_has_pods_refused_that_ask_for_it() -> None:
    default = a_pod(securityContext={"seccompProfile": {"type": "RuntimeDefault"}})
    recursive = mounted(readOnly=True, recursiveReadOnly="Enabled")
    for pod, word in ((default, "seccomp"), (recursive, "recursiveReadOnly")):
        assert unsupported.refusal(pod, features=Features(seccomp=True, recursive_read_only=True)) is None
        found = unsupported.refusal(pod, features=Features())
        assert found is not None and word in found[1]


@pytest.mark.parametrize("name", sorted(unsupported.SAFE_SYSCTLS))
def test_safe_sysctls_go_with_namespaces_of_the_pod_only(name: str) -> None:
    wanted = {"securityContext": {"sysctls": [{"name": name.replace(".", "/"), "value": "1"}]}}
    assert unsupported.refusal(a_pod(wanted), features=Features()) is None
    assert unsupported.sysctls(a_pod(wanted)) == {name: "1"}
    host = {"hostNetwork": True} if name.startswith("net.") else {"hostIPC": True}
    found = unsupported.refusal(a_pod({**wanted, **host}), features=Features())
    assert found is not None and found[0] == "SysctlForbidden" and name in found[1]


def test_app_armor_in_the_annotation_of_old_is_refused_too() -> None:
    pod = a_pod()
    annotations = {f"{well_known.APPARMOR_PREFIX}main": "runtime/default"}
    pod = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations=annotations))
    found = unsupported.refusal(pod, features=Features())
    assert found is not None and found[0] == "AppArmor"
