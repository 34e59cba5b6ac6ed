"""CustomResourceDefinitions, and objects of the kinds that they define."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from localpv.api import fields, names, objects
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.api.resources import Resource
from localpv.api.schema import structural, walk
from localpv.api.schema.node import Node
from localpv.engine.apiserver.kinds import crd_checks
from localpv.engine.apiserver.kinds import workload_common as common
from localpv.engine.apiserver.kinds.base import StatusStrategy, Strategy, keep_metadata


class CustomResourceDefinition(StatusStrategy):
    unconditional_update = False

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        given = spec.setdefault("names", {})
        if not given.get("singular"):
            given["singular"] = given.get("kind", "").lower()
        if not given.get("listKind") and given.get("kind"):
            given["listKind"] = given["kind"] + "List"
        if "conversion" not in spec:
            spec["conversion"] = {"strategy": "None"}
        if not spec.get("preserveUnknownFields"):
            spec.pop("preserveUnknownFields", None)

    def prepare_for_create(self, obj: Object) -> None:
        storage = storage_version(obj)
        obj["status"] = {"acceptedNames": {"plural": "", "kind": ""}, "storedVersions": [storage] if storage else []}

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        super().prepare_for_update(obj, old)
        storage = storage_version(obj)
        stored = obj["status"].get("storedVersions", [])
        if storage and storage not in stored:
            obj["status"] = {**obj["status"], "storedVersions": [*stored, storage]}

    def validate(self, obj: Object) -> FieldErrors:
        errors = crd_checks.wrong_spec(obj["spec"])
        errors += crd_checks.wrong_names(obj["status"].get("acceptedNames", {}), "status.acceptedNames")
        return errors + crd_checks.wrong_stored_versions(obj)

    def validate_create(self, obj: Object) -> FieldErrors:
        return crd_checks.wrong_name(obj) + crd_checks.wrong_approval(obj, None)

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        established = is_established(old)
        return crd_checks.wrong_changes(obj, old, established=established) + crd_checks.wrong_approval(obj, old)

    def validate_status_update(self, obj: Object, old: Object) -> FieldErrors:
        return crd_checks.wrong_names(obj.get("status", {}).get("acceptedNames", {}), "status.acceptedNames")

    def validate_name(self, name: str) -> list[str]:
        return names.dns_subdomain(name)


def storage_version(crd: Object) -> str:
    """The version in which objects are stored; a valid definition has exactly one."""
    return next(
        (str(version.get("name", "")) for version in crd["spec"].get("versions", ()) if version.get("storage")), ""
    )


def version_of(crd: Object, name: str) -> Object | None:
    """The entry of spec.versions with this name."""
    return next((version for version in crd["spec"].get("versions", ()) if version.get("name") == name), None)


def is_established(crd: Object) -> bool:
    """Once established a kind stays served, also when it later asks for names that others have."""
    return _is_true(crd, "Established")


def established(crd: Object, *, others: Iterable[Object] = (), now: str = "") -> Object:
    """The status of a definition after it was created or changed: accepted names, and the two conditions.

    `others` are the other definitions; those of the same group may hold a name that this one asks for. Only the
    status is returned; the server stores it, and looks again at those not yet accepted when one of them goes.
    """
    asked, status = crd["spec"]["names"], dict(crd.get("status", {}))
    held = status.get("acceptedNames", {})
    resources, kinds = _taken(crd, others)
    accepted = {key: value for key, value in held.items() if value}
    conflict: tuple[str, str] | None = None
    for key, taken, reason in (
        ("plural", resources, "PluralConflict"),
        ("singular", resources, "SingularConflict"),
        ("shortNames", resources, "ShortNamesConflict"),
        ("kind", kinds, "KindConflict"),
        ("listKind", kinds, "ListKindConflict"),
    ):
        value, before = asked.get(key), held.get(key)
        new = [name for name in value or () if name not in (before or ())] if key == "shortNames" else [value]
        clash = [name for name in new if name in taken and value != before]
        if clash:
            conflict = reason, ", ".join(f'"{name}" is already in use' for name in clash)
        elif value:
            accepted[key] = value
        else:
            accepted.pop(key, None)
    accepted.pop("categories", None)
    if asked.get("categories"):
        accepted["categories"] = asked["categories"]
    status["acceptedNames"] = {"plural": "", "kind": ""} | accepted
    status["conditions"] = _conditions(crd, conflict, now or objects.now())
    status.setdefault("storedVersions", [storage_version(crd)])
    return status


def _taken(crd: Object, others: Iterable[Object]) -> tuple[set[str], set[str]]:
    """Names that other definitions of the group have: those in addresses, and those of kinds."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if other["metadata"]["name"] == crd["metadata"]["name"] or other["spec"]["group"] != crd["spec"]["group"]:
            continue
        names_held = other.get("status", {}).get("acceptedNames", {})
        resources.update(
            (names_held.get("plural", ""), names_held.get("singular", ""), *names_held.get("shortNames", ()))
        )
        kinds.update((names_held.get("kind", ""), names_held.get("listKind", "")))
    return resources - {""}, kinds - {""}


