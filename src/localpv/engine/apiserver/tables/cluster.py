"""Namespaces, nodes, services, events, RBAC, admission policies and the small kinds around them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from localpv.api import well_known
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import event as spelling
from localpv.engine.apiserver.tables import layout
from localpv.engine.apiserver.tables.layout import AGE, NAME, NONE, PLAIN, UNSET, Layout, column, labels, wide

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE = "kubernetes.io/role"


def _namespace(namespace: Object, now: float) -> list[Any]:
    phase = (namespace.get("status") or {}).get("phase", "")
    return [namespace["metadata"]["name"], phase, layout.age(namespace, now)]


def _node(node: Object, now: float) -> list[Any]:
    metadata, status = node["metadata"], node.get("status") or {}
    info, addresses = status.get("nodeInfo") or {}, status.get("addresses") or ()
    return [
        metadata["name"],
        _node_state(node.get("spec") or {}, status),
        _roles(metadata.get("labels") or {}),
        layout.age(node, now),
        info.get("kubeletVersion", ""),
        _first_address(addresses, "InternalIP"),
        _first_address(addresses, "ExternalIP"),
        info.get("osImage") or layout.UNKNOWN,
        info.get("kernelVersion") or layout.UNKNOWN,
        info.get("containerRuntimeVersion") or layout.UNKNOWN,
    ]


def _node_state(spec: Object, status: Object) -> str:
    state = "Unknown"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Ready":
            state = "Ready" if condition.get("status") == "True" else "NotReady"
    return f"{state},SchedulingDisabled" if spec.get("unschedulable") else state


def _roles(node_labels: dict[str, str]) -> str:
    roles = {key.removeprefix(_ROLE_PREFIX) for key in node_labels if key.startswith(_ROLE_PREFIX)}
    roles.add(node_labels.get(_ROLE, ""))
    return ",".join(sorted(filter(None, roles))) or NONE


def _first_address(addresses: Iterable[Object], kind: str) -> str:
    return next((each["address"] for each in addresses if each.get("type") == kind), NONE)


def _service(service: Object, now: float) -> list[Any]:
    spec = service["spec"]
    addresses = spec.get("clusterIPs")
    return [
        service["metadata"]["name"],
        spec.get("type", ""),
        addresses[0] if addresses else NONE,
        _external(spec, service.get("status") or {}),
        ",".join(map(_port, spec.get("ports") or ())) or NONE,
        layout.age(service, now),
        labels(spec.get("selector")),
    ]


def _external(spec: Object, status: Object) -> str:
    own: list[str] = spec.get("externalIPs") or []
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(own) or NONE
        case "LoadBalancer":
            points = (status.get("loadBalancer") or {}).get("ingress") or ()
            given = {point.get("ip") or point.get("hostname") for point in points}
            return ",".join([*sorted(filter(None, given)), *own]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
    return layout.UNKNOWN


def _port(port: Object) -> str:
    node_port = port.get("nodePort", 0)
    number = f"{port['port']}:{node_port}" if node_port else port["port"]
    return f"{number}/{port.get('protocol', 'TCP')}"


def _config_map(config: Object, now: float) -> list[Any]:
    entries = len(config.get("data") or ()) + len(config.get("binaryData") or ())
    return [config["metadata"]["name"], entries, layout.age(config, now)]


def _secret(secret: Object, now: float) -> list[Any]:
    entries = len(secret.get("data") or ())
    return [secret["metadata"]["name"], secret.get("type", ""), entries, layout.age(secret, now)]


def _service_account(account: Object, now: float) -> list[Any]:
    return [account["metadata"]["name"], layout.age(account, now)]


def _lease(lease: Object, now: float) -> list[Any]:
    holder = (lease.get("spec") or {}).get("holderIdentity", "")
    return [lease["metadata"]["name"], holder, layout.age(lease, now)]


def _event(obj: Object, now: float) -> list[Any]:
    event = spelling.to_core(obj)
    about, series = event.get("involvedObject") or {}, event.get("series")
    first = event.get("firstTimestamp") or event.get("eventTime")
    last = event.get("lastTimestamp") or first
    count = event.get("count") or 1
    if series is not None:
        last, count = series.get("lastObservedTime"), series.get("count", 0)
    kind, name = about.get("kind", "").lower(), about.get("name")
    return [
        layout.since(last, now),
        event.get("type", ""),
        event.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        about.get("fieldPath", ""),
        _source(event),
        event.get("message", "").strip(),
        layout.since(first, now),
        count,
        event["metadata"]["name"],
    ]


def _source(event: Object) -> str:
    source = event.get("source") or {}
    component: str = source.get("component") or event.get("reportingComponent", "")
    instance = source.get("host") or event.get("reportingInstance")
    return f"{component}, {instance}" if instance else component


_EVENT = Layout(
    [
        column("Last Seen", "How long ago it last happened"),
        column("Type", "Normal, or a warning"),
        column("Reason", "What happened, as a machine word"),
        column("Object", "What it happened to"),
        wide("Subobject", "The part of the object that it happened to"),
        wide("Source", "Who reports it"),
        column("Message", "What happened, as a sentence"),
        wide("First Seen", "How long ago it first happened"),
        wide("Count", "How often it happened"),
        wide("Name", "Name of the event", format="name"),
    ],
    _event,
)


def _binding(binding: Object, now: float) -> list[Any]:
    role = binding["roleRef"]
    subjects = binding.get("subjects") or ()
    return [
        binding["metadata"]["name"],
        f"{role.get('kind', '')}/{role.get('name', '')}",
        layout.age(binding, now),
        ", ".join(each["name"] for each in subjects if each.get("kind") == "User"),
        ", ".join(each["name"] for each in subjects if each.get("kind") == "Group"),
        ", ".join(
            f"{each.get('namespace', '')}/{each['name']}" for each in subjects if each.get("kind") == "ServiceAccount"
        ),
    ]


def _policy(policy: Object, now: float) -> list[Any]:
    spec = policy.get("spec") or {}
    parameters = spec.get("paramKind")
    return [
        policy["metadata"]["name"],
        len(spec.get("validations") or ()),
        UNSET if parameters is None else f"{parameters.get('apiVersion', '')}/{parameters.get('kind', '')}",
        layout.age(policy, now),
    ]


def _policy_binding(binding: Object, now: float) -> list[Any]:
    spec = binding.get("spec") or {}
    return [
        binding["metadata"]["name"],
        spec.get("policyName", ""),
        _parameters(spec.get("paramRef") or {}),
        layout.age(binding, now),
    ]


def _webhooks(configuration: Object, now: float) -> list[Any]:
    hooks = configuration.get("webhooks") or ()
    return [configuration["metadata"]["name"], len(hooks), layout.age(configuration, now)]


def _parameters(reference: Object) -> str:
    if name := reference.get("name"):
        # Whether the parameters live in a namespace at all cannot be seen from here.
        return f"{reference.get('namespace') or '*'}/{name}"
    selector = reference.get("selector")
    return UNSET if selector is None else _selector(selector)


def _selector(selector: Object) -> str:
    """The form that tables have for a selector here, and nowhere else."""
    wanted = selector.get("matchLabels") or {}
    pairs = "".join(f"{key}: {wanted[key]}," for key in sorted(wanted))
    rules = "".join(
        f"LabelSelectorRequirement{{Key:{each['key']},Operator:{each['operator']},"
        f"Values:[{' '.join(each.get('values') or ())}],}},"
        for each in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{pairs}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{rules}}},}}"
    )


_BINDING = Layout(
    [
        NAME,
        column("Role", "The role that is given"),
        AGE,
        wide("Users", "Users who have the role"),
        wide("Groups", "Groups that have the role"),
        wide("ServiceAccounts", "Service accounts that have the role"),
    ],
    _binding,
)

_WEBHOOKS = Layout([NAME, column("Webhooks", "How many there are", type="integer"), AGE], _webhooks)

LAYOUTS = {
    ("", "Namespace"): Layout([NAME, column("Status", "Whether the namespace is in use or going"), AGE], _namespace),
    ("", "Node"): Layout(
        [
            NAME,
            column("Status", "Whether the node is ready and takes new pods"),
            column("Roles", "What the node is there for"),
            AGE,
            column("Version", "Version of the node's kubelet"),
            wide("Internal-IP", "Address of the node inside the cluster"),
            wide("External-IP", "Address of the node for the outside"),
            wide("OS-Image", "Operating system of the node"),
            wide("Kernel-Version", "Kernel of the node"),
            wide("Container-Runtime", "Container runtime of the node and its version"),
        ],
        _node,
    ),
    ("", "Service"): Layout(
        [
            NAME,
            column("Type", "How the service is offered"),
            column("Cluster-IP", "Address of the service inside the cluster"),
            column("External-IP", "Addresses of the service for the outside"),
            column("Port(s)", "Ports that the service listens on"),
            AGE,
            wide("Selector", "Labels of the pods behind the service"),
        ],
        _service,
    ),
    ("", "ConfigMap"): Layout([NAME, column("Data", "How many entries it has"), AGE], _config_map),
    ("", "Secret"): Layout(
        [NAME, column("Type", "What the secret is for"), column("Data", "How many entries it has"), AGE],
        _secret,
    ),
    ("", "ServiceAccount"): Layout([NAME, AGE], _service_account),
    ("coordination.k8s.io", "Lease"): Layout([NAME, column("Holder", "Who holds the lease"), AGE], _lease),
    ("", "Event"): _EVENT,
    ("events.k8s.io", "Event"): _EVENT,
    (well_known.RBAC_GROUP, "Role"): PLAIN,
    (well_known.RBAC_GROUP, "ClusterRole"): PLAIN,
    (well_known.RBAC_GROUP, "RoleBinding"): _BINDING,
    (well_known.RBAC_GROUP, "ClusterRoleBinding"): _BINDING,
    (well_known.ADMISSION_GROUP, "ValidatingAdmissionPolicy"): Layout(
        [
            NAME,
            column("Validations", "How many rules the policy has", type="integer"),
            column("ParamKind", "Kind of the objects that hold its parameters"),
            AGE,
        ],
        _policy,
    ),
    (well_known.ADMISSION_GROUP, "ValidatingAdmissionPolicyBinding"): Layout(
        [
            NAME,
            column("PolicyName", "The policy that is put to use"),
            column("ParamRef", "Objects that hold the policy's parameters"),
            AGE,
        ],
        _policy_binding,
    ),
    (well_known.ADMISSION_GROUP, "ValidatingWebhookConfiguration"): _WEBHOOKS,
    (well_known.ADMISSION_GROUP, "MutatingWebhookConfiguration"): _WEBHOOKS,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): PLAIN,
}
