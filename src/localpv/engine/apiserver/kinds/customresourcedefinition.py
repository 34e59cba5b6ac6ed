"""CustomResourceDefinitions: the strategy, the status that the server works out, and the resources that come of it."""

from __future__ import annotations

from collections.abc import Iterable

from localpv.api import names, objects
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.api.resources import Resource
from localpv.engine.apiserver.kinds import crd_checks
from localpv.engine.apiserver.kinds.base import StatusStrategy


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
