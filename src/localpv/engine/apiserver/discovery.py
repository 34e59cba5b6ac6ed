"""What the API has, told to clients before they ask for objects.

Pure functions over a list of resources: the plain documents (`/api`, `/apis` and below), the aggregated ones that
newer clients ask for by their Accept header, `/version`, and the list of paths at `/`.
"""

from __future__ import annotations

import base64
import hashlib
import platform
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec

import localpv
from localpv.api import media_types
from localpv.api.resources import Resource

KUBERNETES_VERSION = "1.35.8"
"""The release of Kubernetes whose behaviour this API has."""

_GROUP_PRIORITY = {
    "": 18000,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "admissionregistration.k8s.io": 16700,
    "apiextensions.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "resource.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
}
"""Higher comes first. Clients resolve a short name that two groups share in this order."""

_CUSTOM_GROUP_PRIORITY = 1000

_HEALTH_PATHS = ("/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A document ready to be sent with HTTP."""

    body: bytes
    content_type: str = media_types.JSON
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subresource:
    """What travels to and from `/PLURAL/NAME/SUBRESOURCE`; without a kind it is the kind of the resource itself."""

    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    kind: str = ""
    schema: str = ""


_READ_AND_WRITE = ("get", "patch", "update")

SUBRESOURCES = {
    "status": Subresource(verbs=_READ_AND_WRITE),
    "resize": Subresource(verbs=_READ_AND_WRITE),
    "ephemeralcontainers": Subresource(verbs=_READ_AND_WRITE),
    "log": Subresource(verbs=("get",)),
    "exec": Subresource(verbs=("create", "get"), version="v1", kind="PodExecOptions"),
    "finalize": Subresource(verbs=("update",)),
    "scale": Subresource(
        verbs=_READ_AND_WRITE, group="autoscaling", version="v1", kind="Scale", schema="io.k8s.api.autoscaling.v1.Scale"
    ),
    "binding": Subresource(verbs=("create",), version="v1", kind="Binding", schema="io.k8s.api.core.v1.Binding"),
    "eviction": Subresource(
        verbs=("create",), group="policy", version="v1", kind="Eviction", schema="io.k8s.api.policy.v1.Eviction"
    ),
    "token": Subresource(
        verbs=("create",),
        group="authentication.k8s.io",
        version="v1",
        kind="TokenRequest",
        schema="io.k8s.api.authentication.v1.TokenRequest",
    ),
}


def subresource(resource: Resource, name: str) -> Subresource:
    """One subresource of a resource, with the kind filled in."""
    known = SUBRESOURCES.get(name, Subresource(verbs=("get",)))
    if known.kind:
        return known
    return Subresource(
        verbs=known.verbs,
        group=resource.group,
        version=resource.version,
        kind=resource.kind,
        schema=resource.schema,
    )


# -- order ------------------------------------------------------------------------------------------------------------

_KUBE_VERSION = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")
_STABILITY = {None: 0, "beta": 1, "alpha": 2}


def version_order(version: str) -> tuple[int, int, int, int, str]:
    """A sort key: v2, v1, v1beta2, v1beta1, v1alpha1, and after them whatever else by name."""
    match = _KUBE_VERSION.fullmatch(version)
    if match is None:
        return (1, 0, 0, 0, version)
    major, stability, minor = match.groups()
    return (0, _STABILITY[stability], -int(major), -int(minor or 0), "")


def _group_order(group: str) -> tuple[int, str]:
    return (-_GROUP_PRIORITY.get(group, _CUSTOM_GROUP_PRIORITY), group)


def by_group(resources: Iterable[Resource]) -> dict[str, dict[str, list[Resource]]]:
    """Group, then version, then resources: each in the order in which clients shall see them."""
    groups: dict[str, dict[str, list[Resource]]] = {}
    for resource in sorted(resources, key=lambda r: (_group_order(r.group), version_order(r.version), r.plural)):
        groups.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
    return groups


# -- plain discovery --------------------------------------------------------------------------------------------------


def versions_of_core(address: str = "") -> dict[str, Any]:
    """`/api`; `address` is where clients reach this server, as HOST:PORT."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def _group(name: str, versions: Iterable[str]) -> dict[str, Any]:
    offered = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": offered, "preferredVersion": offered[0]}


def groups(resources: Iterable[Resource]) -> dict[str, Any]:
    """`/apis`."""
    found = [_group(name, versions) for name, versions in by_group(resources).items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def group(name: str, resources: Iterable[Resource]) -> dict[str, Any] | None:
    """`/apis/GROUP`."""
    versions = by_group(resources).get(name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)} if versions and name else None


def _storage_version_hash(resource: Resource) -> str:
    """Tells clients whether two servers store a resource in the same version; made as Kubernetes makes it."""
    # Both kinds of Events are stored as those of the core.
    group = "" if resource.stored_as else resource.group
    text = f"{group}/{resource.version}/{resource.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def _plain(resource: Resource) -> Iterable[dict[str, Any]]:
    entry: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    }
    if resource.short_names:
        entry["shortNames"] = resource.short_names
    if resource.categories:
        entry["categories"] = resource.categories
    if "list" in resource.verbs:
        entry["storageVersionHash"] = _storage_version_hash(resource)
    yield entry
    for name in sorted(resource.subresources):
        sub = subresource(resource, name)
        entry = {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
        }
        if (sub.group, sub.version) != (resource.group, resource.version):
            entry |= {"group": sub.group, "version": sub.version}
        yield entry | {"kind": sub.kind, "verbs": sub.verbs}


def resource_list(group: str, version: str, resources: Iterable[Resource]) -> dict[str, Any] | None:
    """`/api/v1` and `/apis/GROUP/VERSION`."""
    here = by_group(resources).get(group, {}).get(version)
    if not here:
        return None
    return {
        "kind": "APIResourceList",
        **({"apiVersion": "v1", "groupVersion": f"{group}/{version}"} if group else {"groupVersion": version}),
        "resources": [entry for resource in here for entry in _plain(resource)],
    }


# -- aggregated discovery ---------------------------------------------------------------------------------------------

_AGGREGATED = {"g": "apidiscovery.k8s.io", "as": "APIGroupDiscoveryList"}


def wants_aggregated(accept: str) -> bool:
    """Whether the first form that a client accepts, and that we have, is the aggregated one."""
    for clause in accept.split(","):
        media_type, *parameters = (part.strip() for part in clause.split(";"))
        if media_type not in (media_types.JSON, "application/*", "*/*"):
            continue
        given = dict(parameter.partition("=")[::2] for parameter in parameters)
        if "as" not in given:
            return False
        if given.get("v") == "v2" and all(given.get(key) == value for key, value in _AGGREGATED.items()):
            return True
    return False


def _response_kind(resource: Resource, group: str, version: str, kind: str) -> dict[str, str]:
    # Kubernetes leaves out what goes without saying, but not for custom kinds.
    if not resource.custom and (group, version) == (resource.group, resource.version):
        group = version = ""
    return {"group": group, "version": version, "kind": kind}


def _aggregated(resource: Resource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": _response_kind(resource, resource.group, resource.version, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    }
    if resource.short_names:
        entry["shortNames"] = resource.short_names
    if resource.categories:
        entry["categories"] = resource.categories
    found = [(name, subresource(resource, name)) for name in sorted(resource.subresources)]
    if found:
        entry["subresources"] = [
            {
                "subresource": name,
                "responseKind": _response_kind(resource, sub.group, sub.version, sub.kind),
                "verbs": sub.verbs,
            }
            for name, sub in found
        ]
    return entry


def aggregated(resources: Iterable[Resource], *, core: bool) -> dict[str, Any]:
    """Everything below `/api` (core) or `/apis` in one document."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": name} if name else {},
                "versions": [
                    {"version": version, "resources": [_aggregated(r) for r in here], "freshness": "Current"}
                    for version, here in versions.items()
                ],
            }
            for name, versions in by_group(resources).items()
            if core == (not name)
        ],
    }


