"""Configurations of admission webhooks: stored and checked for form. None is ever called, and writers are told so."""

from __future__ import annotations

import urllib.parse

from localpv.api import fields, names, selectors
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import admissionpolicy, rules
from localpv.engine.apiserver.kinds.base import Strategy
from localpv.engine.apiserver.kinds.rules import Field

_REVIEWS = ("v1", "v1beta1")
"""Versions of AdmissionReview that Kubernetes speaks."""

_PORT_RANGE = "port is not valid: must be between 1 and 65535, inclusive"
_MATCH = (admissionpolicy.FAILURE_POLICY, admissionpolicy.MATCH_POLICY)
_HOOK = (
    Field("sideEffects", enum=("None", "NoneOnDryRun")),
    Field("timeoutSeconds", least=1, most=30, said="the timeout value must be between 1 and 30 seconds"),
)
_MUTATING_HOOK = (Field("reinvocationPolicy", enum=("IfNeeded", "Never")),)
_SERVICE = (
    Field("name", required=True),
    Field("namespace", required=True),
    Field("port", least=1, most=65535, said=_PORT_RANGE),
)


class ValidatingWebhookConfiguration(Strategy):
    unconditional_update = False

    def default(self, obj: Object) -> None:
        for hook in obj.get("webhooks") or ():
            self.default_hook(hook)

    def default_hook(self, hook: Object) -> None:
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("matchPolicy", "Equivalent")
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        hook.setdefault("timeoutSeconds", 10)
        for rule in hook.get("rules") or ():
            rule.setdefault("scope", "*")
        service = hook.get("clientConfig", {}).get("service")
        if service is not None:
            service.setdefault("port", 443)

    def validate(self, obj: Object) -> FieldErrors:
        hooks = obj.get("webhooks") or []
        errors: FieldErrors = []
        twice = fields.repeated(hook.get("name", "") for hook in hooks)
        for index, hook in enumerate(hooks):
            path = f"webhooks[{index}]"
            errors += self.wrong_hook(hook, path)
            if index in twice and hook.get("name"):
                errors.append(fields.duplicate(f"{path}.name", hook["name"]))
        return errors

    def wrong_hook(self, hook: Object, path: str) -> FieldErrors:
        errors = _wrong_name(hook.get("name", ""), f"{path}.name")
        for index, rule in enumerate(hook.get("rules") or ()):
            errors += admissionpolicy.wrong_rule(rule, f"{path}.rules[{index}]")
        errors += rules.errors(_MATCH, hook, path)
        if hook.get("sideEffects") is None:
            errors.append(fields.required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun"))
        errors += rules.errors(_HOOK, hook, path)
        for key in ("namespaceSelector", "objectSelector"):
            errors += selectors.validate(hook[key], f"{path}.{key}")
        errors += _wrong_client(hook.get("clientConfig", {}), f"{path}.clientConfig")
        errors += admissionpolicy.wrong_conditions(hook.get("matchConditions", ()), f"{path}.matchConditions")
        return errors + _wrong_versions(hook.get("admissionReviewVersions", ()), f"{path}.admissionReviewVersions")

    def warnings(self, obj: Object) -> list[str]:
        if not obj.get("webhooks"):
            return []
        return ["no webhook is called here: the configuration is only stored, and forbids and changes nothing"]


class MutatingWebhookConfiguration(ValidatingWebhookConfiguration):
    def default_hook(self, hook: Object) -> None:
        super().default_hook(hook)
        hook.setdefault("reinvocationPolicy", "Never")

    def wrong_hook(self, hook: Object, path: str) -> FieldErrors:
        return [*super().wrong_hook(hook, path), *rules.errors(_MUTATING_HOOK, hook, path)]


def _wrong_name(name: str, path: str) -> FieldErrors:
    if not name:
        return [fields.required(path)]
    if problems := names.dns_subdomain(name):
        return [fields.invalid(path, name, ", ".join(problems))]
    if name.count(".") < 2:
        return [fields.invalid(path, name, "should be a domain with at least three segments separated by dots")]
    return []


def _wrong_versions(versions: list[str], path: str) -> FieldErrors:
    if not versions:
        return [fields.required(path, f"must specify one of {', '.join(_REVIEWS)}")]
    errors: FieldErrors = []
    twice = fields.repeated(versions)
    for index, version in enumerate(versions):
        if index in twice:
            errors.append(fields.invalid(f"{path}[{index}]", version, "duplicate version"))
        errors += fields.malformed(f"{path}[{index}]", version, names.dns1035_label(version))
    if not any(version in _REVIEWS for version in versions):
        errors.append(fields.invalid(path, versions, f"must include at least one of {', '.join(_REVIEWS)}"))
    return errors


def _wrong_client(client: Object, path: str) -> FieldErrors:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [fields.required(path, "exactly one of url or service is required")]
    if service is None:
        return _wrong_url(url or "", f"{path}.url")
    errors = [*rules.errors(_SERVICE, service, f"{path}.service")]
    if service.get("path"):
        errors += _wrong_path(service["path"], f"{path}.service.path")
    return errors


def _wrong_url(url: str, path: str) -> FieldErrors:
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError as error:
        return [fields.required(path, f"url must be a valid URL: {error}")]
    errors: FieldErrors = []
    if parts.scheme != "https":
        errors.append(fields.invalid(path, parts.scheme, "'https' is the only allowed URL scheme"))
    if not parts.netloc:
        errors.append(fields.invalid(path, parts.netloc, "host must be specified"))
    for part, what in (
        (parts.username, "user information"),
        (parts.fragment, "fragments"),
        (parts.query, "query parameters"),
    ):
        if part:
            errors.append(fields.invalid(path, part, f"{what} are not permitted in the URL"))
    return errors


def _wrong_path(text: str, path: str) -> FieldErrors:
    if text == "/":
        return []
    if not text.startswith("/"):
        return [fields.invalid(path, text, "must start with a '/'")]
    for index, segment in enumerate(text.removesuffix("/")[1:].split("/")):
        problems = [f": {problem}" for problem in names.dns_subdomain(segment)] if segment else [" may not be empty"]
        if problems:
            # The first is enough: each would repeat the whole path.
            return [fields.invalid(path, text, f"segment[{index}]{problem}") for problem in problems]
    return []
