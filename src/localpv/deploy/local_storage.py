"""What the operator makes of a LocalStorage: classes, and for each group of nodes a ConfigMap and a DaemonSet.

A pod of such a DaemonSet has two containers. The discoverer writes the udev rules of the node and says what they
matched; the provisioner is an agent for the devices that they link. Neither has a right on PersistentVolumes: the
manager publishes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from localpv.api import node_selector, roles, well_known
from localpv.api.kinds.localstorage import LocalStorage, NodeGroup
from localpv.api.objects import Object
from localpv.deploy import pods, storage, workloads
from localpv.deploy.plan import IMAGE, ClassObject, Pods
from localpv.disk import labels

COMPONENT = "local-storage"
DISCOVERER_PORT = 8081
"""Of the discoverer's metrics and probes: the two containers of a pod share its network."""

GRACE_SECONDS = 120
"""How long a pod may take to stop: the discoverer asks the API server whether it is an update or the end, and at the
end waits for udev to take all links away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePods:
    """How the pods that serve LocalStorages on nodes run."""

    image: str = IMAGE
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()

    def storage_class(self, name: str, *, made_for: str) -> Object:
        """A class that claims can name; it says for which LocalStorage it was made, and that it is ours."""
        made = storage.storage_class(ClassObject(name=name))
        made["metadata"]["labels"] = {well_known.MANAGED_BY: pods.OURS}
        made["metadata"]["annotations"][labels.LOCAL_STORAGE] = made_for
        return made

    def config_map(self, owner: LocalStorage, name: str, group: str, nodes: str, data: Mapping[str, str]) -> Object:
        """What the pods of a group are to do, and which nodes the group is."""
        metadata = _metadata(owner, name, group)
        metadata["annotations"] = {labels.NODES: nodes}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}

    def daemon_set(self, owner: LocalStorage, name: str, group: str, nodes: NodeGroup) -> Object:
        """The pods of a group."""
        placing = Pods(
            priority_class="system-node-critical",
            node_selector={well_known.OS: "linux", **_label_map(nodes)},
            tolerations=tuple(msgspec.to_builtins(each) for each in nodes.tolerations),
            affinity=_affinity(nodes),
            labels=_labels(owner, group),
        )
        mounts = {program: _mounts(name, program) for program in ("discoverer", "provisioner")}
        volumes = {volume["name"]: volume for each in mounts.values() for volume in each.volumes}
        spec: Object = {
            "serviceAccountName": roles.DISCOVERER,
            # The mount table of the host's first process tells who still uses a device.
            "hostPID": True,
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "containers": [
                self._container("discoverer", ["discoverer"], DISCOVERER_PORT, placing, mounts["discoverer"]),
                self._container("provisioner", ["agent", "--local-storage"], pods.PORT, placing, mounts["provisioner"]),
            ],
            "volumes": list(volumes.values()),
        }
        if self.pull_secrets:
            spec["imagePullSecrets"] = [{"name": each} for each in self.pull_secrets]
        return {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": _metadata(owner, name, group),
            "spec": {
                "selector": {"matchLabels": {**pods.labels(COMPONENT), **_labels(owner, group)}},
                "updateStrategy": workloads.UPDATE_STRATEGY,
                "template": pods.template(COMPONENT, placing, spec),
            },
        }

    def _container(self, name: str, args: list[str], port: int, placing: Pods, mounts: pods.Mounts) -> Object:
        port_name = pods.PORT_NAME if port == pods.PORT else name
        return {
            "name": name,
            "image": self.image,
            "imagePullPolicy": self.pull_policy,
            "args": [*args, f"--listen-address=:{port}"],
            "ports": [{"name": port_name, "containerPort": port, "protocol": "TCP"}],
            **pods.probes(port_name),
            "resources": placing.resources,
            "env": pods.variables(node=True),
            "securityContext": pods.on_disks(privileged=True),
            "volumeMounts": mounts.mounts,
        }


def _mounts(config_map: str, program: str) -> pods.Mounts:
    """The discoverer writes rules and asks the kernel for uevents; the provisioner only reads what came of them."""
    discovers = program == "discoverer"
    mounts = pods.Mounts()
    mounts.config(config_map)
    mounts.scratch()
    mounts.host("dev", "/dev")
    mounts.host("udev", "/run/udev", kind="DirectoryOrCreate", readOnly=not discovers)
    mounts.host("rules", workloads.RULES_FOLDER, kind="DirectoryOrCreate", readOnly=not discovers)
    mounts.host("state", workloads.STATE_FOLDER, kind="DirectoryOrCreate")
    if discovers:
        mounts.host("sys", "/sys")
    return mounts


def _labels(owner: LocalStorage, group: str) -> dict[str, str]:
    return {labels.LOCAL_STORAGE: owner.metadata.uid, labels.NODE_GROUP: group}


def _metadata(owner: LocalStorage, name: str, group: str) -> Object:
    made = pods.metadata(name, owner.metadata.namespace, COMPONENT)
    made["labels"] |= {well_known.MANAGED_BY: pods.OURS, **_labels(owner, group)}
    made["ownerReferences"] = [
        {
            "apiVersion": owner.resource.api_version,
            "kind": owner.resource.kind,
            "name": owner.metadata.name,
            "uid": owner.metadata.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    return made


def _label_map(nodes: NodeGroup) -> Mapping[str, str]:
    """Labels that nodes must have; a NodeSelector is an affinity."""
    selector = nodes.node_selector or {}
    return {} if TERMS in selector else {str(key): str(value) for key, value in selector.items()}


TERMS = "nodeSelectorTerms"


def _affinity(nodes: NodeGroup) -> Object:
    terms: list[Any] = []
    if nodes.node_name:
        # By its name, not by a label: a node's label kubernetes.io/hostname need not be its name.
        field = {"key": "metadata.name", "operator": "In", "values": [nodes.node_name]}
        terms = [{"matchFields": [field]}]
    elif nodes.node_selector is not None and TERMS in nodes.node_selector:
        terms = list(nodes.node_selector[TERMS])
    return {"nodeAffinity": {node_selector.REQUIRED: {TERMS: terms}}} if terms else {}
