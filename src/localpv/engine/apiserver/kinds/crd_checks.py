"""Whether a CustomResourceDefinition is right, and may change the way it did.

Where every version says the same, errors are reported at the field that older versions of the API had for it at the
top of the spec (`spec.validation`, `spec.subresources`, ...), as Kubernetes does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from localpv.api import fields, names
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.api.schema import structural
from localpv.api.stored_resources import EVERY
from localpv.engine.apiserver.kinds import rules
from localpv.engine.apiserver.kinds import workload_common as common
from localpv.engine.apiserver.kinds.rules import Field

_APPROVAL = "api-approved.kubernetes.io"
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_AT_ROOT_WITH_STATUS = frozenset(
    {
        "description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum",
        "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "required", "items",
        "properties", "externalDocs", "example", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
    }
)  # fmt: skip
_OUR_OWN = frozenset(f"{resource.plural}.{resource.group}" for resource in EVERY if resource.group)
"""With a definition of the same name their objects would be stored, and deleted, in one place."""

_MAX_SELECTABLE = 8
_MAX_WARNING = 256


def wrong_name(crd: Object) -> FieldErrors:
    spec, name = crd["spec"], crd["metadata"].get("name", "")
    expected = f"{spec['names'].get('plural', '')}.{spec.get('group', '')}"
    if name in _OUR_OWN:
        return [fields.invalid("metadata.name", name, "is a kind that this server has itself")]
    if name == expected:
        return []
    return [fields.invalid("metadata.name", name, f"must be the plural name, a dot and the group: {expected}")]


def wrong_approval(crd: Object, old: Object | None) -> FieldErrors:
    """Groups of Kubernetes itself need a sign that somebody there agreed."""
    group = crd["spec"].get("group", "")
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return []
    text = _approval(crd)
    path = f"metadata.annotations[{_APPROVAL}]"
    if old is not None and _is_approval(_approval(old)) == _is_approval(text) and bool(_approval(old)) == bool(text):
        return []
    if not text:
        return [fields.required(path, "the group belongs to Kubernetes; name the approval, or say 'unapproved, ...'")]
    if not _is_approval(text):
        return [fields.invalid(path, text, "must be a URL, or start with 'unapproved'")]
    return []


def _approval(crd: Object) -> str:
    return str((crd["metadata"].get("annotations") or {}).get(_APPROVAL, ""))


def _is_approval(text: str) -> bool:
    if text.startswith("unapproved"):
        return True
    try:
        address = urlsplit(text)
    except ValueError:
        return False
    return bool(address.scheme and address.netloc)


def wrong_stored_versions(crd: Object) -> FieldErrors:
    path, stored = "status.storedVersions", crd["status"].get("storedVersions", [])
    if not stored:
        return [fields.invalid(path, stored, "there must be at least one")]
    known = {version.get("name"): version.get("storage") for version in crd["spec"].get("versions", ())}
    errors = [
        fields.invalid(path, stored, f"the storage version {name} is missing")
        for name, storage in known.items()
        if storage and name not in stored
    ]
    errors += [
        fields.invalid(
            f"{path}[{index}]",
            name,
            "objects may still be stored in this version, so it must stay in spec.versions;"
            " rewrite them all and take it out of status.storedVersions first",
        )
        for index, name in enumerate(stored)
        if name not in known
    ]
    return errors


_SCOPE = (Field("scope", required=True, enum=("Cluster", "Namespaced")),)
_NAMES = tuple(Field(key, required=True) for key in ("plural", "singular", "kind", "listKind"))


def wrong_changes(crd: Object, old: Object, *, established: bool) -> FieldErrors:
    spec, before = crd["spec"], old["spec"]
    errors: FieldErrors = []
    if established:
        errors += common.unchanged(spec, before, "spec", "scope")
        errors += common.unchanged(spec["names"], before["names"], "spec.names", "kind")
    errors += common.unchanged(spec, before, "spec", "group")
    return errors + common.unchanged(spec["names"], before["names"], "spec.names", "plural")


def wrong_spec(spec: Object) -> FieldErrors:
    errors: FieldErrors = []
    group = spec.get("group", "")
    if not group:
        errors.append(fields.required("spec.group"))
    elif problems := names.dns_subdomain(group):
        errors.append(fields.invalid("spec.group", group, ", ".join(problems)))
    elif "." not in group:
        errors.append(fields.invalid("spec.group", group, "must be a domain, with at least one dot"))
    errors += rules.errors(_SCOPE, spec, "spec")
    if spec.get("preserveUnknownFields"):
        why = "is no longer possible; use x-kubernetes-preserve-unknown-fields in the schema"
        errors.append(fields.invalid("spec.preserveUnknownFields", True, why))
    errors += _wrong_versions(spec.get("versions", []))
    errors += rules.errors(_NAMES, spec["names"], "spec.names")
    errors += wrong_names(spec["names"], "spec.names")
    return errors + _wrong_conversion(spec["conversion"])


def wrong_names(given: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    for key in ("plural", "singular"):
        errors += _wrong_label(given.get(key, ""), f"{path}.{key}")
    for key in ("kind", "listKind"):
        name = given.get(key, "")
        if name and (problems := names.dns1035_label(name.lower())):
            errors.append(fields.invalid(f"{path}.{key}", name, "apart from capital letters: " + ", ".join(problems)))
    if given.get("kind") and given["kind"] == given.get("listKind"):
        errors.append(fields.invalid(f"{path}.listKind", given["listKind"], "must not be the same as kind"))
    for key in ("shortNames", "categories"):
        for index, name in enumerate(given.get(key, ())):
            errors += _wrong_label(name, f"{path}.{key}[{index}]", needed=True)
    return errors


def _wrong_label(name: str, path: str, *, needed: bool = False) -> FieldErrors:
    if not name and not needed:
        return []
    problems = names.dns1035_label(name)
    return [fields.invalid(path, name, ", ".join(problems))] if problems else []


def _wrong_conversion(conversion: Object) -> FieldErrors:
    strategy = conversion.get("strategy", "")
    if not strategy:
        return [fields.required("spec.conversion.strategy")]
    if strategy == "Webhook":
        why = "conversion webhooks are not supported here; use None, and versions that differ only in their name"
        return [fields.invalid("spec.conversion.strategy", strategy, why)]
    if strategy != "None":
        return [fields.not_supported("spec.conversion.strategy", strategy, ("None",))]
    if "webhook" in conversion:
        return [fields.forbidden("spec.conversion.webhookClientConfig", "does not belong to strategy None")]
    return []


def _wrong_versions(versions: list[Object]) -> FieldErrors:
    errors: FieldErrors = []
    for index, version in enumerate(versions):
        path, name = f"spec.versions[{index}]", version.get("name", "")
        if problems := names.dns1035_label(name):
            errors.append(fields.invalid(f"{path}.name", name, ", ".join(problems)))
            if index == 0:
                # The first name is also the only one of older API versions, which is judged as well.
                errors.append(fields.invalid("spec.version", name, ", ".join(problems)))
        errors += _wrong_warning(version, f"{path}.deprecationWarning")
    found = [version.get("name") for version in versions]
    if len(set(found)) != len(found):
        errors.append(fields.invalid("spec.versions", found, "each name may appear only once"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        errors.append(fields.invalid("spec.versions", found, "exactly one must be the storage version"))
    errors += [
        fields.required(f"spec.versions[{index}].schema.openAPIV3Schema")
        for index, version in enumerate(versions)
        if version.get("schema", {}).get("openAPIV3Schema") is None
    ]
    errors += _per_version(versions, "schema", "validation", _wrong_schema)
    errors += _per_version(versions, "subresources", "subresources", _wrong_subresources)
    errors += _per_version(versions, "additionalPrinterColumns", "additionalPrinterColumns", _wrong_columns)
    return errors + _per_version(versions, "selectableFields", "selectableFields", _wrong_selectable)


def _per_version(
    versions: list[Object], key: str, shared: str, check: Callable[[Object, str], FieldErrors]
) -> FieldErrors:
    """Check each version, or only the first and under the shared name where all say the same."""
    if versions and all(version.get(key) == versions[0].get(key) for version in versions):
        return check(versions[0], f"spec.{shared}")
    return [
        error for index, version in enumerate(versions) for error in check(version, f"spec.versions[{index}].{key}")
    ]


def _wrong_warning(version: Object, path: str) -> FieldErrors:
    text = version.get("deprecationWarning")
    if text is None:
        return []
    if not version.get("deprecated"):
        return [fields.invalid(path, text, "only a deprecated version has one")]
    errors = []
    if len(text.encode()) > _MAX_WARNING:
        errors.append(fields.invalid(path, text, f"may have at most {_MAX_WARNING} characters"))
    if not text:
        errors.append(fields.invalid(path, text, "must not be empty"))
    if not text.isprintable():
        errors.append(fields.invalid(path, text, "must have printable characters only"))
    return errors


def _wrong_schema(version: Object, path: str) -> FieldErrors:
    schema = version.get("schema", {}).get("openAPIV3Schema")
    if schema is None:
        return []
    errors: FieldErrors = []
    if version.get("subresources", {}).get("status") is not None:
        extra = [key for key, value in schema.items() if value and key not in _AT_ROOT_WITH_STATUS]
        if extra:
            # The status is validated apart from the rest, so a rule for the whole object would be lost on it.
            why = f"with the status subresource this cannot stand at the root: {', '.join(extra)}"
            errors.append(fields.invalid(f"{path}.openAPIV3Schema", extra, why))
    return errors + structural.validate_schema(schema, f"{path}.openAPIV3Schema")


def _wrong_subresources(version: Object, path: str) -> FieldErrors:
    scale = version.get("subresources", {}).get("scale")
    if scale is None:
        return []
    errors: FieldErrors = []
    for key, roots in (
        ("specReplicasPath", (".spec.",)),
        ("statusReplicasPath", (".status.",)),
        ("labelSelectorPath", (".spec.", ".status.")),
    ):
        value = scale.get(key, "")
        if not value:
            if key != "labelSelectorPath":
                errors.append(fields.required(f"{path}.scale.{key}"))
        elif not value.startswith("."):
            errors.append(fields.invalid(f"{path}.scale.{key}", value, "must be a path that starts with a dot"))
        elif not value.startswith(roots):
            errors.append(fields.invalid(f"{path}.scale.{key}", value, f"must lie under {' or '.join(roots)}"))
    return errors


def _wrong_columns(version: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    for index, column in enumerate(version.get("additionalPrinterColumns", ())):
        where = f"{path}[{index}]"
        if not column.get("name"):
            errors.append(fields.required(f"{where}.name"))
        kind, form, source = column.get("type", ""), column.get("format", ""), column.get("jsonPath", "")
        types = f"one of {', '.join(_COLUMN_TYPES)}"
        if not kind:
            errors.append(fields.required(f"{where}.type", types))
        elif kind not in _COLUMN_TYPES:
            errors.append(fields.invalid(f"{where}.type", kind, types))
        if form and form not in _COLUMN_FORMATS:
            errors.append(fields.invalid(f"{where}.format", form, f"one of {', '.join(_COLUMN_FORMATS)}"))
        # The spelling is part of the API's answer.
        if not source:
            errors.append(fields.required(f"{where}.JSONPath"))
        elif not source.startswith("."):
            errors.append(fields.invalid(f"{where}.JSONPath", source, "must be a path that starts with a dot"))
    return errors


def _wrong_selectable(version: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    schema = version.get("schema", {}).get("openAPIV3Schema", {})
    seen: set[str] = set()
    for index, field in enumerate(version.get("selectableFields", ())):
        where, source = f"{path}[{index}].jsonPath", field.get("jsonPath", "")
        if not source:
            errors.append(fields.required(where))
            continue
        found = _schema_at(schema, source)
        if found is None:
            errors.append(fields.invalid(where, source, "the schema has no such field"))
            continue
        if source.startswith(".metadata.") or source == ".metadata":
            errors.append(fields.invalid(where, source, "fields of metadata have their own selectors"))
        if found.get("type") not in ("string", "boolean", "integer"):
            errors.append(fields.invalid(where, source, "only a string, boolean or integer can be selected by"))
        if source in seen:
            errors.append(fields.duplicate(where, source))
        seen.add(source)
    if len(seen) > _MAX_SELECTABLE:
        errors.append(fields.too_many(path, len(seen), _MAX_SELECTABLE))
    return errors


def _schema_at(schema: Object, path: str) -> Object | None:
    """The schema of the field that a dotted path names; None when there is none."""
    if not path.startswith(".") or "[" in path:
        return None
    place: Any = schema
    for key in path[1:].split("."):
        if properties := place.get("properties"):
            place = properties.get(key)
        else:
            place = place.get("additionalProperties")
        if not isinstance(place, dict):
            return None
    return dict(place)
