"""Nobody gives away, through a role or a binding, more than they have.

Whoever may write roles could otherwise write themselves a bigger one. Two verbs lift this on purpose: `escalate` on
the role, and `bind` on the role that a binding refers to.
"""

from __future__ import annotations

from localpv.api import status, well_known
from localpv.api.objects import Object
from localpv.api.resources import Resource
from localpv.engine.apiserver.auth.aggregation import is_aggregated
from localpv.engine.apiserver.auth.attributes import Attributes, quoted, refusal
from localpv.engine.apiserver.auth.identity import User
from localpv.engine.apiserver.auth.rbac import Authorizer
from localpv.engine.apiserver.auth.rules import Rule, from_role, listed, uncovered

_ROLES = frozenset({"roles", "clusterroles"})
_BINDINGS = frozenset({"rolebindings", "clusterrolebindings"})
_EVERYTHING = (Rule(("*",), ("*",), ("*",)), Rule(verbs=("*",), urls=("*",)))


def check(user: User, resource: Resource, new: Object, old: Object | None, authorizer: Authorizer) -> None:
    """Raise Forbidden when this create or update (`old` is not None) of a role or binding gives away too much.

    Other resources pass. To be called with the object as it would be stored, before it is.
    """
    if resource.group != well_known.RBAC_GROUP or user.is_master:
        return
    metadata = new["metadata"]
    target = Attributes(
        verb="",
        group=well_known.RBAC_GROUP,
        resource=resource.plural,
        namespace=metadata.get("namespace", "") if resource.namespaced else "",
        name=metadata.get("name", ""),
    )
    if resource.plural in _ROLES:
        _check_role(user, target, new, old, authorizer)
    elif resource.plural in _BINDINGS:
        _check_binding(user, target, new, old, authorizer)


def _check_role(user: User, target: Attributes, new: Object, old: Object | None, authorizer: Authorizer) -> None:
    # A create has no name in its address, so only an `escalate` on all roles lets it pass.
    escalate = Attributes(
        verb="escalate",
        group=well_known.RBAC_GROUP,
        resource=target.resource,
        namespace=target.namespace,
        name=target.name if old is not None else "",
    )
    if authorizer.decide(user, escalate).allowed or (old is not None and _same_but_for_gc(new, old)):
        return
    _confirm(user, target, from_role(new.get("rules") or []), authorizer)
    aggregates = is_aggregated(new) or (old is not None and is_aggregated(old))
    if aggregates and uncovered(_EVERYTHING, authorizer.rules_for(user, target.namespace)[0]):
        # What it will sum up is not known yet and can be anything.
        raise refusal(target, "only a cluster administrator may use aggregationRule")


def _check_binding(user: User, target: Attributes, new: Object, old: Object | None, authorizer: Authorizer) -> None:
    reference = new.get("roleRef") or {}
    kind, name = reference.get("kind", ""), reference.get("name", "")
    if old is not None and _same_but_for_gc(new, old):
        return
    if kind in ("ClusterRole", "Role"):
        bind = Attributes(
            verb="bind", group=well_known.RBAC_GROUP, resource=f"{kind.lower()}s", namespace=target.namespace, name=name
        )
        if authorizer.decide(user, bind).allowed:
            return
    wanted = authorizer.rules_of_role(reference, target.namespace)
    if wanted is None:
        # Told as Kubernetes tells it: with the resource of the request and the name of the role.
        raise status.not_found(target.resource, well_known.RBAC_GROUP, name)
    _confirm(user, target, wanted, authorizer)


def _confirm(user: User, target: Attributes, wanted: tuple[Rule, ...], authorizer: Authorizer) -> None:
    held, _ = authorizer.rules_for(user, target.namespace)
    missing = uncovered(wanted, held)
    if missing:
        rights = "\n".join(sorted(str(rule) for rule in missing))
        who = f"user {quoted(user.name)} (groups={listed(user.groups)})"
        raise refusal(target, f"{who} would grant RBAC permissions without holding them:\n{rights}")


def _same_but_for_gc(new: Object, old: Object) -> bool:
    """Garbage collection must be able to finish a deletion whatever the role allows."""
    return _without_gc(new) == _without_gc(old)


def _without_gc(obj: Object) -> Object:
    dropped = ("ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation")
    metadata = {key: value for key, value in obj["metadata"].items() if key not in dropped}
    return {**obj, "metadata": metadata}
