"""ConfigMaps: small named texts and bytes, at most 1 MiB together, frozen for good when immutable."""

from __future__ import annotations

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
