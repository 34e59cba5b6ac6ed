"""Which server is asked, and what is said when it refuses."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from localpv import errors
from localpv.api.kinds.localdisk import LOCAL_DISKS
from localpv.api.kinds.volumes import PersistentVolume
from localpv.cli import common, main

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: one
contexts: [{name: one, context: {cluster: one}}, {name: two, context: {cluster: two}}]
clusters: [{name: one, cluster: {server: "http://127.0.0.1:1"}}, {name: two, cluster: {server: "http://127.0.0.1:2"}}]
"""


@pytest.fixture(autouse=True)
def _nothing_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "kubeconfig"
    path.parent.mkdir()
    path.write_text(KUBECONFIG)
    return path


def test_when_nothing_is_configured_the_engine_of_this_machine_is_asked(kubeconfig: Path, tmp_path: Path) -> None:
    found = common.connection(None, "", data=kubeconfig.parent, home=tmp_path)
    assert found.url == "http://127.0.0.1:1"


def test_what_kubectl_would_use_goes_before_the_engine_of_this_machine(
    kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    with pytest.raises(errors.ConfigurationError, match="no such file"):
        common.connection(None, "", data=kubeconfig.parent, home=tmp_path)


def test_a_file_and_a_context_can_be_named(kubeconfig: Path, tmp_path: Path) -> None:
    assert common.connection(kubeconfig, "two", home=tmp_path).url == "http://127.0.0.1:2"


def test_without_anything_the_hint_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigurationError) as refused:
        common.connection(None, "", data=tmp_path, home=tmp_path)
    assert "KUBECONFIG" in refused.value.hint


def test_a_missing_right_is_named() -> None:
    with pytest.raises(errors.Forbidden) as refused, common.asking("patch", LOCAL_DISKS):
        raise errors.Forbidden("no")
    assert "the right to patch localdisks.localpv.dev is missing" in refused.value.hint


def test_a_missing_kind_comes_with_the_way_to_install_it() -> None:
    with (
        pytest.raises(errors.ConfigurationError, match="no LocalDisk kind") as refused,
        common.asking("list", LOCAL_DISKS),
    ):
        raise errors.NotFound("the server could not find the requested resource")
    assert "localpv manifests" in refused.value.hint


def test_a_missing_object_is_just_missing() -> None:
    with pytest.raises(errors.NotFound), common.asking("get", LOCAL_DISKS):
        raise errors.NotFound("gone", details={"name": "gone"})
    with pytest.raises(errors.NotFound), common.asking("list", PersistentVolume.resource):
        raise errors.NotFound("odd")


@pytest.mark.parametrize(
    ("typed", "shown"), [("/usr/bin/localpv", "localpv"), ("/usr/bin/kubectl-localpv", "kubectl localpv")]
)
def test_usage_shows_what_was_typed(typed: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [typed])
    assert main.program_name() == shown
