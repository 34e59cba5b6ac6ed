"""Questions about access, answered and never stored: may I, may they, what may I, who am I, whose token is this."""

from __future__ import annotations

from localpv import errors
from localpv.api import fields, objects, status
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.api.resources import Resource
from localpv.engine.apiserver.auth import bodies
from localpv.engine.apiserver.auth.attributes import Attributes
from localpv.engine.apiserver.auth.identity import User
from localpv.engine.apiserver.auth.lookup import Objects
from localpv.engine.apiserver.auth.rbac import Authorizer, summed_up
from localpv.engine.apiserver.auth.tokens import AUDIENCES, Tokens


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
    spec = bodies.mapping(body, "spec") or {}
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
    resource = bodies.mapping(spec, "resourceAttributes")
    if resource is None:
        path = bodies.mapping(spec, "nonResourceAttributes") or {}
        return Attributes(verb=bodies.text(path, "verb"), path=bodies.text(path, "path"))
    return Attributes(
        verb=bodies.text(resource, "verb"),
        group=bodies.text(resource, "group"),
        # Without a resource the question is still about resources, and not about a path.
        resource=bodies.text(resource, "resource") or "*",
        subresource=bodies.text(resource, "subresource"),
        namespace=bodies.text(resource, "namespace"),
        name=bodies.text(resource, "name"),
    )


def _subject(spec: Object) -> User:
    return User(
        bodies.text(spec, "user"),
        tuple(bodies.texts(spec, "groups")),
        bodies.text(spec, "uid"),
        bodies.extra(spec, "extra"),
    )


def _check_access_review(resource: Resource, body: Object, spec: Object, namespace: str) -> None:
    local = resource.kind == "LocalSubjectAccessReview"
    wanted, path = bodies.mapping(spec, "resourceAttributes"), bodies.mapping(spec, "nonResourceAttributes")
    causes: FieldErrors = []
    if wanted is not None and path is not None:
        causes.append(fields.invalid("spec.nonResourceAttributes", path, "must not be set beside resourceAttributes"))
    if wanted is None and path is None:
        detail = "one of resourceAttributes and nonResourceAttributes must be set"
        causes.append(fields.invalid("spec.resourceAttributes", None, detail))
    if (
        resource.kind != "SelfSubjectAccessReview"
        and not bodies.text(spec, "user")
        and not bodies.texts(spec, "groups")
    ):
        causes.append(fields.invalid("spec.user", "", "a user or a group must be given"))
    causes += _check_metadata(body, namespace, local)
    if local:
        if wanted is not None and bodies.text(wanted, "namespace") != namespace:
            value = bodies.text(wanted, "namespace")
            causes.append(fields.invalid("spec.resourceAttributes.namespace", value, "must match metadata.namespace"))
        if path is not None:
            causes.append(fields.invalid("spec.nonResourceAttributes", path, "must not be set in this kind of review"))
    if causes:
        raise status.invalid(resource.kind, resource.group, "", causes)


def _check_metadata(body: Object, namespace: str, local: bool) -> FieldErrors:
    metadata = dict(bodies.mapping(body, "metadata") or {})
    metadata.pop("managedFields", None)
    if local and (metadata.pop("namespace", None) or namespace) != namespace:
        raise errors.BadRequest("the namespace of the object is not the namespace of the request")
    if any(value is not None for value in metadata.values()):
        detail = "must be empty except for namespace" if local else "must be empty"
        return [fields.invalid("metadata", metadata, detail)]
    return []


def _rules_status(spec: Object, user: User, authorizer: Authorizer) -> Object:
    namespace = bodies.text(spec, "namespace")
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
    token = bodies.text(spec, "token")
    if not token:
        raise errors.BadRequest("spec.token is needed for a TokenReview")
    try:
        user, audiences = tokens.review(token, store, now, bodies.texts(spec, "audiences") or AUDIENCES)
    except errors.Unauthorized as error:
        return {"user": {}, "error": error.message}
    return {"authenticated": True, "user": user_info(user), "audiences": list(audiences)}
