"""Requests of every method, path, option and body, right and wrong, each from its number alone."""

from __future__ import annotations

import base64
import copy
import json
import random
import urllib.parse
from dataclasses import dataclass
from typing import Any

import yaml
from tests.contract import builders, wire

from localpv.api.protobuf import messages
from localpv.api.resources import REVIEWS, Resource
from localpv.api.stored_resources import EVERY

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "FROB")
WEIGHTS = (24, 6, 20, 12, 18, 12, 3, 3, 1, 1, 1)
SPACE, PRESENT = "odd", "present"
HUGE = "9" * 400
DIGITS = "9" * 5000
TYPES = (
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    wire.JSON_PATCH,
    wire.MERGE_PATCH,
    wire.STRATEGIC_PATCH,
    wire.APPLY_PATCH,
    "application/apply-patch+cbor",
    "application/cbor",
    "text/plain",
    "application/json; charset=\u00ff",
    ";;;",
    "",
)
PATCHES = (wire.JSON_PATCH, wire.MERGE_PATCH, wire.STRATEGIC_PATCH, wire.APPLY_PATCH)
ACCEPTS = (
    "application/json",
    "*/*",
    "",
    wire.TABLE,
    wire.PARTIAL_OBJECT,
    wire.PARTIAL_LIST,
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v9;g=meta.k8s.io",
    "application/json;as=;v;g",
    "application/cbor,application/json;stream=watch",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    ",;=,",
)
NUMBERS = ("0", "1", "-1", HUGE, DIGITS, str(2**63 - 1), str(2**63), "1.5", "1e9", "x", "", "\u0661", "NaN", " 7")
FLAGS = ("true", "false", "0", "1", "", "maybe")
TEXTS = ("", "x", "x" * 3000, "\u00fc\u4e2d", "\x00", "%", "a,b", "../..", "a b", "[]", "{}")
OPTIONS: dict[str, tuple[str, ...]] = {
    "limit": NUMBERS,
    "resourceVersion": NUMBERS,
    "resourceVersionMatch": ("Exact", "NotOlderThan", "x", ""),
    "continue": (
        *TEXTS,
        "e30",
        base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":1,"start":"x"}').decode(),
        base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":-1,"start":"\\u0000"}').decode(),
        base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":' + DIGITS[:400].encode() + b',"start":"x"}').decode(),
        base64.urlsafe_b64encode(b'{"v":1,"rv":"x","start":[]}').decode(),
    ),
    "labelSelector": (*TEXTS, "a in (b", "a=b,!c", "a>" + HUGE, "a notin ()", "," * 500, "(" * 500, " " * 3000),
    "fieldSelector": (*TEXTS, "metadata.name=x", "spec.nodeName!=", "metadata.name=x,metadata.name=y", "\\,=\\="),
    "timeoutSeconds": NUMBERS,
    "sendInitialEvents": FLAGS,
    "allowWatchBookmarks": FLAGS,
    "dryRun": ("All", "", "x"),
    "fieldManager": TEXTS,
    "fieldValidation": ("Strict", "Warn", "Ignore", "x"),
    "force": FLAGS,
    "pretty": FLAGS,
    "propagationPolicy": ("Foreground", "Background", "Orphan", "x"),
    "gracePeriodSeconds": NUMBERS,
    "orphanDependents": FLAGS,
    "includeObject": ("None", "Metadata", "Object", "x"),
    "container": TEXTS,
    "tailLines": NUMBERS,
    "limitBytes": NUMBERS,
    "sinceSeconds": NUMBERS,
    "sinceTime": ("0001-01-01T00:00:00", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "x"),
    "command": TEXTS,
    "stdout": FLAGS,
    "follow": FLAGS,
    "previous": FLAGS,
    "timeout": ("1s", "x", HUGE),
    "verbose": FLAGS,
    "hash": TEXTS,
}
SCRAPS = (b"", b"{", b"null", b"[]", b'"x"', b"0", b"\x00", b"k8s\x00", b"k8s\x00\x0a\xff", b"\xff\xfe{}")
PLAIN_PATHS = (
    "/", "/api", "/api/", "/apis", "/apis/", "/apis/apps", "/apis/apps/v1", "/apis/apps/v9", "/api/v1", "/version",
    "/version/", "/healthz", "/livez", "/readyz", "/readyz/ping", "/metrics", "/openapi/v2", "/openapi/v3",
    "/openapi/v3/api/v1", "/openapi/v3/apis/apps/v1", "/openapi/v3/../..", "/logs", "/swagger.json", "/api/v1/watch",
    "/api/v1/watch/pods/x/y/z", "/apis/apps/v1/watch/namespaces/odd/deployments", "/api/v1/proxy/nodes/x",
    "/api/v1/namespaces//pods", "//api/v1/pods", "/api/v1/namespaces/odd/pods/%2e%2e", "/api/v1/%00", "/%zz",
    "/api/v1/..",
    "/api/v1/namespaces/odd", "/api/v1/namespaces/odd/finalize", "/api/v1/namespaces/odd/status", "*", "http://x/api",
    "/.well-known/openid-configuration", "/openid/v1/jwks", "/debug/pprof", "/" + "a/" * 2000,
    "/api/v1/pods/" + "x" * 7000,
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, 0, -1, 1.5, 1e300, "", "x" * 300, [], {}, [None], {"": None}, True, "../..", 2**63, 2**70, -(2**70), [[[]]],
    "\u0000", "-", HUGE, DIGITS, DIGITS + "%", "1" * 5000 + "Mi", [[]], "\ud7ff", {"a": {"b": [{}]}},
)  # fmt: skip
EXAMPLES: tuple[Any, ...] = (
    builders.config_map(PRESENT), builders.secret(PRESENT), builders.namespace(), builders.service_account(PRESENT),
    builders.node(PRESENT), builders.pod(PRESENT), builders.service(PRESENT), builders.local_volume(PRESENT),
    builders.claim(PRESENT), builders.storage_class(PRESENT), builders.deployment(PRESENT),
    builders.stateful_set(PRESENT), builders.job(PRESENT), builders.lease(PRESENT), builders.core_event(SPACE, PRESENT),
    builders.role(PRESENT),
)  # fmt: skip
OTHERS: tuple[Any, ...] = (
    {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": PRESENT}, "spec": {"replicas": 2}},
    {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": PRESENT},
        "deleteOptions": {"dryRun": ["All"]},
    },
    {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": PRESENT}, "target": {"kind": "Node", "name": "x"}},
    {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "x"}, "propagationPolicy": "Orphan"},
    {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}},
    {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "x.y.z", "audiences": ["a"]}},
    {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": "x", "groups": ["y"], "extra": {"a": ["b"]}, "resourceAttributes": {"verb": "get"}},
    },
    {"apiVersion": "v1", "kind": "Status", "details": {"causes": [{}]}},
    [{"op": "add", "path": "/metadata/labels/a", "value": "b"}, {"op": "test", "path": "/spec", "value": 1}],
    {"metadata": {"labels": {"a": None}, "$patch": "replace"}, "spec": {"$setElementOrder/containers": [{}]}},
    {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}]}},
    {"metadata": {"managedFields": [{"fieldsV1": {"f:metadata": {"k:{}": {}}}}], "finalizers": ["a/b"]}},
)
RESOURCES: tuple[Resource, ...] = (*EVERY, *REVIEWS)
KNOWN = tuple(resource for resource in RESOURCES if resource.kind in {example["kind"] for example in EXAMPLES})
SUBRESOURCES = (
    "status",
    "scale",
    "log",
    "exec",
    "eviction",
    "binding",
    "token",
    "finalize",
    "attach",
    "proxy",
    "resize",
)


