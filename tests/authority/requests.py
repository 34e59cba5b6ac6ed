"""Requests at random, with what each means to Kubernetes: which verb it is, and which objects it is about.

A request is made from its parts, so the meaning needs no parsing of addresses and shares none with the server.
"""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from tests.authority import worlds
from tests.authority.rbac import Asked

Object = dict[str, Any]
Row = tuple[str, Object]
"""Key and object. The key is `namespace/name`, or the name alone."""

NAMESPACES = ("t", "t-a", "t0")
"""One is the beginning of the others, and `-` and `0` stand on either side of `/`, which ends a namespace in a key."""

NAMES = ("x", "y", "z")
NODES = ("n1", "n2")
PREFIXED_NAMES = (*NAMES, *NODES, *NAMESPACES, "robot")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A resource that requests are about."""

    plural: str
    kind: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    subresources: tuple[str, ...] = ()
    names: tuple[str, ...] = NAMES
    by_node: bool = False
    """Whether spec.nodeName can be selected by."""
    spared: bool = False
    """Not deleted nor made: the tokens of the subjects live and die with it."""
    made_by_put: bool = False

    @property
    def prefix(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


SECRETS = Kind(plural="secrets", kind="Secret")
PODS = Kind(plural="pods", kind="Pod", subresources=("status", "binding", "eviction"), by_node=True)
LEASES = Kind(plural="leases", kind="Lease", group="coordination.k8s.io", made_by_put=True)
DISKS = Kind(
    plural="localdisks", kind="LocalDisk", group="localpv.dev", version="v1alpha1", namespaced=False,
    subresources=("status",), by_node=True,
)  # fmt: skip
NODE_KIND = Kind(plural="nodes", kind="Node", namespaced=False, subresources=("status",), names=NODES, spared=True)
NAMESPACE_KIND = Kind(
    plural="namespaces", kind="Namespace", namespaced=False, subresources=("status", "finalize"), names=NAMESPACES,
    spared=True,
)  # fmt: skip
ACCOUNT_KIND = Kind(
    plural="serviceaccounts", kind="ServiceAccount", subresources=("token",), names=("robot", "default"), spared=True
)
KINDS = (SECRETS, PODS, LEASES, DISKS, NODE_KIND, NAMESPACE_KIND, ACCOUNT_KIND)

LABEL_SELECTORS: dict[str, Callable[[Object], bool]] = {
    "": lambda labels: True,
    "tier=gold": lambda labels: labels.get("tier") == "gold",
    "tier!=gold": lambda labels: labels.get("tier") != "gold",
    "tier in (gold,iron)": lambda labels: labels.get("tier") in ("gold", "iron"),
    "tier": lambda labels: "tier" in labels,
    "!tier": lambda labels: "tier" not in labels,
    "tier=gold,tier!=iron": lambda labels: labels.get("tier") == "gold",
}


@dataclass(frozen=True, slots=True)
class Term:
    """One condition of a field selector."""

    field: str
    value: str
    equal: bool = True
    sign: str = "="

    def __str__(self) -> str:
        value = self.value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
        return f"{self.field}{self.sign if self.equal else '!='}{value}"


NAME_TERMS = st.builds(
    Term,
    st.just("metadata.name"),
    st.sampled_from((*NAMES, *NAMES, *NAMES, "n1", "t", "", "x/y", "..", "x,spec.nodeName=n1")),
    st.sampled_from((True, True, True, False)),
    st.sampled_from(("=", "==")),
)
NAMESPACE_TERMS = st.builds(Term, st.just("metadata.namespace"), st.sampled_from(("t", "t-a")), st.booleans())
NODE_TERMS = st.builds(Term, st.just("spec.nodeName"), st.sampled_from(NODES), st.sampled_from((True, True, False)))


@functools.cache
def selectors(kind: Kind) -> st.SearchStrategy[tuple[Term, ...]]:
    """Up to two conditions on fields; kinds without nodes are now and then asked for theirs."""
    term = st.one_of(NAME_TERMS, NODE_TERMS if kind.by_node else NAME_TERMS, NAMESPACE_TERMS)
    usual = st.lists(term, min_size=1, max_size=2)
    one_node = st.lists(NODE_TERMS, min_size=1, max_size=1)
    if kind.by_node:
        return st.one_of(st.just([]), usual, one_node, st.tuples(NODE_TERMS, NAME_TERMS).map(list)).map(tuple)
    return st.one_of(st.just([]), st.just([]), usual, usual, usual, usual, one_node).map(tuple)


@dataclass(frozen=True, slots=True)
class Token:
    """A continue token that nobody gave out."""

    start: str
    now: bool
    """Whatever there is now, in place of the version of this moment."""
    form: str = "meta.k8s.io/v1"

    def text(self, revision: int) -> str:
        value = {"v": self.form, "rv": -1 if self.now else revision, "start": self.start}
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


STARTS = ("t-a/", "t-a/x", "t-a", "t/x", "t/x\0", "t0", "x", "y\0", "z", "a", "\0", "/t-a/x", "/t/x\0")
BAD_STARTS = ("../t-a/x", "..", "t/../t-a/x", "", "t//x")
TOKENS = st.one_of(
    st.builds(Token, st.sampled_from(STARTS), st.booleans()),
    st.builds(Token, st.sampled_from(STARTS), st.booleans()),
    st.builds(Token, st.sampled_from(BAD_STARTS), st.booleans()),
    st.builds(Token, st.sampled_from(STARTS), st.booleans(), st.just("meta.k8s.io/v2")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, in parts."""

    kind: Kind
    method: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    old_watch: bool = False
    """By the path `/watch/`."""

    watch: str = ""
    """The option watch; empty: not there."""
    resume: bool = False
    """A watch from a version of before, in place of one that begins with what is there."""
    initial: bool = False
    """A watch with sendInitialEvents."""

    labels: str = ""
    fields: tuple[Term, ...] = ()
    limit: int = 0
    token: Token | int | None = None
    """A forged one, or a real one: that of the list of all namespaces (0) or of one of them (1...)."""

    body_name: str = "x"
    body_node: str = "n1"
    apply: bool = False
    protobuf: bool = False
    finalizers: tuple[str, ...] = ()
    """What a request to namespaces/finalize asks for."""

    # -- as it is sent -------------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        parts = [f"/apis/{self.kind.group}" if self.kind.group else "/api", self.kind.version]
        parts += ["watch"] if self.old_watch else []
        parts += ["namespaces", self.namespace] if self.namespace else []
        return "/".join([*parts, self.kind.plural, *filter(None, (self.name, self.subresource))])

    def query(self) -> dict[str, str]:
        """Without the token and the version, which depend on the moment."""
        options = {
            "labelSelector": self.labels,
            "fieldSelector": ",".join(map(str, self.fields)),
            "limit": str(self.limit or ""),
            "watch": self.watch,
        }
        if self.initial and self.verb == "watch":
            options |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        if self.method == "PATCH" and self.apply:
            options |= {"fieldManager": "authority", "force": "true"}
        return {name: value for name, value in options.items() if value}

    # -- what it means -------------------------------------------------------------------------------------------------

    @property
    def verb(self) -> str:
        if self.old_watch:
            return "watch"
        if self.method in ("GET", "HEAD"):
            if self.name:
                return "get"
            return "list" if self.watch in ("", "0", "false") else "watch"
        if self.method == "DELETE":
            return "delete" if self.name else "deletecollection"
        return {"POST": "create", "PUT": "update", "PATCH": "patch"}[self.method]

    def asked(self) -> Asked:
        name = self.name
        if self.verb in ("list", "watch") and not self.old_watch:
            name = self.selected_name
        namespace = self.namespace or (self.name if self.kind is NAMESPACE_KIND else "")
        return Asked(
            verb=self.verb,
            group=self.kind.group,
            resource=self.kind.plural,
            subresource=self.subresource,
            namespace=namespace,
            name=name,
        )

    @property
    def selected_name(self) -> str:
        names = [term.value for term in sorted(self.fields, key=str) if term.field == "metadata.name" and term.equal]
        return names[0] if names and names[0] not in ("..", "x/y") else ""

    @property
    def is_readable(self) -> bool:
        """Whether its selectors fit the kind and the path, so that it is answered at all."""
        if self.kind.namespaced and not self.namespace and (self.name or self.method == "DELETE"):
            return False
        known = {"metadata.name", "metadata.namespace"} | ({"spec.nodeName"} if self.kind.by_node else set())
        if any(term.field not in known for term in self.fields):
            return False
        if self.old_watch and self.name and self.fields:
            names = sorted(str(t) for t in self.fields if t.field == "metadata.name" and t.equal)
            return bool(names) and names[0] in (f"metadata.name={self.name}", f"metadata.name=={self.name}")
        return True

    def selects(self, key: str, obj: Object) -> bool:
        """Whether a list, a watch or a deletecollection is about this object."""
        metadata = obj["metadata"]
        if self.namespace and metadata.get("namespace") != self.namespace:
            return False
        if self.name and metadata["name"] != self.name:
            return False
        if not LABEL_SELECTORS[self.labels](metadata.get("labels") or {}):
            return False
        values = {
            "metadata.name": metadata["name"],
            "metadata.namespace": metadata.get("namespace", ""),
            "spec.nodeName": (obj.get("spec") or {}).get("nodeName", ""),
        }
        return all((values[term.field] == term.value) is term.equal for term in self.fields)

    def requires_node(self, node: str) -> bool:
        return any(term.equal and (term.field, term.value) == ("spec.nodeName", node) for term in self.fields)

    def page(self, rows: list[Row], start: str) -> list[Row]:
        """What a list from a token on shows of these rows, which are in the order of their keys."""
        scope = f"{self.namespace}/" if self.namespace else ""
        found = [row for row in rows if self.selects(*row) and row[0].removeprefix(scope) >= start]
        return found[: self.limit] if self.limit else found


