"""What can be done with a resource, by path and HTTP method, with which parameters and definitions.

Not yet in the words of any OpenAPI version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from localpv.api import media_types
from localpv.api.resources import Resource
from localpv.engine.apiserver import discovery


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: str
    description: str
    place: str = "query"

    @property
    def required(self) -> bool:
        return self.place == "path"


def _table(*parameters: Parameter) -> dict[str, Parameter]:
    return {parameter.name: parameter for parameter in parameters}


KNOWN = _table(
    Parameter("name", "string", "Name of the object.", "path"),
    Parameter("namespace", "string", "Namespace that the object belongs to.", "path"),
    Parameter("pretty", "string", "Set to true for indented output."),
    Parameter("dryRun", "string", "All: go through every check, answer as usual, and store nothing."),
    Parameter("fieldManager", "string", "Name under which the changed fields are recorded in metadata.managedFields."),
    Parameter(
        "fieldValidation",
        "string",
        "What to do about unknown and repeated fields: Strict refuses the request, Warn (the default) answers with a"
        " warning, Ignore says nothing.",
    ),
    Parameter("force", "boolean", "Server-side apply only: take over fields that another manager owns."),
    Parameter("labelSelector", "string", "Only objects whose labels match."),
    Parameter("fieldSelector", "string", "Only objects whose selectable fields match."),
    Parameter("limit", "integer", "At most this many objects in one answer; the rest follows with continue."),
    Parameter("continue", "string", "The token from the previous page of a limited list."),
    Parameter("resourceVersion", "string", "How new the answer must be, or where a watch begins."),
    Parameter("resourceVersionMatch", "string", "Exact or NotOlderThan: how resourceVersion is meant in a list."),
    Parameter("sendInitialEvents", "boolean", "Begin a watch with the objects that exist, then a bookmark."),
    Parameter("allowWatchBookmarks", "boolean", "Allow events that only tell how far a watch has come."),
    Parameter("timeoutSeconds", "integer", "End the request after this time."),
    Parameter("watch", "boolean", "Stream changes instead of answering with a list."),
    Parameter("gracePeriodSeconds", "integer", "Time an object gets to end by itself; 0 deletes it at once."),
    Parameter("orphanDependents", "boolean", "The older form of propagationPolicy: true means Orphan."),
    Parameter(
        "propagationPolicy",
        "string",
        "What happens to objects that this one owns: Background, Foreground or Orphan.",
    ),
)

ON_WRITE = ("dryRun", "fieldManager", "fieldValidation")
ON_PATCH = (*ON_WRITE, "force")
ON_DELETE = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
ON_LIST = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
)
ON_DELETE_COLLECTION = tuple(sorted({*ON_LIST, *ON_DELETE} - {"allowWatchBookmarks", "watch"}))


META = "io.k8s.apimachinery.pkg.apis.meta.v1"
STATUS = f"{META}.Status"
DELETE_OPTIONS = f"{META}.DeleteOptions"
PATCH = f"{META}.Patch"


_DELETE_RETURNS_THE_OBJECT = frozenset(
    {
        "csidrivers.storage.k8s.io",
        "csinodes.storage.k8s.io",
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "serviceaccounts",
        "services",
        "storageclasses.storage.k8s.io",
        "volumeattachments.storage.k8s.io",
    }
)
"""The others answer a deletion with a Status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    method: str
    action: str
    """The value of x-kubernetes-action."""

    id: str
    description: str
    gvk: tuple[str, str, str]
    parameters: tuple[str, ...] = ()
    consumes: tuple[str, ...] = ("*/*",)
    body: str = ""
    """Definition of what is sent, if anything is."""

    body_required: bool = True
    returns: str
    codes: tuple[int, ...] = (200,)
    streams: bool = False
    """The answer may be a watch."""

    tag: str


@dataclass(frozen=True, slots=True)
class Path:
    path: str
    parameters: tuple[str, ...]
    operations: list[Operation] = field(default_factory=list)