def _conditions(crd: Object, conflict: tuple[str, str] | None, now: str) -> list[Object]:
    """The given conditions with NamesAccepted and Established brought up to date."""
    if conflict is None:
        accepted = ("True", "NoConflicts", "no conflicts found")
        serving = ("True", "InitialNamesAccepted", "the initial names have been accepted")
    else:
        accepted = ("False", *conflict)
        serving = ("False", "NotAccepted", "not all names are accepted")
    conditions = [dict(condition) for condition in crd.get("status", {}).get("conditions") or ()]
    _set_condition(conditions, "NamesAccepted", accepted, now)
    if not is_established(crd):
        _set_condition(conditions, "Established", serving, now)
    return conditions


def _set_condition(conditions: list[Object], kind: str, value: tuple[str, str, str], now: str) -> None:
    status, reason, message = value
    present = next((condition for condition in conditions if condition.get("type") == kind), None)
    if present is None:
        present = {"type": kind, "status": "", "lastTransitionTime": ""}
        conditions.append(present)
    if present.get("status") != status:
        present["status"], present["lastTransitionTime"] = status, now
    present["reason"], present["message"] = reason, message


def _is_true(crd: Object, kind: str) -> bool:
    return any(
        condition.get("type") == kind and condition.get("status") == "True"
        for condition in crd.get("status", {}).get("conditions") or ()
    )


def resources_of(crd: Object) -> list[Resource]:
    """What is served because of an established definition: one resource per served version.

    All versions are stored under one key, in the storage version's form; without webhooks a conversion changes
    nothing but the apiVersion.
    """
    if not is_established(crd):
        return []
    spec = crd["spec"]
    held = crd["status"]["acceptedNames"]
    return [
        Resource(
            group=spec["group"],
            version=version["name"],
            kind=held["kind"],
            plural=held["plural"],
            singular=held.get("singular", ""),
            namespaced=spec["scope"] == "Namespaced",
            schema=schema_name(spec["group"], version["name"], held["kind"]),
            short_names=tuple(held.get("shortNames", ())),
            categories=tuple(held.get("categories", ())),
            subresources=tuple(
                key for key in ("status", "scale") if version.get("subresources", {}).get(key) is not None
            ),
            list_kind=held.get("listKind", ""),
            custom=True,
            selectable_fields=tuple(
                field["jsonPath"].removeprefix(".") for field in version.get("selectableFields", ())
            ),
        )
        for version in spec["versions"]
        if version.get("served")
    ]


def schema_name(group: str, version: str, kind: str) -> str:
    """The name of a custom kind in OpenAPI: the group backwards, the version, the kind."""
    return ".".join([*reversed(group.split(".")), version, kind])


_MAX_REPLICAS = 2**31 - 1