GOOD_FINALIZERS = ("kubernetes", "example.com/held")
FINALIZERS = (*GOOD_FINALIZERS, "held", "not valid/at all", "example.com/")


METHODS = {
    "list": "GET", "watch": "GET", "old watch": "GET", "deletecollection": "DELETE", "get": "GET", "head": "HEAD",
    "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE",
}  # fmt: skip
"""Forms of requests. An `old watch` goes by the path `/watch/`."""

ON_COLLECTIONS = ("list", "watch", "deletecollection")
USUAL_KINDS = (SECRETS, SECRETS, PODS, LEASES, DISKS, *KINDS)
BOOLEANS = st.booleans()
ANY_TOKEN = st.one_of(st.none(), TOKENS, st.integers(0, len(NAMESPACES)))


@st.composite
def requests(draw: st.DrawFn, forms: tuple[str, ...], kinds: tuple[Kind, ...] = USUAL_KINDS) -> Request:
    form = draw(worlds.choice(*forms))
    deadly = form in ("delete", "deletecollection", "create")
    kind = draw(worlds.choice(*(kind for kind in kinds if not (deadly and kind.spared))))
    named = form not in ON_COLLECTIONS and (form != "old watch" or draw(BOOLEANS))
    subresources = kind.subresources if form in ("get", "update", "patch", "create") else ()
    subresource = draw(worlds.choice("", "", *subresources)) if named else ""
    if form == "create" and not subresource:
        named = False
    wide = ("",) if form in ("list", "watch") or (form == "old watch" and not named) else ()
    selected = form in ("list", "watch", "deletecollection", "old watch")
    watch = {"watch": ("true", "1", "yes"), "list": ("", "", "0", "false"), "get": ("", "", "true")}.get(form, ("",))
    return Request(
        kind=kind,
        method=METHODS[form],
        namespace=draw(worlds.choice(*NAMESPACES, *NAMESPACES, *wide)) if kind.namespaced else "",
        name=draw(worlds.choice(*kind.names, "absent")) if named else "",
        subresource=subresource,
        old_watch=form == "old watch",
        watch=draw(worlds.choice(*watch)),
        resume=draw(BOOLEANS),
        initial=form == "watch" and draw(BOOLEANS),
        labels=draw(worlds.choice("", "", "", *LABEL_SELECTORS)) if selected else "",
        fields=draw(selectors(kind)),
        limit=draw(worlds.choice(0, 0, 0, 1, 2)) if form in ("list", "deletecollection") else 0,
        token=draw(ANY_TOKEN) if selected else None,
        body_name=draw(worlds.choice(*kind.names)),
        body_node=draw(worlds.choice(*NODES)),
        apply=draw(BOOLEANS),
        protobuf=draw(BOOLEANS),
        finalizers=("kubernetes", draw(worlds.choice(*FINALIZERS))) if subresource == "finalize" else (),
    )