# -- version and paths ------------------------------------------------------------------------------------------------


@cache
def version() -> dict[str, str]:
    """`/version`: the release of Kubernetes whose API this is, with our own as build metadata."""
    major, minor, _ = KUBERNETES_VERSION.split(".")
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": f"v{KUBERNETES_VERSION}+localpv-{localpv.__version__}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{sys.platform}/{platform.machine()}",
    }


def paths(resources: Iterable[Resource]) -> dict[str, list[str]]:
    """`/`: where there is something to read."""
    found = {"/api", "/apis", *_HEALTH_PATHS}
    for resource in resources:
        found.add(resource.path)
        found.add(resource.path.rpartition("/")[0])
    return {"paths": sorted(found)}


# -- all of it --------------------------------------------------------------------------------------------------------


def _answer_aggregated(document: dict[str, Any], if_none_match: str) -> Answer:
    body = msgspec.json.encode(document)
    etag = f'"{hashlib.sha256(body).hexdigest().upper()}"'
    headers = {"ETag": etag, "Vary": "Accept", "Cache-Control": "public"}
    content_type = f"{media_types.JSON};g={_AGGREGATED['g']};v=v2;as={_AGGREGATED['as']}"
    if if_none_match == etag:
        return Answer(body=b"", content_type=content_type, status=304, headers=headers)
    return Answer(body=body, content_type=content_type, headers=headers)


def _plain_document(path: str, resources: Sequence[Resource], address: str) -> dict[str, Any] | None:
    match path.strip("/").split("/"):
        case [""]:
            return paths(resources)
        case ["version"]:
            return dict(version())
        case ["api"]:
            return versions_of_core(address)
        case ["apis"]:
            return groups(resources)
        case ["api", wanted_version]:
            return resource_list("", wanted_version, resources)
        case ["apis", name]:
            return group(name, resources)
        case ["apis", name, wanted_version] if name:
            return resource_list(name, wanted_version, resources)
        case _:
            return None


def respond(
    path: str,
    accept: str,
    resources: Sequence[Resource],
    *,
    if_none_match: str = "",
    address: str = "",
) -> Answer | None:
    """The answer to a GET of a discovery path; None when the path is none, or names what does not exist."""
    trimmed = path.rstrip("/")
    if trimmed in ("/api", "/apis") and wants_aggregated(accept):
        return _answer_aggregated(aggregated(resources, core=trimmed == "/api"), if_none_match)
    document = _plain_document(path, resources, address)
    return None if document is None else Answer(body=msgspec.json.encode(document))
