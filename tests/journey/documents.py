"""The examples of the design documents for the provisioner on a cluster, as data; nothing is changed but the image."""

from __future__ import annotations

from typing import Any

CONFIG_MAP: dict[str, Any] = {
    "kind": "ConfigMap",
    "metadata": {"name": "local-volume-config", "namespace": "kube-system"},
    "data": {
        "storageClassMap": 'local-fast:\n  hostDir: "/mnt/ssds"\n  mountDir: "/local-ssds"\n'
        'local-slow:\n  hostDir: "/mnt/hdds"\n  mountDir: "/local-hdds"\n'
    },
}

SHORT_CONFIG_MAP: dict[str, Any] = {
    **CONFIG_MAP,
    "data": {"storageClassMap": 'local-fast:\n  hostDir: "/mnt/ssds"\nlocal-slow:\n  hostDir: "/mnt/hdds"\n'},
}
"""For the bootstrapper."""


def daemon_set(image: str) -> dict[str, Any]:
    container = {
        "name": "provisioner",
        "image": image,
        "imagePullPolicy": "Always",
        "volumeMounts": [
            {"name": "vol1", "mountPath": "/local-ssds"},
            {"name": "vol2", "mountPath": "/local-hdds"},
        ],
        "env": [{"name": "MY_NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
    }
    return {
        "apiVersion": "extensions/v1beta1",
        "kind": "DaemonSet",
        "metadata": {"name": "local-storage-provisioner", "namespace": "kube-system"},
        "spec": {
            "template": {
                "metadata": {"labels": {"system": "local-storage-provisioner"}},
                "spec": {
                    "containers": [container],
                    "volumes": [
                        {"name": "vol1", "hostPath": {"path": "/mnt/ssds"}},
                        {"name": "vol2", "hostPath": {"path": "/mnt/hdds"}},
                    ],
                    "serviceAccount": "local-storage-admin",
                },
            }
        },
    }


def rights() -> list[dict[str, Any]]:
    """A service account with the permissions that the documents list, and not one more."""
    group = "rbac.authorization.k8s.io"
    account = {"kind": "ServiceAccount", "name": "local-storage-admin", "namespace": "kube-system"}

    def bound(kind: str, name: str, role: str, **metadata: str) -> dict[str, Any]:
        return {
            "apiVersion": f"{group}/v1",
            "kind": f"{kind}Binding",
            "metadata": {"name": name, **metadata},
            "roleRef": {"apiGroup": group, "kind": kind, "name": role},
            "subjects": [account],
        }

    def role(kind: str, name: str, resource: str, **metadata: str) -> dict[str, Any]:
        rule = {"apiGroups": [""], "resources": [resource], "verbs": ["get"]}
        return {
            "apiVersion": f"{group}/v1",
            "kind": kind,
            "metadata": {"name": name, **metadata},
            "rules": [rule],
        }

    own = {"namespace": "kube-system"}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "local-storage-admin", **own}},
        bound("ClusterRole", "local-storage-volumes", "system:persistent-volume-provisioner"),
        role("ClusterRole", "local-storage-nodes", "nodes"),
        bound("ClusterRole", "local-storage-nodes", "local-storage-nodes"),
        role("Role", "local-storage-config", "configmaps", **own),
        bound("Role", "local-storage-config", "local-storage-config", **own),
    ]
