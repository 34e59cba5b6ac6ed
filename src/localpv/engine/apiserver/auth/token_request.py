"""The `token` subresource of service accounts: `kubectl create token`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from localpv import errors
from localpv.api import fields, status, well_known
from localpv.api.objects import Object
from localpv.engine.apiserver.auth import bodies
from localpv.engine.apiserver.auth.lookup import NODES, PODS, SECRETS, SERVICE_ACCOUNTS, Objects
from localpv.engine.apiserver.auth.tokens import AUDIENCES, Tokens

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
    metadata, spec = bodies.mapping(body, "metadata") or {}, bodies.mapping(body, "spec") or {}
    _check_address(bodies.text(metadata, "name"), "name", name, name)
    if bodies.text(metadata, "namespace") not in ("", namespace):
        raise errors.BadRequest("the namespace of the object is not the namespace of the request")
    if service_account is None:
        raise status.not_found(SERVICE_ACCOUNTS, "", name)
    account_uid = service_account["metadata"]["uid"]
    asked_uid = bodies.text(metadata, "uid")
    if asked_uid not in ("", account_uid):
        why = f"the service account has the UID {account_uid}, the token request is for {asked_uid}"
        raise status.conflict(KIND, well_known.AUTHENTICATION_GROUP, name, why)

    seconds = bodies.integer(spec, "expirationSeconds", DEFAULT_SECONDS)
    _check_seconds(seconds)
    audiences = bodies.texts(spec, "audiences") or list(AUDIENCES)
    reference = bodies.mapping(spec, "boundObjectRef")
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
    kind, api_version = bodies.text(reference, "kind"), bodies.text(reference, "apiVersion")
    name = bodies.text(reference, "name")
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
    asked, uid = bodies.text(reference, "uid"), found["metadata"]["uid"]
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
