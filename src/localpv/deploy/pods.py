"""Parts that the pods share."""

from __future__ import annotations

from collections.abc import Iterable

from localpv.api import well_known
from localpv.api.objects import Object
from localpv.config import environment, sources
from localpv.config.pools import PoolSettings
from localpv.config.settings import ClassSettings
from localpv.deploy.plan import Pods

PORT = 8080
"""Of metrics and probes, in the pod's network; nothing is opened on the node."""

PORT_NAME = "metrics"
SCRAPED = {"prometheus.io/scrape": "true", "prometheus.io/port": str(PORT)}
"""By these the usual configuration of Prometheus finds pods that have metrics."""

COMPONENT_LABEL = "app.kubernetes.io/component"
OURS = "localpv"
"""Value of the label that says who looks after an object."""

KUBELET_FOLDER = "/var/lib/kubelet"
KUBELET_FOLDERS = ("plugins", "plugins_registry", "pods")
SHOWN_FOLDERS = ("plugins", "pods")
"""Of these, where volumes are staged and published: what is mounted there in the agent's pod is mounted on the host."""

CONFIG_VOLUME = "config"
CAPABILITIES = ("DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "LINUX_IMMUTABLE", "SYS_PTRACE")
"""What removing everybody's files takes, immutable ones too, and reading the host's mount table: a directory that a
pod still has mounted is not emptied."""

NOBODY = 65532
"""The user that the image runs as."""


def labels(component: str) -> dict[str, str]:
    return {well_known.APP_NAME: "localpv", COMPONENT_LABEL: component}


def metadata(name: str, namespace: str, component: str) -> Object:
    return {"name": name, "namespace": namespace, "labels": labels(component)}


def template(component: str, pods: Pods, spec: Object, *, annotated: bool = True) -> Object:
    """A pod template; what the plan says about pods is added to the spec. Annotated, it says where its metrics are."""
    made = dict(spec)
    if pods.priority_class:
        made["priorityClassName"] = pods.priority_class
    if pods.node_selector:
        made["nodeSelector"] = dict(pods.node_selector)
    if pods.tolerations:
        made["tolerations"] = list(pods.tolerations)
    if pods.affinity:
        made["affinity"] = pods.affinity
    meta: Object = {"labels": {**pods.labels, **labels(component)}}
    if annotations := {**(SCRAPED if annotated else {}), **pods.annotations}:
        meta["annotations"] = annotations
    return {"metadata": meta, "spec": made}


def variables(*, node: bool = False) -> list[Object]:
    """Environment of a program."""
    found = [_from_field(environment.NAMESPACE, "metadata.namespace")]
    if node:
        found.insert(0, _from_field(environment.NODE, "spec.nodeName"))
    return found


def _from_field(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def probes(port: str = PORT_NAME) -> Object:
    def get(path: str, **more: int) -> Object:
        return {"httpGet": {"path": path, "port": port}, "timeoutSeconds": 5, **more}

    # A busy node may be slow to answer; one that never answers again is started anew after two minutes.
    return {
        "livenessProbe": get("/livez", periodSeconds=20, failureThreshold=6),
        "readinessProbe": get("/readyz", periodSeconds=10),
    }


def ports() -> list[Object]:
    return [{"name": PORT_NAME, "containerPort": PORT}]


class Mounts:
    """Volumes of a pod and where its container sees them; two wishes for one place are one."""

    def __init__(self) -> None:
        self.volumes: list[Object] = []
        self.mounts: list[Object] = []

    def host(self, name: str, path: str, at: str = "", *, kind: str = "Directory", **mount: object) -> None:
        place = at or path
        if all(each["mountPath"] != place for each in self.mounts):
            self._add(name, place, {"hostPath": {"path": path, "type": kind}}, **mount)

    def config(self, config_map: str) -> None:
        self._add(CONFIG_VOLUME, str(sources.FOLDER), {"configMap": {"name": config_map}}, readOnly=True)

    def scratch(self) -> None:
        self._add("tmp", "/tmp", {"emptyDir": {}})

    def devices(self) -> None:
        """/dev, and what udev knows of the devices."""
        self.host("dev", "/dev")
        self.host("udev", "/run/udev", readOnly=True, kind="DirectoryOrCreate")

    def classes(self, classes: Iterable[ClassSettings]) -> None:
        """Discovery directories. What is mounted there later on the host must be seen here, but not the reverse."""
        folders = (folder for each in classes for folder in each.folders)
        for number, each in enumerate(folders, start=1):
            # A node without disks of the class has an empty directory and a pod that runs.
            how = {"kind": "DirectoryOrCreate", "mountPropagation": "HostToContainer"}
            self.host(f"disks-{number}", each.host_dir, each.mount_dir, **how)

    def pools(self, pools: Iterable[PoolSettings]) -> None:
        """Where pools are, and where the kubelet is told of the driver and wants volumes mounted: it must see those."""
        for number, each in enumerate((pool for pool in pools if pool.directory), start=1):
            self.host(f"pool-{number}", each.directory, kind="DirectoryOrCreate", mountPropagation="HostToContainer")
        for folder in KUBELET_FOLDERS:
            shown = {"mountPropagation": "Bidirectional"} if folder in SHOWN_FOLDERS else {}
            name = f"kubelet-{folder}".replace("_", "-")
            self.host(name, f"{KUBELET_FOLDER}/{folder}", kind="DirectoryOrCreate", **shown)

    def _add(self, name: str, at: str, source: Object, **mount: object) -> None:
        self.volumes.append({"name": name, **source})
        self.mounts.append({"name": name, "mountPath": at, **mount})


def on_disks(*, privileged: bool) -> Object:
    """Security context of what touches disks: devices open only for privileged containers."""
    common: Object = {"runAsUser": 0, "runAsGroup": 0, "readOnlyRootFilesystem": True}
    if privileged:
        return {"privileged": True, **common}
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": list(CAPABILITIES)},
        "seccompProfile": {"type": "RuntimeDefault"},
        **common,
    }


def off_the_host() -> Object:
    """Security context of what only talks to the API server."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "runAsUser": NOBODY,
        "runAsGroup": NOBODY,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
