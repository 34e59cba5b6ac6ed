"""Service accounts, roles and their bindings."""

from __future__ import annotations

from localpv.api import roles
from localpv.api.objects import Object
from localpv.deploy.plan import CONFIG_MAP, Plan

PROVISIONER = "localpv-provisioner"


def objects(plan: Plan) -> list[Object]:
    """Who the programs are, and what they may do."""
    if plan.drop_in:
        return _drop_in(plan)
    on_nodes = [*(_agent(plan) if plan.agents else ()), *(_discoverer(plan) if plan.operator else ())]
    return [*on_nodes, *_manager(plan)]


def service_account(namespace: str, name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}


def granted(namespace: str, name: str, *rules: Object) -> list[Object]:
    """A ClusterRole and its binding, both of the account's name."""
    subject = roles.service_account_subject(namespace, name)
    return [roles.role(name, *rules), roles.binding(name, name, subject)]


def granted_in(namespace: str, name: str, *rules: Object) -> list[Object]:
    """A Role in the account's own namespace and its binding."""
    subject = roles.service_account_subject(namespace, name)
    return [roles.role(name, *rules, namespace=namespace), roles.binding(name, name, subject, namespace=namespace)]


def _agent(plan: Plan) -> list[Object]:
    return [service_account(plan.namespace, roles.AGENT), *granted(plan.namespace, roles.AGENT, *roles.agent())]


def _discoverer(plan: Plan) -> list[Object]:
    account = service_account(plan.namespace, roles.DISCOVERER)
    return [account, *granted(plan.namespace, roles.DISCOVERER, *roles.discoverer())]


def _manager(plan: Plan) -> list[Object]:
    # Cleaning Jobs are the manager's: an agent that could make a pod could make one on another node.
    jobs = roles.cleaning_jobs() if plan.config.cleans_in_jobs else []
    own = [*roles.manager_in_own_namespace(), *jobs]
    rules = roles.manager()
    if plan.operator:
        rules += roles.operator()
        own += roles.operator_in_own_namespace()
    return [
        service_account(plan.namespace, roles.MANAGER),
        *granted(plan.namespace, roles.MANAGER, *rules),
        *granted_in(plan.namespace, roles.MANAGER, *own),
    ]


def _drop_in(plan: Plan) -> list[Object]:
    config = plan.config
    own = roles.provisioner_in_own_namespace(CONFIG_MAP)
    rules = roles.provisioner(removes_taint=config.remove_node_not_ready_taint)
    return [
        service_account(plan.namespace, PROVISIONER),
        *granted(plan.namespace, PROVISIONER, *rules),
        *granted_in(plan.namespace, PROVISIONER, *own),
    ]
