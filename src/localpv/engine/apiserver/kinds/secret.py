"""Secrets: like ConfigMaps, but base64 on the wire, with a type that says which keys must be there."""

from __future__ import annotations

import base64
import binascii
import json

from localpv.api import fields
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import configmap
from localpv.engine.apiserver.kinds.base import Strategy

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
        errors = configmap.wrong_keys("data", data)
        if sum(map(configmap.decoded_size, data.values())) > configmap.MAX_BYTES:
            errors.append(fields.too_long("data", configmap.MAX_BYTES))
        if obj["type"] != OPAQUE:
            errors += _missing_for_type(obj, data)
        return errors

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        errors = []
        if obj["type"] != old.get("type", OPAQUE):
            errors.append(fields.invalid("type", obj["type"], "field is immutable"))
        return errors + configmap.frozen(obj, old, "data")

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