def list_definition(resource: Resource) -> str:
    """`io.k8s.api.core.v1.PodList` for `io.k8s.api.core.v1.Pod`."""
    package, _, kind = definition(resource).rpartition(".")
    return f"{package}.{resource.list_kind or f'{kind}List'}"


def definition(resource: Resource) -> str:
    """Name of the definition: of custom kinds the group backwards, `dev.localpv.v1alpha1.LocalDisk`."""
    if not resource.custom and resource.schema:
        return resource.schema
    return ".".join((*reversed(resource.group.split(".")), resource.version, resource.kind))


def _camel(words: str) -> str:
    """`rbac.authorization` becomes RbacAuthorization."""
    return "".join(word[:1].upper() + word[1:] for word in words.replace("-", ".").split("."))


_STREAMS = ("log", "exec")
"""Subresources that carry no objects, so that there is no schema to describe them with."""


class _Writer:
    """Writes the operations of one resource; keeps what they have in common."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.gvk = (resource.group, resource.version, resource.kind)
        group = _camel(resource.group.removesuffix(".k8s.io") or "core")
        self.tag = f"{group[:1].lower()}{group[1:]}_{resource.version}"
        self.api = group + _camel(resource.version)
        self.scope = "Namespaced" if resource.namespaced else ""
        self.consumes_patch: tuple[str, ...] = (
            media_types.JSON_PATCH,
            media_types.MERGE_PATCH,
            media_types.STRATEGIC_MERGE_PATCH,
            media_types.APPLY_PATCH,
        )
        if resource.custom:
            self.consumes_patch = (media_types.JSON_PATCH, media_types.MERGE_PATCH, media_types.APPLY_PATCH)

    def id(self, word: str, *, before: str = "", after: str = "") -> str:
        return f"{word}{self.api}{before}{self.scope}{self.resource.kind}{after}"

    def list(self, *, everywhere: bool = False) -> Operation:
        kind = self.resource.kind
        return Operation(
            method="get",
            action="list",
            id=f"list{self.api}{kind}ForAllNamespaces" if everywhere else self.id("list"),
            description=f"List {kind} objects, or watch them{' in all namespaces' if everywhere else ''}.",
            gvk=self.gvk,
            parameters=ON_LIST,
            returns=list_definition(self.resource),
            streams=True,
            tag=self.tag,
        )

    def create(self) -> Operation:
        name = definition(self.resource)
        return self._write(
            "post", "create", "post", f"Create a {self.resource.kind}.", body=name, codes=(200, 201, 202)
        )

    def delete_collection(self) -> Operation:
        return Operation(
            method="delete",
            action="deletecollection",
            id=self.id("delete", before="Collection"),
            description=f"Delete all {self.resource.kind} objects that the selectors choose.",
            gvk=self.gvk,
            parameters=ON_DELETE_COLLECTION,
            body=DELETE_OPTIONS,
            body_required=False,
            returns=STATUS,
            tag=self.tag,
        )

    def delete(self) -> Operation:
        return Operation(
            method="delete",
            action="delete",
            id=self.id("delete"),
            description=f"Delete a {self.resource.kind}.",
            gvk=self.gvk,
            parameters=ON_DELETE,
            body=DELETE_OPTIONS,
            body_required=False,
            returns=definition(self.resource) if self.resource.qualified in _DELETE_RETURNS_THE_OBJECT else STATUS,
            codes=(200, 202),
            tag=self.tag,
        )

    def on_item(self, verb: str, sub: str = "") -> Operation:
        """get, update, patch, or create of one object or of its subresource."""
        what = f"{sub} of a {self.resource.kind}" if sub else f"a {self.resource.kind}"
        known = discovery.subresource(self.resource, sub) if sub else None
        name = known.schema if known and known.schema else definition(self.resource)
        if self.resource.custom and not (known and known.group == "autoscaling"):
            name = definition(self.resource)
        gvk = (known.group, known.version, known.kind) if known else self.gvk
        match verb:
            case "get":
                return self._write("get", "read", "get", f"Read {what}.", returns=name, sub=sub, gvk=gvk)
            case "update":
                return self._write(
                    "put", "replace", "put", f"Replace {what}.", body=name, sub=sub, gvk=gvk, codes=(200, 201)
                )
            case "patch":
                text = f"Change parts of {what}."
                return self._write(
                    "patch", "patch", "patch", text, body=PATCH, returns=name, sub=sub, gvk=gvk, codes=(200, 201)
                )
            case _:
                return self._write(
                    "post", "create", "post", f"Create {what}.", body=name, sub=sub, gvk=gvk, codes=(200, 201, 202)
                )

    def _write(
        self,
        method: str,
        word: str,
        action: str,
        description: str,
        *,
        body: str = "",
        returns: str = "",
        sub: str = "",
        gvk: tuple[str, str, str] | None = None,
        codes: tuple[int, ...] = (200,),
    ) -> Operation:
        return Operation(
            method=method,
            action=action,
            id=self.id(word, after=sub[:1].upper() + sub[1:]),
            description=description,
            gvk=gvk or self.gvk,
            parameters={"get": (), "patch": ON_PATCH}.get(method, ON_WRITE),
            consumes=self.consumes_patch if method == "patch" else ("*/*",),
            body=body,
            returns=returns or body,
            codes=codes,
            tag=self.tag,
        )


def of(resource: Resource) -> Iterator[Path]:
    """Every path of one resource."""
    writer = _Writer(resource)
    verbs = resource.verbs
    inside = "/namespaces/{namespace}" if resource.namespaced else ""
    common = ("namespace", "pretty") if resource.namespaced else ("pretty",)

    if resource.namespaced and "list" in verbs:
        yield Path(f"{resource.path}/{resource.plural}", ("pretty",), [writer.list(everywhere=True)])

    collection = Path(f"{resource.path}{inside}/{resource.plural}", common)
    if "list" in verbs:
        collection.operations.append(writer.list())
    if "create" in verbs:
        collection.operations.append(writer.create())
    if "deletecollection" in verbs:
        collection.operations.append(writer.delete_collection())
    if collection.operations:
        yield collection

    item = Path(f"{collection.path}/{{name}}", ("name", *common))
    item.operations.extend(writer.on_item(verb) for verb in ("get", "update", "patch") if verb in verbs)
    if "delete" in verbs:
        item.operations.append(writer.delete())
    if item.operations:
        yield item

    for sub in resource.subresources:
        if sub in _STREAMS:
            continue
        here = discovery.subresource(resource, sub)
        yield Path(f"{item.path}/{sub}", item.parameters, [writer.on_item(verb, sub) for verb in here.verbs])


Schema = dict[str, Any]
Find = Callable[[str], Schema]
"""A definition by its name, in the form of one OpenAPI version. The caller may change what it gets."""


class Catalogue(Protocol):
    """The built-in definitions, as `localpv.api.schema.catalogue` has them."""

    def openapi(self, name: str) -> Schema: ...


def named_by(paths: Iterable[Path]) -> set[str]:
    """Definitions that operations take or return."""
    found = {name for path in paths for operation in path.operations for name in (operation.body, operation.returns)}
    return found - {""}


def closure(roots: Iterable[str], find: Find) -> Iterator[tuple[str, Schema]]:
    """The roots and everything they refer to, sorted by name."""
    found: dict[str, Schema] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = schema = find(name)
            waiting.extend(_references(schema))
    for name in sorted(found):
        yield name, found.pop(name)


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        target = value.get("$ref")
        # The schema of schemas has a property of this name, which is no reference.
        if isinstance(target, str):
            yield target.rpartition("/")[2]
        for child in value.values():
            yield from _references(child)
    elif isinstance(value, list):
        for child in value:
            yield from _references(child)
