"""Questions about access, answered and never stored: may I, may they, what may I, who am I, whose token is this;
and the `token` subresource of service accounts: `kubectl create token`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from localpv import errors
from localpv.api import fields, objects, status, well_known
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.api.resources import Resource
from localpv.engine.apiserver.auth.identity import Attributes, User
from localpv.engine.apiserver.auth.lookup import NODES, PODS, SECRETS, SERVICE_ACCOUNTS, Objects
from localpv.engine.apiserver.auth.rbac import Authorizer, summed_up
from localpv.engine.apiserver.auth.tokens import AUDIENCES, Tokens
from localpv.errors import BadRequest


def mapping(obj: Object, key: str) -> Object | None:
    """The object under a key; None when it is not there."""
    value = obj.get(key)
    if value is not None and not isinstance(value, dict):
        raise _wrong(key, "an object")
    return value


def text(obj: Object, key: str) -> str:
    value = obj.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _wrong(key, "a string")
    return value


def texts(obj: Object, key: str) -> list[str]:
    value = obj.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong(key, "a list of strings")
    return value


def integer(obj: Object, key: str, default: int) -> int:
    value = obj.get(key)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(key, "an integer")
    return value


def extra(obj: Object, key: str) -> dict[str, tuple[str, ...]]:
    values: dict[str, Any] = mapping(obj, key) or {}
    return {name: tuple(texts(values, name)) for name in values}


def _wrong(key: str, wanted: str) -> BadRequest:
    return BadRequest(f"{key} must be {wanted}")


def answer(
    resource: Resource,
    body: Object,
    user: User,
    authorizer: Authorizer,
    tokens: Tokens,
    *,
    store: Objects,
    now: float,
    namespace: str = "",
) -> Object:
    """The answer to a review that this user has sent; `namespace` is that of the address."""
    spec = mapping(body, "spec") or {}
    match resource.kind:
        case "SelfSubjectReview":
            metadata = {"creationTimestamp": objects.now()}
            return _object(resource, metadata, None, {"userInfo": user_info(user)})
        case "TokenReview":
            return _object(resource, {}, spec, _token_status(spec, tokens, store, now))
        case "SelfSubjectRulesReview":
            return _object(resource, {}, {}, _rules_status(spec, user, authorizer))
        case "SelfSubjectAccessReview":
            _check_access_review(resource, body, spec, namespace)
            return _object(resource, {}, spec, _access_status(spec, user, authorizer))
        case "SubjectAccessReview" | "LocalSubjectAccessReview":
            _check_access_review(resource, body, spec, namespace)
            metadata = {"namespace": namespace} if resource.namespaced else {}
            return _object(resource, metadata, spec, _access_status(spec, _subject(spec), authorizer))
    raise status.not_found(resource.plural, resource.group, "")


def user_info(user: User) -> Object:
    info: Object = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info


def _object(resource: Resource, metadata: Object, spec: Object | None, answered: Object) -> Object:
    obj: Object = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    if spec is not None:
        obj["spec"] = spec
    obj["status"] = answered
    return obj


def _access_status(spec: Object, user: User, authorizer: Authorizer) -> Object:
    decision = authorizer.decide(user, _attributes(spec))
    answered: Object = {"allowed": decision.allowed}
    if decision.reason:
        answered["reason"] = decision.reason
    return answered


def _attributes(spec: Object) -> Attributes:
    resource = mapping(spec, "resourceAttributes")
    if resource is None:
        path = mapping(spec, "nonResourceAttributes") or {}
        return Attributes(verb=text(path, "verb"), path=text(path, "path"))
    return Attributes(
        verb=text(resource, "verb"),
        group=text(resource, "group"),
        # Without a resource the question is still about resources, and not about a path.
        resource=text(resource, "resource") or "*",
        subresource=text(resource, "subresource"),
        namespace=text(resource, "namespace"),
        name=text(resource, "name"),
    )


def _subject(spec: Object) -> User:
    return User(
        text(spec, "user"),
        tuple(texts(spec, "groups")),
        text(spec, "uid"),
        extra(spec, "extra"),
    )


def _check_access_review(resource: Resource, body: Object, spec: Object, namespace: str) -> None:
    local = resource.kind == "LocalSubjectAccessReview"
    wanted, path = mapping(spec, "resourceAttributes"), mapping(spec, "nonResourceAttributes")
    causes: FieldErrors = []
    if wanted is not None and path is not None:
        causes.append(fields.invalid("spec.nonResourceAttributes", path, "must not be set beside resourceAttributes"))
    if wanted is None and path is None:
        detail = "one of resourceAttributes and nonResourceAttributes must be set"
        causes.append(fields.invalid("spec.resourceAttributes", None, detail))
    if resource.kind != "SelfSubjectAccessReview" and not text(spec, "user") and not texts(spec, "groups"):
        causes.append(fields.invalid("spec.user", "", "a user or a group must be given"))
    causes += _check_metadata(body, namespace, local)
    if local:
        if wanted is not None and text(wanted, "namespace") != namespace:
            value = text(wanted, "namespace")
            causes.append(fields.invalid("spec.resourceAttributes.namespace", value, "must match metadata.namespace"))
        if path is not None:
            causes.append(fields.invalid("spec.nonResourceAttributes", path, "must not be set in this kind of review"))
    if causes:
        raise status.invalid(resource.kind, resource.group, "", causes)


def _check_metadata(body: Object, namespace: str, local: bool) -> FieldErrors:
    metadata = dict(mapping(body, "metadata") or {})
    metadata.pop("managedFields", None)
    if local and (metadata.pop("namespace", None) or namespace) != namespace:
        raise errors.BadRequest("the namespace of the object is not the namespace of the request")
    if any(value is not None for value in metadata.values()):
        detail = "must be empty except for namespace" if local else "must be empty"
        return [fields.invalid("metadata", metadata, detail)]
    return []


def _rules_status(spec: Object, user: User, authorizer: Authorizer) -> Object:
    namespace = text(spec, "namespace")
    if not namespace:
        raise errors.BadRequest("spec.namespace is needed to tell what may be done there")
    rules, failed = authorizer.rules_for(user, namespace)
    resource_rules, path_rules = [], []
    for rule in rules:
        if rule.resources:
            told: Object = {
                "verbs": list(rule.verbs),
                "apiGroups": list(rule.groups),
                "resources": list(rule.resources),
            }
            if rule.names:
                told["resourceNames"] = list(rule.names)
            resource_rules.append(told)
        if rule.urls:
            path_rules.append({"verbs": list(rule.verbs), "nonResourceURLs": list(rule.urls)})
    answered: Object = {"resourceRules": resource_rules, "nonResourceRules": path_rules, "incomplete": False}
    if failed:
        answered["evaluationError"] = summed_up(dict.fromkeys(failed))
    return answered


def _token_status(spec: Object, tokens: Tokens, store: Objects, now: float) -> Object:
    token = text(spec, "token")
    if not token:
        raise errors.BadRequest("spec.token is needed for a TokenReview")
    try:
        user, audiences = tokens.review(token, store, now, texts(spec, "audiences") or AUDIENCES)
    except errors.Unauthorized as error:
        return {"user": {}, "error": error.message}
    return {"authenticated": True, "user": user_info(user), "audiences": list(audiences)}


API_VERSION = f"{well_known.AUTHENTICATION_GROUP}/v1"
KIND = "TokenRequest"

DEFAULT_SECONDS = 3600
MIN_SECONDS = 600
MAX_SECONDS = 1 << 32


class _Bound(NamedTuple):
    """The objects that go into the token."""

    pod: Object | None = None
    node: Object | None = None
    secret: Object | None = None


def token_request(
    body: Object,
    service_account: Object | None,
    *,
    namespace: str,
    name: str,
    tokens: Tokens,
    objects: Objects,
    now: float,
) -> Object:
    """The answer to a TokenRequest for the service account of this address (None: there is none)."""
    metadata, spec = mapping(body, "metadata") or {}, mapping(body, "spec") or {}
    _check_address(text(metadata, "name"), "name", name, name)
    if text(metadata, "namespace") not in ("", namespace):
        raise errors.BadRequest("the namespace of the object is not the namespace of the request")
    if service_account is None:
        raise status.not_found(SERVICE_ACCOUNTS, "", name)
    account_uid = service_account["metadata"]["uid"]
    asked_uid = text(metadata, "uid")
    if asked_uid not in ("", account_uid):
        why = f"the service account has the UID {account_uid}, the token request is for {asked_uid}"
        raise status.conflict(KIND, well_known.AUTHENTICATION_GROUP, name, why)

    seconds = integer(spec, "expirationSeconds", DEFAULT_SECONDS)
    _check_seconds(seconds)
    audiences = texts(spec, "audiences") or list(AUDIENCES)
    reference = mapping(spec, "boundObjectRef")
    bound = _bound(reference, namespace, name, objects) if reference is not None else _Bound()
    token = tokens.issue(
        service_account,
        now=now,
        seconds=seconds,
        audiences=audiences,
        pod=bound.pod,
        node=bound.node,
        secret=bound.secret,
    )
    return {
        "kind": KIND,
        "apiVersion": API_VERSION,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": account_uid,
            "creationTimestamp": _timestamp(now),
        },
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": reference},
        "status": {"token": token, "expirationTimestamp": _timestamp(now + seconds)},
    }


def _check_address(value: str, field: str, wanted: str, name: str) -> None:
    if value not in ("", wanted):
        cause = fields.invalid(f"metadata.{field}", value, f"must be the {field} of the service account")
        raise status.invalid(KIND, well_known.AUTHENTICATION_GROUP, name, [cause])


def _check_seconds(seconds: int) -> None:
    path = "spec.expirationSeconds"
    if seconds < MIN_SECONDS:
        cause = fields.invalid(path, seconds, f"must be at least {MIN_SECONDS} seconds (10 minutes)")
    elif seconds > MAX_SECONDS:
        cause = fields.invalid(path, seconds, "must be at most 2^32 seconds")
    else:
        return
    raise status.invalid(KIND, well_known.AUTHENTICATION_GROUP, "", [cause])


def _bound(reference: Object, namespace: str, account: str, objects: Objects) -> _Bound:
    kind, api_version = text(reference, "kind"), text(reference, "apiVersion")
    name = text(reference, "name")
    if api_version not in ("", "v1") or kind not in ("Pod", "Node", "Secret"):
        raise errors.BadRequest(
            f"a token cannot be bound to {kind or 'an object without kind'} of {api_version or 'v1'}; "
            "it can be bound to a Pod, a Secret or a Node"
        )
    if kind == "Pod":
        pod = _get(PODS, namespace, name, kind, reference, objects)
        spec = pod.get("spec") or {}
        if spec.get("serviceAccountName") != account:
            raise errors.BadRequest(f'the pod "{name}" does not run with the service account "{account}"')
        return _Bound(pod=pod, node=_node_of(spec.get("nodeName") or "", objects))
    if kind == "Secret":
        return _Bound(secret=_get(SECRETS, namespace, name, kind, reference, objects))
    return _Bound(node=_get(NODES, "", name, kind, reference, objects))


def _get(prefix: str, namespace: str, name: str, kind: str, reference: Object, objects: Objects) -> Object:
    found = objects.get(prefix, namespace, name)
    if found is None:
        raise status.not_found(prefix, "", name)
    asked, uid = text(reference, "uid"), found["metadata"]["uid"]
    if asked not in ("", uid):
        why = f"its UID is {uid} and not {asked} as the reference says: it was deleted and made again"
        raise status.conflict(kind, "", name, why)
    return found


def _node_of(name: str, objects: Objects) -> Object | None:
    """The node of a pod; a node that is gone still lends its name to the token."""
    if not name:
        return None
    return objects.get(NODES, "", name) or {"metadata": {"name": name}}


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
