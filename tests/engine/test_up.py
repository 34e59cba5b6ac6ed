"""`localpv up`: one command, everything on this machine."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract import wire
from tests.pods.machine import Machine

from localpv.testing.waiting import PATIENCE_SECONDS


@contextlib.contextmanager
def up(*options: str) -> Iterator[tuple[subprocess.Popen[str], wire.Api]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "localpv", "up", "--listen", "127.0.0.1:0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        ready = re.fullmatch(r"ready https://127\.0\.0\.1:\d+ KUBECONFIG=(.+)\n", process.stdout.readline())
        assert ready
        target = wire.read_kubeconfig(Path(ready[1]), controllers=True)
        client = wire.Api(target, target.token)
        yield process, client
        client.close()
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)
        if process.stdout is not None:
            process.stdout.close()


def test_demo_finds_its_disks_and_offers_them(tmp_path: Path) -> None:
    disks = "/apis/localpv.dev/v1alpha1/localdisks"
    with up("--data", str(tmp_path), "--node", "Here", "--demo") as (_, api):
        wire.eventually(lambda: len(api.get("/api/v1/persistentvolumes")["items"]) == 3, "three volumes are offered")
        volumes = api.get("/api/v1/persistentvolumes")["items"]
        for volume in volumes:
            assert Path(volume["spec"]["local"]["path"]).is_dir()
            terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
            assert terms[0]["matchExpressions"][0]["values"] == ["here"]
        assert sorted(disk["spec"]["entry"] for disk in api.get(disks)["items"]) == ["alpha", "beta", "gamma"]
        assert api.get("/api/v1/nodes/here")["metadata"]["labels"]["kubernetes.io/hostname"] == "here"
        assert api.get("/apis/apps/v1/namespaces/default/statefulsets/demo")
    with up("--data", str(tmp_path), "--node", "Here", "--demo") as (_, api):
        again = api.get("/api/v1/persistentvolumes")["items"]
        assert [volume["metadata"]["uid"] for volume in again] == [volume["metadata"]["uid"] for volume in volumes]


def test_manifests_of_a_folder_are_applied_in_order_and_kept_up_to_date(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    (config / "1-kind.yaml").write_text(
        """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: things, kind: Thing}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
"""
    )
    (config / "2-things.yml").write_text(
        """
apiVersion: example.com/v1
kind: Thing
metadata: {name: one}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: "1"}}
"""
    )
    (config / "notes.txt").write_text("not read")
    path = "/api/v1/namespaces/default/configmaps/settings"
    with up("--data", str(tmp_path / "data"), "--config", str(config)) as (_, api):
        assert api.get("/apis/example.com/v1/things/one")
        assert api.get(path)["data"] == {"a": "1"}
    (config / "2-things.yml").write_text(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {b: '2'}}"
    )
    with up("--data", str(tmp_path / "data"), "--config", str(config)) as (_, api):
        assert api.get(path)["data"] == {"b": "2"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{kind: ConfigMap", "cannot be read"),
        ("kind: ConfigMap", "apiVersion"),
        ("{apiVersion: v1, kind: ConfigMap}", "metadata.name"),
        ("{apiVersion: v1, kind: Gadget, metadata: {name: a}}", "Gadget"),
        ("{apiVersion: v1, kind: PersistentVolume, metadata: {name: a}, spec: {local: {}}}", "spec.local.path"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, dtaa: {a: b}}", "dtaa"),
    ],
)
def test_a_wrong_manifest_is_named_with_its_file(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "wrong.yaml").write_text(text)
    options = ["--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"), "--config", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "localpv", "up", *options],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert "wrong.yaml" in done.stderr
    assert said in done.stderr
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr


def test_local_volumes_are_refused_when_their_feature_gate_is_off(tmp_path: Path) -> None:
    options = ("--data", str(tmp_path), "--feature-gates", "PersistentLocalVolumes=false")
    with up(*options) as (_, api):
        body = {
            "metadata": {"name": "a"},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "local": {"path": "/a"}},
        }
        status = api.post("/api/v1/persistentvolumes", body, expect=422)
        assert ("FieldValueForbidden", "spec.local") in wire.causes(status)


def test_a_terminal_gets_a_live_view_that_ends_with_ctrl_c(tmp_path: Path) -> None:
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "localpv", "up", "--listen", "127.0.0.1:0", "--data", str(tmp_path), "--demo"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "160", "LINES": "50"},
        start_new_session=True,
    )
    os.close(terminal)
    try:
        seen = _read_until(screen, b"local-demo")
        assert b"ready https://" in seen
        assert b"export KUBECONFIG=" in _read_until(screen, b"export KUBECONFIG=")
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # the terminal closes with its last process
            seen += _read_until(screen, b"\0never")
        assert process.wait(PATIENCE_SECONDS) == 0
        assert b"Traceback" not in seen
    finally:
        process.kill()
        process.wait()
        os.close(screen)
        Machine(tmp_path).close()


def _read_until(screen: int, wanted: bytes) -> bytes:
    seen, deadline = b"", time.monotonic() + PATIENCE_SECONDS
    while wanted not in seen and (left := deadline - time.monotonic()) > 0:
        if select.select([screen], [], [], left)[0]:
            piece = os.read(screen, 65536)
            if not piece:
                break
            seen += piece
    return seen
