"""All objects of an installation."""

from __future__ import annotations

from localpv.api import crds, roles
from localpv.api.objects import Object
from localpv.deploy import access, monitoring, policy, storage, workloads
from localpv.deploy.plan import Plan

PRESENT_NAMESPACES = ("default", "kube-system")
"""Namespaces that every cluster has: they are left as they are."""


def objects(plan: Plan) -> list[Object]:
    """Everything, in the order in which it can be applied."""
    found = [] if plan.namespace in PRESENT_NAMESPACES else [_namespace(plan.namespace)]
    if not plan.drop_in:
        found += [crds.load(name) for name in crds.NAMES]
    found += access.objects(plan)
    if not plan.drop_in:
        # In force before the first agent starts.
        found += policy.objects(namespace=plan.namespace) if plan.agents else []
        if plan.operator:
            found += policy.objects(namespace=plan.namespace, account=roles.DISCOVERER, name=roles.DISCOVERER)
    found.append(storage.config_map(plan))
    found += [storage.csi_driver()] if plan.pools else []
    found += [storage.storage_class(each) for each in plan.classes]
    found += [workloads.agent(plan)] if plan.agents else []
    found.append(workloads.provisioner(plan) if plan.drop_in else workloads.manager(plan))
    return [*found, monitoring.pod_monitor(plan)] if plan.pod_monitor else found


def _namespace(name: str) -> Object:
    # Pods with host directories are refused where a stricter level is in force.
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
