"""What things may be called, and whether the metadata of an object is in order.

A check returns sentences that say what is wrong with a name; an empty list means that nothing is.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import lru_cache

from localpv.api import fields
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object

Check = Callable[[str], list[str]]

MAX_LABEL = 63
MAX_SUBDOMAIN = 253
MAX_ANNOTATIONS_BYTES = 256 * 1024
"""Keys and values of all annotations of one object together."""

STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
"""Finalizers that need no domain in front of their name."""

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_KEY_NAME})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_label_1035 = re.compile(_LABEL_1035).fullmatch
_is_key_name = re.compile(_KEY_NAME).fullmatch
_is_label_value = re.compile(_LABEL_VALUE).fullmatch
_is_config_key = re.compile(_CONFIG_KEY).fullmatch

GENERATED_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels, no 0, 1 and 3: what is made of it forms no words and is not misread."""

_GENERATED_SUFFIX = 5


def generate(base: str) -> str:
    """A name for metadata.generateName: never longer than a DNS label, so that it can become one."""
    suffix = "".join(random.choices(GENERATED_ALPHABET, k=_GENERATED_SUFFIX))
    return base[: MAX_LABEL - _GENERATED_SUFFIX] + suffix


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} characters"


def _rule(sentence: str, example: str, regex: str) -> str:
    return f"{sentence} (for example '{example}'; the rule as a regular expression is '{regex}')"


def dns_label(name: str) -> list[str]:
    """Names that become one part of a DNS name: namespaces, containers, volumes of pods."""
    if len(name) <= MAX_LABEL and _is_label(name):
        return []
    wrong = [_too_long(MAX_LABEL)] if len(name) > MAX_LABEL else []
    if not _is_label(name):
        if _is_subdomain(name):
            wrong.append("must not contain dots")
        else:
            sentence = "must be lowercase letters, digits and '-' only, with a letter or digit first and last"
            wrong.append(_rule(sentence, "my-name", _LABEL))
    return wrong


def dns_subdomain(name: str) -> list[str]:
    """The rule for the names of most kinds."""
    if len(name) <= MAX_SUBDOMAIN and _is_subdomain(name):
        return []
    wrong = [_too_long(MAX_SUBDOMAIN)] if len(name) > MAX_SUBDOMAIN else []
    if not _is_subdomain(name):
        sentence = "must be lowercase letters, digits, '-' and '.' only, with a letter or digit first and last"
        wrong.append(_rule(sentence, "disk-1.example.com", _SUBDOMAIN))
    return wrong


def dns1035_label(name: str) -> list[str]:
    """A DNS label that also starts with a letter: services, plural names of custom kinds."""
    wrong = [_too_long(MAX_LABEL)] if len(name) > MAX_LABEL else []
    if not _is_label_1035(name):
        sentence = "must be lowercase letters, digits and '-' only, with a letter first and a letter or digit last"
        wrong.append(_rule(sentence, "my-name", _LABEL_1035))
    return wrong


def qualified_name(name: str) -> list[str]:
    """Keys of labels and annotations, names of finalizers: `name`, or `domain/name`."""
    prefix, slash, rest = name.rpartition("/")
    if not slash and len(rest) <= MAX_LABEL and _is_key_name(rest):
        return []
    if "/" in prefix:
        sentence = "must be a name, or a DNS subdomain, one '/' and a name"
        return [_rule(sentence, "example.com/MyName", _KEY_NAME)]
    wrong = []
    if slash and not prefix:
        wrong.append("the part before '/' must not be empty")
    elif slash:
        wrong.extend(f"the part before '/' {sentence}" for sentence in dns_subdomain(prefix))
    if not rest:
        wrong.append("the name must not be empty")
    elif len(rest) > MAX_LABEL:
        wrong.append(f"the name {_too_long(MAX_LABEL)}")
    if rest and not _is_key_name(rest):
        sentence = "the name must be letters, digits, '-', '_' and '.' only, with a letter or digit first and last"
        wrong.append(_rule(sentence, "MyName", _KEY_NAME))
    return wrong


def label_value(value: str) -> list[str]:
    if len(value) <= MAX_LABEL and _is_label_value(value):
        return []
    wrong = [_too_long(MAX_LABEL)] if len(value) > MAX_LABEL else []
    if not _is_label_value(value):
        sentence = "must be empty, or letters, digits, '-', '_' and '.' only, with a letter or digit first and last"
        wrong.append(_rule(sentence, "my_value", _LABEL_VALUE))
    return wrong


def path_segment(name: str) -> list[str]:
    """The loosest rule, which roles and their bindings have: whatever can stand in a URL between two slashes."""
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in name]


def config_map_key(key: str) -> list[str]:
    """Keys of ConfigMaps and Secrets, which may become file names."""
    wrong = [_too_long(MAX_SUBDOMAIN)] if len(key) > MAX_SUBDOMAIN else []
    if not _is_config_key(key):
        wrong.append(_rule("must be letters, digits, '-', '_' and '.' only", "key.name", _CONFIG_KEY))
    if key in (".", ".."):
        wrong.append(f"must not be '{key}'")
    elif key.startswith(".."):
        wrong.append("must not start with '..'")
    return wrong


