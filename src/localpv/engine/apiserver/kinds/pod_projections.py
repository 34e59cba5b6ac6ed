"""Files that a pod finds in a volume and that come from the API: keys of secrets, fields of the pod, tokens."""

from __future__ import annotations

from collections.abc import Iterator

from localpv.api import fields, names, selectors
from localpv.api.fields import FieldError
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import pod_fields
from localpv.engine.apiserver.kinds.volume_paths import file_mode, inside_and_not_reserved

Errors = Iterator[FieldError]

TOKEN_SECONDS = 3600
MIN_TOKEN_SECONDS = 600
MAX_TOKEN_SECONDS = 2**32
KEY_TYPES = ("ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072", "RSA4096")


def default(volume: Object) -> None:
    """Fill in downward API and projected volumes."""
    if (downward := volume.get("downwardAPI")) is not None:
        _default_files(downward)
    if (projected := volume.get("projected")) is not None:
        for source in projected.get("sources") or ():
            if (downward := source.get("downwardAPI")) is not None:
                _default_files(downward)
            if (token := source.get("serviceAccountToken")) is not None:
                token.setdefault("expirationSeconds", TOKEN_SECONDS)


def _default_files(downward: Object) -> None:
    for file in downward.get("items") or ():
        if (field := file.get("fieldRef")) is not None and not field.get("apiVersion"):
            field["apiVersion"] = "v1"
        if (resource := file.get("resourceFieldRef")) is not None:
            resource.setdefault("divisor", "0")


def key_to_path(item: Object, path: str) -> Errors:
    for name in ("key", "path"):
        if not item.get(name):
            yield fields.required(f"{path}.{name}")
    yield from inside_and_not_reserved(item.get("path", ""), f"{path}.path")
    yield from file_mode(item.get("mode"), f"{path}.mode")


def downward_file(file: Object, path: str) -> Errors:
    """Kubernetes names the list and not the file in these paths."""
    if not file.get("path"):
        yield fields.required(f"{path}.path")
    yield from inside_and_not_reserved(file.get("path", ""), f"{path}.path")
    field, resource = file.get("fieldRef"), file.get("resourceFieldRef")
    if field is not None:
        yield from pod_fields.field_ref(field, f"{path}.fieldRef", pod_fields.IN_FILES)
        if resource is not None:
            yield fields.invalid(path, "resource", "fieldRef and resourceFieldRef exclude each other")
    elif resource is not None:
        yield from pod_fields.resource_ref(resource, f"{path}.resourceFieldRef", in_volume=True)
    else:
        yield fields.required(path, "fieldRef or resourceFieldRef is needed")
    yield from file_mode(file.get("mode"), f"{path}.mode")


def errors(projected: Object, path: str) -> Errors:
    """A projected volume puts several sources into one directory, so their files must not collide."""
    yield from file_mode(projected.get("defaultMode"), f"{path}.defaultMode")
    taken: set[str] = set()
    for index, source in enumerate(projected.get("sources") or ()):
        at = f"{path}.sources[{index}]"
        for name in ("secret", "configMap"):
            if (keys := source.get(name)) is not None:
                yield from _keys(keys, f"{at}.{name}", path, taken)
        if (downward := source.get("downwardAPI")) is not None:
            for file in downward.get("items") or ():
                yield from downward_file(file, f"{at}.downwardAPI")
                yield from _take(file.get("path", ""), path, taken)
        if (token := source.get("serviceAccountToken")) is not None:
            yield from _token(token, f"{at}.serviceAccountToken", path)
        if (bundle := source.get("clusterTrustBundle")) is not None:
            yield from _trust_bundle(bundle, f"{at}.clusterTrustBundle")
            yield from _take(bundle.get("path", ""), path, taken)
        if (certificate := source.get("podCertificate")) is not None:
            yield from _certificate(certificate, f"{at}.podCertificate", path, taken)
        if len(source) > 1:
            yield fields.forbidden(at, "one entry projects one source")


def _take(file: str, path: str, taken: set[str]) -> Errors:
    if file and file in taken:
        yield fields.invalid(path, file, "two sources would write this file")
    taken.add(file)


def _keys(source: Object, path: str, whole: str, taken: set[str]) -> Errors:
    if not source.get("name"):
        yield fields.required(f"{path}.name")
    for index, item in enumerate(source.get("items") or ()):
        yield from key_to_path(item, f"{path}.items[{index}]")
        yield from _take(item.get("path", ""), whole, taken)


def _token(token: Object, path: str, whole: str) -> Errors:
    seconds = token.get("expirationSeconds", TOKEN_SECONDS)
    if not MIN_TOKEN_SECONDS <= seconds <= MAX_TOKEN_SECONDS:
        yield fields.invalid(f"{path}.expirationSeconds", seconds, "must be from 10 minutes to 2^32 seconds")
    if not token.get("path"):
        yield fields.required(f"{whole}.path")
    else:
        yield from inside_and_not_reserved(token["path"], f"{whole}.path")


def _trust_bundle(bundle: Object, path: str) -> Errors:
    name, signer = bundle.get("name"), bundle.get("signerName")
    if name is not None and signer is not None:
        yield fields.invalid(path, bundle, "name and signerName exclude each other")
    elif name is not None:
        for sentence in names.dns_subdomain(name.rpartition(":")[2]):
            yield fields.invalid(f"{path}.name", name, sentence)
        if "labelSelector" in bundle:
            yield fields.invalid(
                f"{path}.labelSelector", bundle["labelSelector"], "goes with signerName, not with name"
            )
    elif signer is not None:
        if not signer:
            yield fields.required(f"{path}.signerName")
        if "labelSelector" in bundle:
            yield from selectors.validate(bundle["labelSelector"], f"{path}.labelSelector")
    else:
        yield fields.required(path, "name or signerName is needed")
    if not bundle.get("path"):
        yield fields.required(f"{path}.path")
    yield from inside_and_not_reserved(bundle.get("path", ""), f"{path}.path")


def _certificate(certificate: Object, path: str, whole: str, taken: set[str]) -> Errors:
    if not certificate.get("signerName"):
        yield fields.required(f"{path}.signerName")
    if certificate.get("keyType") not in KEY_TYPES:
        yield fields.not_supported(f"{path}.keyType", certificate.get("keyType", ""), KEY_TYPES)
    seconds = certificate.get("maxExpirationSeconds")
    if seconds is not None and seconds < 3600:
        yield fields.invalid(f"{path}.maxExpirationSeconds", seconds, "must be 3600 or more")
    files = [name for name in ("credentialBundlePath", "keyPath", "certificateChainPath") if certificate.get(name)]
    for name in files:
        yield from inside_and_not_reserved(certificate[name], f"{path}.{name}")
        yield from _take(certificate[name], whole, taken)
    if not files:
        yield fields.required(path, "name at least one file to write")
