"""An agent touches what belongs to its own node and nothing else.

RBAC cannot say "those LocalDisks whose spec.nodeName is the node of your token", so this rule comes after it: the
roles `localpv-agent` and `localpv-discoverer` give access to all LocalDisks, LocalStorageNodes, pools and Nodes, and
the rule takes away what is not the agent's own.

It is the embedded engine's form of the ValidatingAdmissionPolicy that `localpv manifests` brings to Kubernetes.
That policy compares the same two values for create, update and delete:

    request.userInfo.extra["authentication.kubernetes.io/node-name"][0]
    object.spec.nodeName, oldObject.spec.nodeName

with the same outcome, and refuses tokens that are bound to no node as this rule does. Both also keep the orders in the
spec, by which the manager deletes volumes, out of the agent's hands: those of LocalDisks, and the whole spec of
PoolVolumes. Admission on Kubernetes does not see reads, so there an agent could read the LocalDisks of other nodes;
here it cannot.
"""

from __future__ import annotations

from collections.abc import Container

from localpv.api import roles, selectors
from localpv.api.objects import Object
from localpv.api.resources import Resource
from localpv.disk import labels
from localpv.engine.apiserver.auth.identity import Attributes, User, quoted
from localpv.errors import BadRequest

AGENT_ROLES = (roles.AGENT, roles.DISCOVERER)
AGENTS = "localpv:agents"
POOL_ORDERS = ("PoolVolume", "PoolSnapshot")

_MANY = frozenset({"list", "watch", "deletecollection"})


def applies(user: User, cluster_roles: Container[str]) -> bool:
    """Whether the rule binds this user, who has these ClusterRoles (see `Authorizer.cluster_roles`).

    It comes with the role, whatever else the user may do; only members of system:masters stand above it.
    """
    return not user.is_master and (AGENTS in user.groups or any(role in cluster_roles for role in AGENT_ROLES))


def covers(resource: Resource) -> bool:
    """Whether objects of this resource belong to nodes."""
    return resource.group == roles.DISKS_GROUP and resource.plural in roles.NODE_RECORDS


def check_request(user: User, request: Attributes) -> str | None:
    """Why a request of an agent is refused before any object is looked at; None when it is not."""
    own = user.node_name
    if request.group == roles.DISKS_GROUP and request.resource in roles.NODE_RECORDS:
        if not own:
            return _unbound(user)
        if request.verb in _MANY and not _selects(request.field_selector, "spec.nodeName", own):
            return f"an agent may {request.verb} {request.resource} only with the field selector spec.nodeName={own}"
    elif request.resource == "nodes" and not request.group:
        if not own:
            return _unbound(user)
        if request.name != own and not _selects(request.field_selector, "metadata.name", own):
            return f"an agent may {request.verb} only its own node {quoted(own)}"
    return None


def check_object(user: User, new: Object | None, old: Object | None) -> str | None:
    """Why a LocalDisk, or whatever else belongs to a node, is none of this agent's business; None when it is.

    create: new. update and patch, of any subresource: both. get and delete: old, the object as it is stored.
    """
    own = user.node_name
    if not own:
        return _unbound(user)
    for record in (new, old):
        if record is not None:
            node = (record.get("spec") or {}).get("nodeName")
            if node != own:
                kind, of = record.get("kind", "object"), quoted(str(node or ""))
                return f"the {kind} is of node {of}, the agent is bound to node {quoted(own)}"
    if new is not None:
        wanted, present = new["spec"], old["spec"] if old is not None else {}
        if str(new.get("kind", "")) in POOL_ORDERS:
            return _refuse_order(new, old)
        for field in roles.ORDERS:
            if wanted.get(field) != present.get(field):
                return f"spec.{field} is written by the manager alone"
    return None


def _refuse_order(new: Object, old: Object | None) -> str | None:
    """Why an agent may not write this to a PoolVolume or a PoolSnapshot: the order is the manager's, and so is the
    finalizer by which it keeps the bytes."""
    if old is None or new["spec"] != old["spec"]:
        return f"the spec of a {new['kind']} is written by the manager alone"
    kept = [(one["metadata"].get("finalizers") or ()) for one in (new, old)]
    if (labels.PROTECTED in kept[1]) != (labels.PROTECTED in kept[0]):
        return f"the finalizer {labels.PROTECTED} is the manager's alone"
    return None


def _unbound(user: User) -> str:
    return f"the token of {quoted(user.name)} is not bound to a node"


def _selects(selector: str, field: str, value: str) -> bool:
    """Whether one of the terms, all of which must hold, is field=value; read as the list itself reads it."""
    try:
        terms = selectors.parse_fields(selector).terms
    except BadRequest:
        return False
    return any(term.equal and term.field == field and term.value == value for term in terms)
