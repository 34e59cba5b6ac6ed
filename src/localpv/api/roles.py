"""What each program may do, as the rules of roles: the embedded engine and `localpv manifests` grant the same.

Rules "in own namespace" are for a Role in the namespace of the program; the others are for ClusterRoles.
"""

from __future__ import annotations

from collections.abc import Sequence

from localpv.api import well_known
from localpv.api.objects import Object

DISKS_GROUP = "localpv.dev"
DISKS = "localdisks"
STORAGE_NODES = "localstoragenodes"
POOLS = "localpools"
POOL_ORDERS = ("poolvolumes", "poolsnapshots")
"""What the manager orders of an agent: the agent answers in the status and takes its finalizer off, and that is all."""

NODE_RECORDS = (DISKS, STORAGE_NODES, POOLS, *POOL_ORDERS)
"""What belongs to a node: each says in spec.nodeName which node it is of, and no other node may touch it."""

STORAGES_GROUP = "local.storage.openshift.com"
STORAGES = "localstorages"

AGENT = "localpv-agent"
"""Name of the role and of the service account of agents."""

DISCOVERER = "localpv-discoverer"
"""Name of the role and of the service account of the pods that serve LocalStorages on nodes."""

MANAGER = "localpv-manager"
OPERATOR = "localpv-operator"

ORDERS = ("volume", "identity", "clean")
"""Fields in the spec of a LocalDisk that are the manager's: by them it deletes volumes, so no agent may write them."""

READ = ("get", "list", "watch")
WRITE = ("create", "delete", "patch", "update")

_EVENTS = ("", "events.k8s.io")


def rule(verbs: Sequence[str], groups: str | Sequence[str], *resources: str, names: Sequence[str] = ()) -> Object:
    """One rule of a role."""
    listed = [groups] if isinstance(groups, str) else list(groups)
    made: Object = {"verbs": list(verbs), "apiGroups": listed, "resources": list(resources)}
    return made | {"resourceNames": list(names)} if names else made


def _statuses(*resources: str) -> list[str]:
    return [f"{each}/status" for each in resources]


def agent() -> list[Object]:
    """No PersistentVolumes.

    RBAC cannot say "your own": which of the LocalDisks are meant is said by a ValidatingAdmissionPolicy
    (`deploy/policy.py`), and on the embedded engine by a rule that also covers reads and Nodes.
    """
    return [
        rule((*READ, *WRITE), DISKS_GROUP, DISKS),
        rule(("get", "patch", "update"), DISKS_GROUP, f"{DISKS}/status"),
        rule((*READ, *WRITE), DISKS_GROUP, POOLS),
        rule(("get", "patch", "update"), DISKS_GROUP, *_statuses(POOLS, *POOL_ORDERS)),
        # To take their finalizers off; what is ordered in them is held by the same rules as orders in LocalDisks.
        rule((*READ, "patch", "update"), DISKS_GROUP, *POOL_ORDERS),
        rule(("get",), "", "nodes"),
        rule(("create", "patch"), _EVENTS, "events"),
        # Whether the LocalStorage is still there that rules on the node were written for.
        rule(("get",), STORAGES_GROUP, STORAGES),
    ]


def discoverer() -> list[Object]:
    """An agent's, and what came of a LocalStorage on the node; which of those are meant is said as for LocalDisks."""
    return [
        *agent(),
        rule((*READ, *WRITE), DISKS_GROUP, STORAGE_NODES),
        rule(("get", "patch", "update"), DISKS_GROUP, f"{STORAGE_NODES}/status"),
    ]


def manager() -> list[Object]:
    """The only writer of PersistentVolumes and of what agents are ordered to make of pools.

    It deletes claims of nodes that are gone for good, takes a node off claims that find no room there, and says how far
    the growth of their volumes is.
    """
    return [
        rule((*READ, *WRITE), "", "persistentvolumes"),
        rule(("patch",), "", "persistentvolumes/status"),
        rule((*READ, "delete", "patch"), "", "persistentvolumeclaims"),
        rule(("patch",), "", "persistentvolumeclaims/status"),
        rule(READ, DISKS_GROUP, POOLS),
        rule((*READ, *WRITE), DISKS_GROUP, *POOL_ORDERS),
        rule((*READ, *WRITE), DISKS_GROUP, DISKS),
        rule(("get", "patch", "update"), DISKS_GROUP, f"{DISKS}/status"),
        rule((*READ, "patch"), "", "nodes"),
        rule(READ, well_known.STORAGE_GROUP, "storageclasses"),
        rule(("create", "patch"), _EVENTS, "events"),
        # The classes that they mean: a manager that did not know them would withdraw their volumes.
        rule(READ, STORAGES_GROUP, STORAGES),
    ]


