"""ConfigMaps and Secrets: small named texts and bytes, at most 1 MiB together, frozen for good when immutable.

Secrets are base64 on the wire, and have a type that says which keys must be there.
"""

from __future__ import annotations

import base64
import binascii
import json

from localpv.api import fields, names
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds.base import Strategy

MAX_BYTES = 1024 * 1024
"""Of all values together; Secrets have the same limit."""


class ConfigMap(Strategy):
    generation = False

    def validate(self, obj: Object) -> FieldErrors:
        data: dict[str, str] = obj.get("data", {})
        binary: dict[str, str] = obj.get("binaryData", {})
        errors = [*wrong_keys("data", data), *wrong_keys("binaryData", binary)]
        errors += [
            fields.invalid(f"data[{key}]", key, "is a key of binaryData as well; a key may appear once")
            for key in data
            if key in binary
        ]
        size = sum(map(text_size, data.values())) + sum(map(decoded_size, binary.values()))
        if size > MAX_BYTES:
            # No field is to blame: this is how the API spells the whole object.
            errors.append(fields.too_long("[]", MAX_BYTES))
        return errors

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        return frozen(obj, old, "data", "binaryData")


def wrong_keys(path: str, values: dict[str, str]) -> FieldErrors:
    return [fields.invalid(f"{path}[{key}]", key, problem) for key in values for problem in names.config_map_key(key)]


def text_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def decoded_size(encoded: str) -> int:
    """How many bytes a base64 text stands for, without decoding it."""
    digits = len(encoded) - encoded.count("\n") - encoded.count("\r") - encoded.count("=")
    return digits * 3 // 4


def frozen(obj: Object, old: Object, *keys: str) -> FieldErrors:
    """What must not change once `immutable` was set, and that it stays set."""
    if not old.get("immutable"):
        return []
    why = "stays as it is once `immutable` is set; delete the object and create it anew"
    errors = []
    if not obj.get("immutable"):
        errors.append(fields.forbidden("immutable", why))
    errors += [fields.forbidden(key, why) for key in keys if (obj.get(key) or {}) != (old.get(key) or {})]
    return errors


OPAQUE = "Opaque"
SERVICE_ACCOUNT_NAME = "kubernetes.io/service-account.name"
TLS = "kubernetes.io/tls"

_JSON_KEYS = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}
_HIDDEN = "<hidden>"


class Secret(Strategy):
    generation = False

    def default(self, obj: Object) -> None:
        plain = obj.pop("stringData", None)
        if plain:
            data = obj.setdefault("data", {})
            for key, text in plain.items():
                data[key] = base64.b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii")
        if not obj.get("type"):
            obj["type"] = OPAQUE

    def validate(self, obj: Object) -> FieldErrors:
        data: dict[str, str] = obj.get("data", {})
        errors = wrong_keys("data", data)
        if sum(map(decoded_size, data.values())) > MAX_BYTES:
            errors.append(fields.too_long("data", MAX_BYTES))
        if obj["type"] != OPAQUE:
            errors += _missing_for_type(obj, data)
        return errors

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        errors = []
        if obj["type"] != old.get("type", OPAQUE):
            errors.append(fields.invalid("type", obj["type"], "field is immutable"))
        return errors + frozen(obj, old, "data")

    def selectable(self, obj: Object) -> dict[str, str]:
        return {"type": obj.get("type", "")}

    def warnings(self, obj: Object) -> list[str]:
        if obj.get("type") != TLS:
            return []
        data = obj.get("data", {})
        problem = _unlike_pair(_bytes(data.get("tls.crt", "")), _bytes(data.get("tls.key", "")))
        return [problem] if problem else []


def _missing_for_type(obj: Object, data: dict[str, str]) -> FieldErrors:
    match obj["type"]:
        case "kubernetes.io/service-account-token":
            annotations = obj["metadata"].get("annotations") or {}
            if not annotations.get(SERVICE_ACCOUNT_NAME):
                return [fields.required(f"metadata.annotations[{SERVICE_ACCOUNT_NAME}]")]
        case "kubernetes.io/dockercfg" | "kubernetes.io/dockerconfigjson":
            key = _JSON_KEYS[obj["type"]]
            if key not in data:
                return [fields.required(f"data[{key}]")]
            if not _is_json_object(_bytes(data[key])):
                return [fields.invalid(f"data[{key}]", _HIDDEN, "must hold a JSON object")]
        case "kubernetes.io/basic-auth":
            if "username" not in data and "password" not in data:
                return [fields.required("data[username]"), fields.required("data[password]")]
        case "kubernetes.io/ssh-auth":
            if not data.get("ssh-privatekey"):
                return [fields.required("data[ssh-privatekey]")]
        case "kubernetes.io/tls":
            return [fields.required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data]
    return []


def _bytes(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded)
    except (binascii.Error, ValueError):
        return b""


def _is_json_object(content: bytes) -> bool:
    try:
        return isinstance(json.loads(content), (dict, type(None)))
    except ValueError:
        return False


def _unlike_pair(certificate: bytes, key: bytes) -> str:
    """Why this certificate and this key cannot serve TLS together, or nothing."""
    # Loaded only for the rare secret of this type: the library is large.
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

    try:
        public = x509.load_pem_x509_certificate(certificate).public_key()
    except ValueError:
        return "data[tls.crt]: there is no PEM certificate in it that could be read"
    try:
        private = load_pem_private_key(key, password=None).public_key()
    except (ValueError, TypeError):
        return "data[tls.key]: there is no PEM private key in it that could be read"
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if public.public_bytes(*form) != private.public_bytes(*form):
        return "data[tls.key]: this private key does not belong to the certificate in tls.crt"
    return ""
