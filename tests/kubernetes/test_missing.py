"""A machine that cannot run a cluster is told so in one line."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.kubernetes import build, cluster, control_plane, skipping


@pytest.fixture
def nothing_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "toolchain", lambda: None)


def test_no_root_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert cluster.missing() == "a cluster needs root"


def test_packages_that_are_not_installed_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: None if name in ("ctr", "runc") else f"/bin/{name}")

    said = cluster.missing()
    assert said is not None and said.startswith("a cluster needs these packages: containerd ")
    assert "runc" in said and "\n" not in said


def test_no_go_is_named_with_what_it_would_build(
    nothing_built: None, machine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = cluster.missing()

    assert said is not None and "kubelet" in said and said.endswith("there is no Go toolchain to build with")


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("true", 1)])
def test_contract_without_go_is_skipped_and_in_ci_fails(
    nothing_built: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ci: str, code: int
) -> None:
    monkeypatch.setenv("CI", ci)
    # The command is never reached: it would fail.
    assert control_plane.main(["--run", "false"]) == code

    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and "no Go toolchain" in lines[0]
    assert lines[0].startswith("skipped: ") == (code == 0)


def test_cluster_test_is_skipped_and_in_ci_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no root"):
        skipping.not_here("no root")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no root"):
        skipping.not_here("no root")
