"""Finding the API server and the credentials for it."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localpv import errors
from localpv.client import config
from localpv.client.credentials import TokenFile

Object = dict[str, Any]


def a_kubeconfig(cluster: Object | None = None, user: Object | None = None, **context: Any) -> Object:
    return {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", **context}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    }


@pytest.fixture
def written(tmp_path: Path) -> Callable[[Object], Path]:
    def write(document: Object, name: str = "kubeconfig") -> Path:
        path = tmp_path / name
        path.write_text(json.dumps(document))
        return path

    return write


def data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


async def test_token_and_namespace_come_from_the_current_context(written: Callable[..., Path]) -> None:
    found = config.load(written(a_kubeconfig(user={"token": "secret"}, namespace="mine")))
    assert found.url == "https://127.0.0.1:6443"
    assert found.namespace == "mine"
    assert await found.credentials.headers() == (("Authorization", "Bearer secret"),)


async def test_other_contexts_can_be_named(written: Callable[..., Path]) -> None:
    document = a_kubeconfig()
    document["contexts"].append({"name": "there", "context": {"cluster": "c", "user": "u", "namespace": "other"}})
    assert config.load(written(document), context="there").namespace == "other"
    with pytest.raises(errors.ConfigurationError, match="no context 'nowhere'") as caught:
        config.load(written(document), context="nowhere")
    assert "here, there" in caught.value.hint


async def test_of_several_files_the_first_that_says_something_counts(
    written: Callable[..., Path], tmp_path: Path
) -> None:
    first = written({"users": [{"name": "u", "user": {"token": "first"}}]}, "one")
    second = written(a_kubeconfig(user={"token": "second"}), "two")
    missing = tmp_path / "missing"
    found = config.load(environ={"KUBECONFIG": f"{missing}:{first}:{second}"})
    assert found.url == "https://127.0.0.1:6443"
    assert await found.credentials.headers() == (("Authorization", "Bearer first"),)


def test_kubeconfig_variable_that_names_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigurationError, match="no such file"):
        config.load(environ={"KUBECONFIG": str(tmp_path / "missing")})


def test_file_in_the_home_folder_is_used_when_nothing_is_set(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(json.dumps(a_kubeconfig()))
    assert config.load(environ={}, home=tmp_path).url == "https://127.0.0.1:6443"


def test_nothing_configured_is_said_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigurationError, match="no API server is configured") as caught:
        config.load(environ={}, home=tmp_path)
    assert "KUBECONFIG" in caught.value.hint


@pytest.mark.parametrize("inline", [True, False])
def test_authority_and_client_certificate_come_from_data_or_files(
    written: Callable[..., Path], pair: tuple[Path, Path], inline: bool
) -> None:
    certificate, key = pair
    if inline:
        cluster = {"certificate-authority-data": data(certificate)}
        user = {"client-certificate-data": data(certificate), "client-key-data": data(key)}
    else:
        cluster = {"certificate-authority": "a.crt"}
        user = {"client-certificate": "a.crt", "client-key": str(key)}
    tls = config.load(written(a_kubeconfig(cluster, user))).tls
    assert tls is not None and tls.verify_mode is ssl.CERT_REQUIRED
    assert [each["subject"] for each in tls.get_ca_certs()] == [((("commonName", "test"),),)]


def test_insecure_server_is_not_verified(written: Callable[..., Path]) -> None:
    tls = config.load(written(a_kubeconfig({"insecure-skip-tls-verify": True}))).tls
    assert tls is not None and tls.verify_mode is ssl.CERT_NONE and not tls.check_hostname


async def test_impersonation_is_sent_with_each_request(written: Callable[..., Path]) -> None:
    found = config.load(written(a_kubeconfig(user={"token": "t", "as": "jane", "as-groups": ["a", "b"]})))
    assert await found.credentials.headers() == (
        ("Authorization", "Bearer t"),
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
    )


async def test_token_file_is_read_again_when_its_token_is_refused(written: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old\n")
    credentials = config.load(written(a_kubeconfig(user={"tokenFile": "token"}))).credentials
    assert await credentials.headers() == (("Authorization", "Bearer old"),)
    assert not credentials.refused()
    (tmp_path / "token").write_text("new\n")
    assert credentials.refused()
    assert await credentials.headers() == (("Authorization", "Bearer new"),)


async def test_renewed_token_is_noticed_without_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("old")
    credentials = TokenFile(tmp_path / "token")
    await credentials.headers()
    (tmp_path / "token").write_text("new")
    assert await credentials.headers() == (("Authorization", "Bearer old"),)
    monkeypatch.setattr(TokenFile, "READ_AGAIN_SECONDS", 0.0)
    assert await credentials.headers() == (("Authorization", "Bearer new"),)


@pytest.mark.parametrize(
    ("cluster", "user", "message"),
    [
        ({"proxy-url": "http://proxy"}, {}, "cluster c: proxy-url is not supported"),
        ({"server": "127.0.0.1:6443"}, {}, "cluster c: server is '127.0.0.1:6443', not an address"),
        ({"server": 5}, {}, "cluster c: server is not a string"),
        ({"certificate-authority-data": "***"}, {}, "certificate-authority-data is not base64"),
        ({"certificate-authority-data": "aGVsbG8="}, {}, "certificate-authority is no certificate in PEM form"),
        ({"certificate-authority": "missing.crt"}, {}, "certificate-authority cannot be read"),
        ({}, {"auth-provider": {"name": "x"}}, "user u: auth-provider is not supported"),
        ({}, {"username": "a", "password": "b"}, "user u: username is not supported"),
        ({}, {"client-certificate-data": "aGVsbG8="}, "user u: client-key is missing"),
        ({}, {"client-certificate-data": "aGVsbG8=", "client-key-data": "aGVsbG8="}, "cannot be used"),
        ({}, {"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}, "exec: command is missing"),
        ({}, {"exec": {"command": "x", "apiVersion": "v9"}}, "exec: apiVersion 'v9' is not supported"),
        (
            {},
            {
                "exec": {
                    "command": "x",
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "interactiveMode": "Always",
                }
            },
            "interactiveMode Always is not supported",
        ),
        ({}, {"as-groups": ["a"]}, "user u: as is missing"),
    ],
)
def test_wrong_field_is_named_with_its_file(
    written: Callable[..., Path], cluster: Object, user: Object, message: str
) -> None:
    path = written(a_kubeconfig(cluster, user))
    with pytest.raises(errors.ConfigurationError) as caught:
        config.load(path)
    assert message in caught.value.message
    assert str(path) in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("content", ["{", "[]", "clusters: [{}]", "{}", "current-context: gone"])
def test_file_that_is_no_kubeconfig_is_refused_by_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    with pytest.raises(errors.ConfigurationError, match="kubeconfig"):
        config.load(path)


def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigurationError, match="cannot be read"):
        config.load(tmp_path / "missing")


async def test_pod_uses_its_service_account(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    (tmp_path / "ca.crt").write_bytes(pair[0].read_bytes())
    (tmp_path / "token").write_text("pod-token")
    (tmp_path / "namespace").write_text("kube-system")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    found = config.load(environ=environ, home=tmp_path / "nobody", service_account=tmp_path)
    assert found.url == "https://[fd00::1]:443"
    assert found.namespace == "kube-system"
    assert await found.credentials.headers() == (("Authorization", "Bearer pod-token"),)


def test_pod_without_a_service_account_is_told_so(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(errors.ConfigurationError, match=r"ca\.crt cannot be used") as caught:
        config.in_cluster(environ=environ, service_account=tmp_path)
    assert "automountServiceAccountToken" in caught.value.hint
