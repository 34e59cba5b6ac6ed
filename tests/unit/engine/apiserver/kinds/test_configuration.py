"""ConfigMaps and Secrets: keys, size, immutability, and what each type of Secret must hold."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from tests.unit.engine.apiserver.kinds.writes import Writes

from localpv.engine.apiserver.kinds import configuration

MAPS = Writes(configuration.ConfigMap(), "ConfigMap")
SECRETS = Writes(configuration.Secret(), "Secret")
MEBIBYTE = 1024 * 1024


def test_configmap_takes_texts_and_bytes_up_to_one_mebibyte() -> None:
    assert not MAPS.create({"data": {"a": "x" * MEBIBYTE}}).errors
    assert MAPS.create({"data": {"a": "x" * MEBIBYTE, "b": "y"}}).causes == {("[]", "TooLong")}
    assert MAPS.create({"data": {"a": "ä" * (MEBIBYTE // 2) + "x"}}).causes == {("[]", "TooLong")}
    full = base64.b64encode(b"x" * MEBIBYTE).decode()
    assert not MAPS.create({"binaryData": {"a": full}}).errors
    assert MAPS.create({"data": {"b": "x"}, "binaryData": {"a": full}}).causes == {("[]", "TooLong")}


@pytest.mark.parametrize("key", ["a b", "a/b", "..", "..a", "x" * 254, "ü"])
def test_configmap_keys_could_be_file_names(key: str) -> None:
    assert MAPS.create({"data": {key: "v"}}).causes == {(f"data[{key}]", "Invalid")}


def test_a_key_is_text_or_bytes_but_not_both() -> None:
    assert MAPS.create({"data": {"a": "b"}, "binaryData": {"a": "YQ=="}}).causes == {("data[a]", "Invalid")}


def test_immutable_configmap_keeps_its_content_and_its_immutability() -> None:
    old = MAPS.stored({"data": {"a": "b"}, "immutable": True})

    assert MAPS.update(old, data={"a": "c"}).causes == {("data", "Forbidden")}
    assert MAPS.update(old, binaryData={"q": "YQ=="}).causes == {("binaryData", "Forbidden")}
    assert MAPS.update(old, immutable=None).causes == {("immutable", "Forbidden")}
    assert not MAPS.update(old, metadata__labels={"x": "y"}).errors


def test_string_data_of_a_secret_becomes_data_and_wins() -> None:
    obj = SECRETS.stored({"data": {"a": "YQ=="}, "stringData": {"a": "b", "c": "ü"}})

    assert obj["data"] == {"a": "Yg==", "c": "w7w="}
    assert obj["type"] == "Opaque"
    assert "stringData" not in obj


@pytest.mark.parametrize(
    ("kind", "content", "missing"),
    [
        ("kubernetes.io/tls", {"tls.crt": ""}, {"data[tls.key]"}),
        ("kubernetes.io/tls", {}, {"data[tls.crt]", "data[tls.key]"}),
        ("kubernetes.io/basic-auth", {}, {"data[username]", "data[password]"}),
        ("kubernetes.io/basic-auth", {"username": ""}, set()),
        ("kubernetes.io/ssh-auth", {"ssh-privatekey": ""}, {"data[ssh-privatekey]"}),
        ("kubernetes.io/dockercfg", {}, {"data[.dockercfg]"}),
        ("kubernetes.io/dockerconfigjson", {".dockerconfigjson": "{}"}, set()),
        ("kubernetes.io/service-account-token", {}, {"metadata.annotations[kubernetes.io/service-account.name]"}),
        ("example.com/own", {}, set()),
    ],
)
def test_type_of_a_secret_says_which_keys_it_needs(kind: str, content: Any, missing: set[str]) -> None:
    assert SECRETS.create({"type": kind, "stringData": content}).causes == {(field, "Required") for field in missing}


def test_registry_password_must_be_a_json_object() -> None:
    outcome = SECRETS.create({"type": "kubernetes.io/dockercfg", "stringData": {".dockercfg": "[]"}})

    assert outcome.causes == {("data[.dockercfg]", "Invalid")}
    assert "[]" not in outcome.errors[0].message


def test_type_of_a_secret_stays() -> None:
    old = SECRETS.stored({"stringData": {"a": "b"}})

    assert SECRETS.update(old, type="example.com/own").causes == {("type", "Invalid")}
    assert not SECRETS.update(old, type=None).errors
    assert configuration.Secret().selectable(old) == {"type": "Opaque"}


def test_tls_secret_without_a_readable_pair_is_taken_with_a_warning() -> None:
    strategy = configuration.Secret()
    obj = SECRETS.stored({"type": "kubernetes.io/tls", "stringData": {"tls.crt": "a", "tls.key": "b"}})

    assert len(strategy.warnings(obj)) == 1
    assert strategy.warnings(SECRETS.stored({"stringData": {"a": "b"}})) == []
