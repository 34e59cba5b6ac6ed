"""Who may do what, and what is allowed: RBAC and admission policies."""

from __future__ import annotations

from typing import Any

from localpv.api import well_known
from localpv.api.objects import Object
from localpv.engine.apiserver.tables import durations
from localpv.engine.apiserver.tables.layout import AGE, NAME, PLAIN, UNSET, Layout, column, wide


def _binding(binding: Object, now: float) -> list[Any]:
    role = binding["roleRef"]
    subjects = binding.get("subjects") or ()
    return [
        binding["metadata"]["name"],
        f"{role.get('kind', '')}/{role.get('name', '')}",
        durations.age(binding, now),
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
        durations.age(policy, now),
    ]


def _policy_binding(binding: Object, now: float) -> list[Any]:
    spec = binding.get("spec") or {}
    return [
        binding["metadata"]["name"],
        spec.get("policyName", ""),
        _parameters(spec.get("paramRef") or {}),
        durations.age(binding, now),
    ]


def _webhooks(configuration: Object, now: float) -> list[Any]:
    hooks = configuration.get("webhooks") or ()
    return [configuration["metadata"]["name"], len(hooks), durations.age(configuration, now)]


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