@dataclass(frozen=True, slots=True)
class Odd:
    method: str
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


def make(number: int) -> Odd:
    """The request of a number: always the same one."""
    chance = random.Random(f"odd request {number}")
    # Most are nearly right: what is wrong in every way is refused at the door and tells little.
    plausible = chance.random() < 0.6
    method = chance.choices(METHODS, WEIGHTS)[0]
    resource = chance.choice(KNOWN if plausible else RESOURCES)
    path = _path(chance, resource)
    if plausible:
        scope = f"/namespaces/{SPACE}" if resource.namespaced else ""
        path = f"{resource.path}{scope}/{resource.plural}"
        method = chance.choice(("GET", "POST", "POST", "PUT", "PATCH", "PATCH", "PATCH", "DELETE"))
        if method != "POST" and chance.random() < 0.9:
            path += f"/{PRESENT}"
        if chance.random() < 0.25 and resource.subresources:
            path = f"{path.removesuffix(f'/{PRESENT}')}/{PRESENT}/{chance.choice(resource.subresources)}"
    target = path + _query(chance, path, 0.02 if plausible else 0.06, dry=method == "DELETE" or chance.random() < 0.7)
    accept = chance.choice(ACCEPTS) if chance.random() < 0.3 else "application/json"
    headers: list[tuple[bytes, bytes]] = [(b"Accept", accept.encode())]
    if chance.random() < 0.03:
        headers.append((b"Impersonate-User", chance.choice(("x", "system:serviceaccount:a:b", "")).encode()))
        headers.append((b"Impersonate-Extra-%zz", b"x"))
    body = b""
    if chance.random() < (1 if plausible else 0.75) and method != "CONNECT":
        kind = chance.choice(TYPES)
        if plausible:
            kind = chance.choice(PATCHES if method == "PATCH" else TYPES[:3])
        body = _body(chance, kind, resource if chance.random() < 0.8 else None)
        headers.append((b"Content-Type", kind.encode("latin-1")))
        if chance.random() < 0.2:
            headers.append((b"Transfer-Encoding", b"chunked"))
            body = _chunked(chance, body)
        else:
            headers.append((b"Content-Length", str(len(body)).encode()))
        if chance.random() < 0.05:
            headers.append((b"Expect", b"100-continue"))
    if chance.random() < 0.02:
        headers += [(b"Upgrade", b"websocket"), (b"Connection", b"Upgrade"), (b"Sec-WebSocket-Version", b"13")]
    return Odd(method, target.encode(), tuple(headers), body)


