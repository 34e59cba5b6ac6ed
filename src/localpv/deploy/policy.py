"""The admission policy that keeps each agent to the LocalDisks, LocalStorageNodes and pools of its own node.

The token of a pod says which node the pod runs on, and the API server puts that among the extra of the user. The policy
compares it with the node of the object, before and after the change. A token that says no node gets nothing.
The embedded engine has the same rule built in (`engine/apiserver/auth/node_rule.py`).
"""

from __future__ import annotations

from localpv.api import roles, well_known
from localpv.api.objects import Object
from localpv.disk import labels

API = "admissionregistration.k8s.io/v1"


def objects(*, namespace: str, account: str = roles.AGENT, name: str = roles.AGENT) -> list[Object]:
    """The policy for one service account, and the binding that puts it in force."""
    user = f"system:serviceaccount:{namespace}:{account}"
    return [
        {
            "apiVersion": API,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                # Without an answer from the policy nothing is written: a node's disks can wait, wiped data cannot.
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": [roles.DISKS_GROUP],
                            "apiVersions": ["*"],
                            "operations": ["CREATE", "UPDATE", "DELETE"],
                            "resources": [f"{each}{part}" for each in roles.NODE_RECORDS for part in ("", "/status")],
                        }
                    ]
                },
                "matchConditions": [{"name": "agents", "expression": f'request.userInfo.username == "{user}"'}],
                "variables": [{"name": "node", "expression": _node()}],
                "validations": [
                    _validation(
                        'variables.node != ""',
                        text="the token is not bound to a node: run the agent as a pod, with its own token",
                    ),
                    _of_own_node("object"),
                    _of_own_node("oldObject"),
                    *(
                        _validation(
                            f"object == null || object.spec.?{field}"
                            f" == (oldObject == null ? optional.none() : oldObject.spec.?{field})",
                            text=f"spec.{field} is written by the manager alone",
                        )
                        for field in roles.ORDERS
                    ),
                    _validation(
                        f"{_NO_ORDER} || (object != null && oldObject != null && object.spec == oldObject.spec)",
                        text="the spec of a PoolVolume or PoolSnapshot is written by the manager alone",
                    ),
                    _validation(
                        f"{_NO_ORDER} || object == null || oldObject == null || {_held('object')} =="
                        f" {_held('oldObject')}",
                        text=f"the finalizer {labels.PROTECTED} is the manager's alone",
                    ),
                ],
            },
        },
        {
            "apiVersion": API,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


_NO_ORDER = f"!(request.resource.resource in {[*roles.POOL_ORDERS]})".replace("'", '"')


def _held(which: str) -> str:
    return f'("{labels.PROTECTED}" in {which}.metadata.?finalizers.orValue([]))'


def _node() -> str:
    claim = f'"{well_known.TOKEN_NODE_NAME}"'
    extra = "request.userInfo.extra"
    return f'{claim} in {extra} && size({extra}[{claim}]) == 1 ? {extra}[{claim}][0] : ""'


def _of_own_node(which: str) -> Object:
    said = f'"the " + {which}.kind + " is of node " + {which}.spec.nodeName'
    return _validation(
        f"{which} == null || {which}.spec.nodeName == variables.node",
        said=f'{said} + ", the agent is bound to node " + variables.node',
    )


def _validation(expression: str, *, text: str = "", said: str = "") -> Object:
    message = {"message": text} if text else {"messageExpression": said}
    return {"expression": expression, **message, "reason": "Forbidden"}