def manager_in_own_namespace() -> list[Object]:
    """The lease that makes one of its processes the leader, the configuration, whether agents are ready, and what is
    free in pools, for kube-scheduler."""
    return [
        rule(("get", "create", "patch", "update"), "coordination.k8s.io", "leases"),
        rule(READ, "", "configmaps"),
        rule(("list",), "", "pods"),
        rule((*READ, "create", "delete", "patch"), well_known.STORAGE_GROUP, "csistoragecapacities"),
    ]


def operator() -> list[Object]:
    """LocalStorages of all namespaces, so that one in the wrong namespace is told so, and the classes that it makes.

    Volumes and disks are only read: whether one still needs a class, a group of nodes or a LocalStorage.
    """
    return [
        rule(READ, STORAGES_GROUP, STORAGES),
        rule(("patch",), STORAGES_GROUP, f"{STORAGES}/status"),
        rule(READ, DISKS_GROUP, DISKS, STORAGE_NODES),
        rule((*READ, "create", "delete"), well_known.STORAGE_GROUP, "storageclasses"),
        rule(("get", "list"), "", "persistentvolumes"),
        rule(READ, "", "nodes"),
        rule(("create", "patch"), _EVENTS, "events"),
    ]


def operator_in_own_namespace() -> list[Object]:
    """The lease, the finalizer of LocalStorages, and the pods that serve them on nodes.

    Who has this can start a privileged pod on any node that the namespace's rules allow.
    """
    return [
        rule(("get", "create", "patch", "update"), "coordination.k8s.io", "leases"),
        rule(("patch",), STORAGES_GROUP, STORAGES),
        # Where owners that block deletion are checked, as OpenShift does.
        rule(("update",), STORAGES_GROUP, f"{STORAGES}/finalizers"),
        rule(("delete",), DISKS_GROUP, STORAGE_NODES),
        rule((*READ, "create", "patch", "delete"), "", "configmaps"),
        rule((*READ, "create", "patch", "delete"), "apps", "daemonsets"),
        rule(("list",), "", "pods"),
    ]


def provisioner(*, removes_taint: bool = False) -> list[Object]:
    """What the classic provisioner has, to watch its Node, and to hold volumes: any node can create and delete any
    volume."""
    return [
        rule((*READ, "create", "delete"), "", "persistentvolumes"),
        holding(),
        rule(READ, well_known.STORAGE_GROUP, "storageclasses"),
        rule(("watch",), "", "events"),
        rule(("create", "patch", "update"), _EVENTS, "events"),
        rule((*READ, "patch", "update") if removes_taint else READ, "", "nodes"),
    ]


def holding() -> Object:
    """To put a finalizer on volumes and take it off. Without it a provisioner works as the classic one does: a volume
    that is used and deleted by hand, while nobody looks, can be missed."""
    return rule(("patch",), "", "persistentvolumes")


def provisioner_in_own_namespace(config_map: str) -> list[Object]:
    """Its configuration. It makes no Jobs: it has the disks in its own hands."""
    return [rule(("get",), "", "configmaps", names=[config_map])]


def cleaning_jobs() -> list[Object]:
    """Jobs that clean devices, and the agents, which they look like.

    Who has this can start a privileged pod on any node that the namespace's rules allow.
    """
    return [rule((*READ, "create", "delete"), "batch", "jobs"), rule(("get",), "apps", "daemonsets")]


def role(name: str, *rules: Object, namespace: str = "") -> Object:
    """A ClusterRole, or a Role in a namespace."""
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    kind = "Role" if namespace else "ClusterRole"
    return {"apiVersion": f"{well_known.RBAC_GROUP}/v1", "kind": kind, "metadata": metadata, "rules": list(rules)}


def binding(name: str, role_name: str, *subjects: Object, namespace: str = "") -> Object:
    """A ClusterRoleBinding, or, for a Role, the RoleBinding in its namespace."""
    kind = "Role" if namespace else "ClusterRole"
    return {
        "apiVersion": f"{well_known.RBAC_GROUP}/v1",
        "kind": f"{kind}Binding",
        "metadata": {"name": name, "namespace": namespace} if namespace else {"name": name},
        "roleRef": {"apiGroup": well_known.RBAC_GROUP, "kind": kind, "name": role_name},
        "subjects": list(subjects),
    }


def service_account_subject(namespace: str, name: str) -> Object:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}