def _path(chance: random.Random, resource: Resource) -> str:
    if chance.random() < 0.25:
        return chance.choice(PLAIN_PATHS)
    watch = "/watch" if chance.random() < 0.03 else ""
    scope = f"/namespaces/{SPACE}" if resource.namespaced != (chance.random() < 0.05) else ""
    path = f"{resource.path}{watch}{scope}/{resource.plural}"
    if chance.random() < 0.65:
        path += "/" + chance.choice((PRESENT, PRESENT, PRESENT, "absent", "UPPER", "a%2Fb", "%00", ".", ""))
        if chance.random() < 0.5:
            path += "/" + chance.choice((*resource.subresources, *resource.subresources, *SUBRESOURCES, "x/y"))
    return path


def _query(chance: random.Random, path: str, often: float, *, dry: bool) -> str:
    options = [name for name in OPTIONS if chance.random() < often]
    asked = [(name, chance.choice(OPTIONS[name])) for name in options]
    watches = "/watch" in path or chance.random() < 0.05
    if watches or "follow" in options:
        # Without an end it would be there for half an hour.
        asked = [(name, value) for name, value in asked if name != "timeoutSeconds"]
        asked += [("watch", chance.choice(("1", "true", "maybe"))), ("timeoutSeconds", chance.choice(("1", HUGE, "x")))]
    if dry and "dryRun" not in options:
        asked.append(("dryRun", "All"))
    if chance.random() < 0.01:
        asked += [("x", "y")] * 1200
    return f"?{urllib.parse.urlencode(asked)[:7500]}" if asked else chance.choice(("", "", "", "?", "?&&=%zz"))


def _body(chance: random.Random, kind: str, resource: Resource | None) -> bytes:
    if chance.random() < 0.1:
        return chance.choice(
            (b"", b"{", b"null", b"[]", b'"x"', b"0", b"\x00", b"k8s\x00", b"k8s\x00\x0a\xff", b"\xff\xfe{}")
        )
    value = copy.deepcopy(chance.choice(EXAMPLES if chance.random() < 0.5 else OTHERS))
    fitting = [example for example in EXAMPLES if resource is not None and example["kind"] == resource.kind]
    if resource is not None and fitting and chance.random() < 0.85:
        value = {"apiVersion": resource.api_version, **copy.deepcopy(fitting[0])}
        if chance.random() < 0.5:
            value["metadata"]["name"] = f"new-{chance.randrange(10**6)}"
    for _ in range(chance.choice((0, 1, 1, 2))):
        _spoil(value, chance)
    if kind.endswith("protobuf"):
        try:
            raw = messages.encode(value)
        except Exception:  # what cannot be written as protobuf is sent as something that is none
            raw = b"k8s\x00" + json.dumps(value).encode()
        return _damaged(raw, chance) if chance.random() < 0.5 else raw
    if kind.endswith("yaml") and chance.random() < 0.5:
        return yaml.safe_dump(value).encode()
    raw = json.dumps(value).encode()
    return _damaged(raw, chance) if chance.random() < 0.1 else raw


def _spoil(value: Any, chance: random.Random) -> None:
    place = value
    while isinstance(place, dict | list) and place:
        key = chance.choice(list(place)) if isinstance(place, dict) else chance.randrange(len(place))
        if chance.random() < 0.3 or not isinstance(place[key], dict | list) or not place[key]:
            place[key] = copy.deepcopy(chance.choice(VALUES))
            return
        place = place[key]


def _damaged(raw: bytes, chance: random.Random) -> bytes:
    if not raw:
        return raw
    at = chance.randrange(len(raw))
    return chance.choice((raw[:at], raw[:at] + bytes((chance.randrange(256),)) + raw[at + 1 :], raw + raw[:at]))


def _chunked(chance: random.Random, body: bytes) -> bytes:
    if chance.random() < 0.05:
        return b"zz\r\n" + body + b"\r\n0\r\n\r\n"
    middle = chance.randrange(len(body) + 1)
    pieces = [piece for piece in (body[:middle], body[middle:]) if piece]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