def validate_object_meta(
    meta: Object, *, namespaced: bool, check_name: Check, path: str = "metadata", custom: bool = False
) -> FieldErrors:
    """What is wrong with the metadata of an object, after its name was generated and its namespace filled in.

    `custom` is for objects of custom kinds, whose finalizers need no domain in front.
    """
    wrong: FieldErrors = []

    prefix = meta.get("generateName")
    if prefix:
        # A letter or digit will follow, so a prefix may end with a dash where a name may not.
        whole = f"{prefix[:-1]}a" if len(prefix) > 1 and prefix[-1] == "-" else prefix
        wrong.extend(fields.invalid(f"{path}.generateName", prefix, sentence) for sentence in check_name(whole))
    name = meta.get("name")
    if not name:
        wrong.append(fields.required(f"{path}.name", "name or generateName is required"))
    elif sentences := check_name(name):
        wrong.extend(fields.invalid(f"{path}.name", name, sentence) for sentence in sentences)

    namespace = meta.get("namespace")
    if namespaced:
        if not namespace:
            wrong.append(fields.required(f"{path}.namespace"))
        elif sentences := dns_label(namespace):
            wrong.extend(fields.invalid(f"{path}.namespace", namespace, each) for each in sentences)
    elif namespace:
        wrong.append(fields.forbidden(f"{path}.namespace", "not allowed on this type"))

    if meta.get("generation", 0) < 0:
        wrong.append(fields.invalid(f"{path}.generation", meta["generation"], "must be greater than or equal to 0"))
    if labels := meta.get("labels"):
        wrong.extend(validate_labels(labels, f"{path}.labels"))
    if annotations := meta.get("annotations"):
        wrong.extend(validate_annotations(annotations, f"{path}.annotations"))
    if owners := meta.get("ownerReferences"):
        wrong.extend(_validate_owners(owners, f"{path}.ownerReferences"))
    if finalizers := meta.get("finalizers"):
        wrong.extend(_validate_finalizers(finalizers, f"{path}.finalizers", custom=custom))
    return wrong


def validate_labels(labels: dict[str, str], path: str) -> FieldErrors:
    wrong: FieldErrors = []
    for key, value in labels.items():
        if not _is_sound_key(key):
            wrong.extend(fields.invalid(path, key, sentence) for sentence in qualified_name(key))
        if sentences := label_value(value):
            wrong.extend(fields.invalid(path, value, sentence) for sentence in sentences)
    return wrong


@lru_cache(maxsize=4096)
def _is_sound_key(key: str) -> bool:
    """The same few keys stand on nearly all objects."""
    return not qualified_name(key)


def validate_annotations(annotations: dict[str, str], path: str) -> FieldErrors:
    wrong: FieldErrors = []
    size = 0
    for key, value in annotations.items():
        # Unlike a label's, the domain of an annotation's key may be in capitals.
        if not _is_sound_key(key) and not _is_sound_key(key.lower()):
            wrong.extend(fields.invalid(path, key, sentence) for sentence in qualified_name(key.lower()))
        size += _bytes(key) + _bytes(value)
    if size > MAX_ANNOTATIONS_BYTES:
        wrong.append(fields.too_long(path, MAX_ANNOTATIONS_BYTES))
    return wrong


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _validate_owners(owners: list[Object], path: str) -> FieldErrors:
    # Kubernetes names the list and not the element in these paths; clients print them as they are.
    wrong: FieldErrors = []
    controller, told = "", False
    for owner in owners:
        version = owner.get("apiVersion") or ""
        if not version.rpartition("/")[2] or version.count("/") > 1:
            wrong.append(fields.invalid(f"{path}.apiVersion", version, "version must not be empty"))
        wrong.extend(
            fields.invalid(f"{path}.{field}", "", "must not be empty")
            for field in ("kind", "name", "uid")
            if not owner.get(field)
        )
        if version == "v1" and owner.get("kind") == "Event":
            wrong.append(fields.invalid(path, owner, "an Event cannot own anything: it goes by itself after a while"))
        if owner.get("controller"):
            named = f"{owner.get('kind')}/{owner.get('name')}"
            if controller:
                sentence = f"only one owner may be the controller, but {controller} and {named} both claim to be"
                # Once is enough: each time it would repeat the whole list.
                if not told:
                    wrong.append(fields.invalid(path, owners, sentence))
                told = True
            else:
                controller = named
    return wrong


def _validate_finalizers(finalizers: list[str], path: str, *, custom: bool) -> FieldErrors:
    wrong: FieldErrors = []
    for index, name in enumerate(finalizers):
        if not _is_sound_key(name):
            wrong.extend(fields.invalid(path, name, sentence) for sentence in qualified_name(name))
        if not custom and "/" not in name and name not in STANDARD_FINALIZERS:
            sentence = "must have a domain in front, as in example.com/name; only finalizers of Kubernetes have none"
            wrong.append(fields.invalid(f"{path}[{index}]", name, sentence))
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        wrong.append(fields.invalid(path, finalizers, "orphan and foregroundDeletion exclude each other"))
    return wrong


_IMMUTABLE = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def validate_object_meta_update(new: Object, old: Object, path: str = "metadata") -> FieldErrors:
    """Whether the metadata may change this way; `validate_object_meta` says whether it is right by itself.

    A field that `new` leaves out counts as unchanged: the server carries the old value over.
    """
    wrong: FieldErrors = []
    if old.get("deletionTimestamp") and (finalizers := new.get("finalizers")):
        before = set(old.get("finalizers") or ())
        added = sorted({name for name in finalizers if name not in before})
        if added:
            sentence = f"no finalizers can be added while the object is being deleted: {', '.join(added)}"
            wrong.append(fields.forbidden(f"{path}.finalizers", sentence))
    for field in _IMMUTABLE:
        value = new.get(field)
        if value is not None and value != old.get(field):
            wrong.append(fields.invalid(f"{path}.{field}", value, "field is immutable"))
    return wrong