class CustomStrategy(Strategy):
    """How one version of a custom kind takes part in create and update."""

    unconditional_update = False

    def __init__(self, resource: Resource, version_spec: Object, *, node: Node | None = None) -> None:
        """`version_spec` is the version's entry in spec.versions; `node` is its schema where it is already built."""
        self.node = node or structural.build(version_spec["schema"]["openAPIV3Schema"])
        """The schema, as the walk understands it."""
        self._status_node = self.node.fields.get("status")
        subresources = version_spec.get("subresources", {})
        self._has_status = subresources.get("status") is not None
        self.generation_counts_status = not self._has_status
        self.scale = scale_paths(version_spec)
        """Where the scale subresource finds its numbers; None for kinds without one."""
        self._selectable = [(path, path.split(".")) for path in resource.selectable_fields]

    def default(self, obj: Object) -> None:
        walk.apply_defaults(obj, self.node)

    def prepare_for_create(self, obj: Object) -> None:
        if self._has_status:
            obj.pop("status", None)

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        if self._has_status:
            obj.pop("status", None)
            if "status" in old:
                obj["status"] = old["status"]

    def prepare_for_status_update(self, obj: Object, old: Object) -> None:
        super().prepare_for_status_update(obj, old)
        keep_metadata(obj, old)

    def validate(self, obj: Object) -> FieldErrors:
        errors = walk.check_values(obj, self.node)
        if self.scale is not None:
            errors += _wrong_count(obj, self.scale.spec)
            errors += self._wrong_scale_status(obj)
        return errors

    def validate_status_update(self, obj: Object, old: Object) -> FieldErrors:
        errors: FieldErrors = []
        if self._status_node is not None and "status" in obj:
            errors += walk.check_values(obj["status"], self._status_node, "status")
        return errors + self._wrong_scale_status(obj)

    def _wrong_scale_status(self, obj: Object) -> FieldErrors:
        if self.scale is None:
            return []
        errors = _wrong_count(obj, self.scale.status)
        if self.scale.selector:
            text = common.value_at(obj, self.scale.selector)
            if text is not None and not isinstance(text, str):
                errors.append(fields.invalid(self.scale.selector, text, "must be a selector written as text"))
        return errors

    def selectable(self, obj: Object) -> dict[str, str]:
        return {name: _text(obj, way) for name, way in self._selectable}

    def warnings(self, obj: Object) -> list[str]:
        found = []
        for finalizer in obj["metadata"].get("finalizers", ()):
            where = f'metadata.finalizers: "{finalizer}"'
            found += [f"{where}: {problem}" for problem in names.qualified_name(finalizer)]
            if "/" not in finalizer and finalizer not in names.STANDARD_FINALIZERS:
                found.append(f"{where}: a domain and a slash in front would keep it apart from those of others")
        return found


class BroughtUpToDate:
    """Makes an object that was stored under another schema one of that which its version has now: what is unknown now
    is gone, what has a default now is there. Values that are wrong by now stay; whoever writes them again is refused.

    It is the version in which the object was stored that counts: what only that one knows must not vanish because
    another one is stored from now on. A version that is no more is read as the storage version."""

    def __init__(self, versions: Sequence[Object], storage: str) -> None:
        """`versions` are the entries of spec.versions."""
        self._specs = {version["name"]: version for version in versions}
        self._storage = storage
        self._nodes: dict[str, Node] = {}

    def __call__(self, obj: Object) -> Object:
        version = obj["apiVersion"].rpartition("/")[2]
        if version not in self._specs:
            version = self._storage
        node = self._nodes.get(version)
        if node is None:
            node = self._nodes[version] = structural.build(self._specs[version]["schema"]["openAPIV3Schema"])
        walk.take_in(obj, node)
        walk.apply_defaults(obj, node)
        return obj


def scale_paths(version_spec: Object) -> common.ScalePaths | None:
    scale = version_spec.get("subresources", {}).get("scale")
    if scale is None:
        return None
    return common.ScalePaths(
        spec=scale["specReplicasPath"],
        status=scale["statusReplicasPath"],
        selector=scale.get("labelSelectorPath", ""),
    )


def _wrong_count(obj: Object, path: str) -> FieldErrors:
    number = common.value_at(obj, path)
    if number is None:
        return []
    if not isinstance(number, int) or isinstance(number, bool):
        return [fields.invalid(path, number, "must be an integer")]
    if not 0 <= number <= _MAX_REPLICAS:
        return [fields.invalid(path, number, f"must be between 0 and {_MAX_REPLICAS}")]
    return []


def _text(obj: Object, way: list[str]) -> str:
    value: Any = obj
    for key in way:
        if not isinstance(value, dict):
            return ""
        value = value.get(key)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
