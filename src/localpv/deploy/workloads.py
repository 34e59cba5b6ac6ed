"""The agents' DaemonSet, the manager's Deployment, and the DaemonSet of the drop-in."""

from __future__ import annotations

from localpv.api import roles, well_known
from localpv.api.objects import Object
from localpv.config import environment
from localpv.deploy import access, pods
from localpv.deploy.plan import CONFIG_MAP, Plan, Pods

STATE_FOLDER = "/var/lib/localpv"
"""Locks of devices that are being cleaned, on the host so that two agents never clean one; and the records of a drop-in
that may not keep them as LocalDisks."""


UPDATE_STRATEGY: Object = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}
"""Nodes do not depend on each other, and a cleaning survives the restart of its agent."""


RULES_FOLDER = "/etc/udev/rules.d"
"""Where the discoverer writes the rules of LocalStorages on a node."""


def agent(plan: Plan) -> Object:
    """Discovers and cleans on each node."""
    return daemon_set(plan, program="agent", name=roles.AGENT, account=roles.AGENT, config_map=CONFIG_MAP)


def provisioner(plan: Plan) -> Object:
    """Agent and manager of its node in one process, as the classic DaemonSet."""
    name = access.PROVISIONER
    return daemon_set(plan, program="provisioner", name=name, account=name, config_map=CONFIG_MAP)


def daemon_set(plan: Plan, *, program: str, name: str, account: str, config_map: str) -> Object:
    """A program on every node, with the discovery directories where the configuration says that it sees them."""
    mounts = pods.Mounts()
    mounts.config(config_map)
    mounts.scratch()
    if plan.privileged:
        mounts.devices()
    mounts.classes(plan.config.classes.values())
    if plan.pools:
        mounts.pools(plan.pools)
    mounts.host("state", STATE_FOLDER, kind="DirectoryOrCreate")
    if plan.operator:
        # One agent works on a node at a time, so this one serves the devices of LocalStorages too.
        mounts.host("rules", RULES_FOLDER, kind="DirectoryOrCreate", readOnly=True)
    container = {
        **_container(plan, program, plan.agent),
        "env": pods.variables(node=True),
        "securityContext": pods.on_disks(privileged=plan.privileged),
        "volumeMounts": mounts.mounts,
    }
    spec = {
        "serviceAccountName": account,
        # The mount table of the host's first process tells which directories pods still have mounted.
        "hostPID": True,
        **_pull_secrets(plan),
        "containers": [container],
        "volumes": mounts.volumes,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": pods.metadata(name, plan.namespace, program),
        "spec": {
            "selector": {"matchLabels": pods.labels(program)},
            "updateStrategy": UPDATE_STRATEGY,
            "template": pods.template(program, plan.agent, spec, annotated=not plan.pod_monitor),
        },
    }


def manager(plan: Plan) -> Object:
    """The only writer of PersistentVolumes: not root, and nothing of the host inside."""
    mounts = pods.Mounts()
    mounts.scratch()
    container = {
        **_container(plan, "manager", plan.manager),
        # Read from the API, the configuration is in force at once; a mounted one may take a minute.
        "args": [
            "manager",
            f"--namespace=$({environment.NAMESPACE})",
            f"--config-map={CONFIG_MAP}",
            f"--agents={roles.AGENT}",
            *_operator_options(plan),
            f"--listen-address=:{pods.PORT}",
        ],
        "env": pods.variables(),
        "securityContext": pods.off_the_host(),
        "volumeMounts": mounts.mounts,
    }
    apart = {
        "maxSkew": 1,
        "topologyKey": well_known.HOSTNAME,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": pods.labels("manager")},
    }
    spec = {
        "serviceAccountName": roles.MANAGER,
        "topologySpreadConstraints": [apart],
        **_pull_secrets(plan),
        "containers": [container],
        "volumes": mounts.volumes,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": pods.metadata(roles.MANAGER, plan.namespace, "manager"),
        "spec": {
            "replicas": plan.managers,
            "selector": {"matchLabels": pods.labels("manager")},
            "template": pods.template("manager", plan.manager, spec, annotated=not plan.pod_monitor),
        },
    }


def _operator_options(plan: Plan) -> list[str]:
    """How the pods that serve LocalStorages on nodes run; without an image there are none."""
    if not plan.operator:
        return []
    secrets = [f"--image-pull-secret={name}" for name in plan.pull_secrets]
    return [f"--image={plan.image}", f"--image-pull-policy={plan.pull_policy}", *secrets]


def _container(plan: Plan, program: str, settings: Pods) -> Object:
    made: Object = {
        "name": program,
        "image": plan.image,
        "imagePullPolicy": plan.pull_policy,
        "args": [program, f"--listen-address=:{pods.PORT}"],
        "ports": pods.ports(),
        **pods.probes(),
    }
    return made | {"resources": settings.resources} if settings.resources else made


def _pull_secrets(plan: Plan) -> Object:
    return {"imagePullSecrets": [{"name": name} for name in plan.pull_secrets]} if plan.pull_secrets else {}
