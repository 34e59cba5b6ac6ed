"""The commands for people against a real engine; the tests stand in for agent and manager."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests import engine_process
from tests.contract import wire

from localpv.api import crds
from localpv.testing.waiting import PATIENCE_SECONDS

DISKS = "/apis/localpv.dev/v1alpha1/localdisks"
VOLUMES = "/api/v1/persistentvolumes"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GIB = 1 << 30


@pytest.fixture(scope="module")
def bare() -> Iterator[wire.Api]:
    """An engine in which nothing is installed."""
    with engine_process.running(options=["--node", "node-a"]) as engine:
        target = wire.read_kubeconfig(engine.kubeconfig, controllers=True)
        client = wire.Api(target, target.token)
        client.send("DELETE", f"{DEFINITIONS}/localdisks.localpv.dev")
        yield client
        client.close()


@pytest.fixture(scope="module")
def admin(bare: wire.Api) -> wire.Api:
    missing = localpv(bare, "disks")
    assert missing.returncode == 1
    assert "no LocalDisk kind" in missing.stderr
    assert "hint: install it: `localpv manifests" in missing.stderr
    bare.post(DEFINITIONS, crds.load("localdisks"))
    wire.eventually(lambda: bare.send("GET", DISKS).code == 200, "LocalDisks are served")
    return bare


def localpv(
    api: wire.Api, *words: str, typed: str | None = None, kubeconfig: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "localpv", *words],
        env=environment(kubeconfig or api.target.kubeconfig),
        input=typed if typed is not None else "",
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


def environment(kubeconfig: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    return {**kept, "KUBECONFIG": str(kubeconfig), "TERM": "xterm", "COLUMNS": "120"}


def make(api: wire.Api, entry: str, *, node: str = "node-a", volume: str = "", phase: str = "Published") -> str:
    """A LocalDisk and, if it is given a phase by `volume=NAME:PHASE`, the volume on it."""
    name = f"{node}-{entry}"
    spec: dict[str, Any] = {
        "nodeName": node,
        "storageClassName": "fast",
        "entry": entry,
        "path": f"/mnt/fast/{entry}",
        "volumeMode": "Block",
    }
    if volume:
        pv, _, bound = volume.partition(":")
        uid = make_volume(api, pv, node=node, path=spec["path"], phase=bound) if bound else "uid-of-the-deleted"
        spec |= {"volume": {"name": pv, "uid": uid}, "identity": {"serial": f"SN-{entry}"}}
    body = {"apiVersion": "localpv.dev/v1alpha1", "kind": "LocalDisk", "metadata": {"name": name}, "spec": spec}
    api.post(DISKS, body)
    tell(api, name, phase=phase, kind="BlockDevice", size="10Gi", capacityBytes=10 * GIB, medium="SSD",
         identity={"serial": f"SN-{entry}", "model": "Fast One"})  # fmt: skip
    return name


def make_volume(api: wire.Api, name: str, *, node: str, path: str, phase: str) -> str:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    spec: dict[str, Any] = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "fast",
        "volumeMode": "Block",
        "local": {"path": path},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
    }
    if phase in ("Bound", "Released"):
        spec["claimRef"] = {"namespace": "default", "name": f"claim-of-{name}", "uid": "some-uid"}
    metadata = {"name": name, "labels": {"localpv.dev/node": node}}
    made = api.post(VOLUMES, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec})
    api.merge(f"{VOLUMES}/{name}/status", {"status": {"phase": phase}})
    uid: str = made["metadata"]["uid"]
    return uid


def tell(api: wire.Api, name: str, **status: Any) -> None:
    api.merge(f"{DISKS}/{name}/status", {"status": status})


def test_disks_are_a_table_of_all_nodes_and_a_choice_of_them(admin: wire.Api) -> None:
    make(admin, "table1", volume="pv-table:Bound", phase="InUse")
    make(admin, "table2", node="node-b", phase="Available")
    lines = localpv(admin, "disks").stdout.splitlines()
    assert " ".join(lines[0].split()) == "NODE NAME SIZE TYPE MEDIUM MODEL CLASS PHASE VOLUME REASON"
    row = next(line for line in lines if "table1" in line)
    assert " ".join(row.split()) == "node-a table1 10Gi BlockDevice SSD Fast One fast InUse pv-table"
    of_b = localpv(admin, "disks", "--node", "node-b", "-o", "wide").stdout
    assert "table2" in of_b
    assert "/mnt/fast/table2" in of_b
    assert "table1" not in of_b
    nothing = localpv(admin, "disks", "--class", "none")
    assert (nothing.stdout, nothing.returncode) == ("", 0)
    assert "No disks in class none" in nothing.stderr


def test_disks_are_also_json_and_yaml_for_programs(admin: wire.Api) -> None:
    make(admin, "json1", node="node-json")
    listed = json.loads(localpv(admin, "disks", "-o", "json", "--node", "node-json").stdout)
    assert (listed["kind"], [item["kind"] for item in listed["items"]]) == ("List", ["LocalDisk"])
    assert "managedFields" not in listed["items"][0]["metadata"]
    assert yaml.safe_load(localpv(admin, "disks", "-o", "yaml", "--node", "node-json").stdout) == listed


def test_colours_are_for_terminals_that_want_them(admin: wire.Api) -> None:
    make(admin, "colour1", node="node-colour")
    assert "\x1b[" not in localpv(admin, "disks", "--node", "node-colour").stdout
    assert "\x1b[32mPublished" in on_terminal(admin, "disks", "--node", "node-colour")
    assert "\x1b[" not in on_terminal(admin, "disks", "--node", "node-colour", NO_COLOR="1")


def on_terminal(api: wire.Api, *words: str, **extra: str) -> str:
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    env = environment(api.target.kubeconfig) | extra
    process = subprocess.Popen([sys.executable, "-m", "localpv", *words], stdout=theirs, stdin=theirs, env=env)
    os.close(theirs)
    seen = b""
    with contextlib.suppress(OSError):  # a terminal that was left answers with an error
        while piece := os.read(ours, 65536):
            seen += piece
    process.wait(PATIENCE_SECONDS)
    os.close(ours)
    return seen.decode()


def test_volumes_say_what_happens_next(admin: wire.Api) -> None:
    make(admin, "next1", node="node-next", volume="pv-next-1:Bound")
    make(admin, "next2", node="node-next", volume="pv-next-2:Released")
    foreign = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    metadata = {"name": "foreign"}
    admin.post(VOLUMES, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": foreign})
    shown = localpv(admin, "volumes").stdout
    assert "foreign" not in shown
    first = next(line for line in shown.splitlines() if "pv-next-1" in line)
    assert "next1" in first
    assert "when claim default/claim-of-pv-next-1 is deleted it is kept with its data" in first
    assert "localpv wipe node-next-next2" in shown


def test_explain_tells_why_a_disk_is_not_offered_with_its_events(admin: wire.Api) -> None:
    name = make(admin, "why1", phase="Unavailable")
    tell(admin, name, eligible=False, reason="HasHolders", message="LVM uses it; remove it from its volume group.")
    uid = admin.get(f"{DISKS}/{name}")["metadata"]["uid"]
    admin.post(
        "/api/v1/namespaces/default/events",
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "why1.1", "namespace": "default"},
            "involvedObject": {"apiVersion": "localpv.dev/v1alpha1", "kind": "LocalDisk", "name": name, "uid": uid},
            "reason": "Refused",
            "message": "A holder appeared.",
            "type": "Warning",
            "count": 3,
            "lastTimestamp": "2026-01-01T00:00:00Z",
        },
    )
    told = localpv(admin, "explain", "why1").stdout
    assert told.startswith("node-a/why1 is not offered: HasHolders.\n")
    assert "LVM uses it; remove it from its volume group." in told
    assert "serial SN-why1" in told
    assert "Warning Refused (3 times): A holder appeared" in told


def test_explain_does_not_guess(admin: wire.Api) -> None:
    make(admin, "twin", node="node-x")
    make(admin, "twin", node="node-y")
    refused = localpv(admin, "explain", "twin")
    assert refused.returncode == 1
    assert "hint: name one of: node-x/twin, node-y/twin" in refused.stderr
    assert localpv(admin, "explain", "node-y/twin").returncode == 0


def test_a_bound_disk_is_never_wiped(admin: wire.Api) -> None:
    name = make(admin, "bound1", volume="pv-bound:Bound", phase="InUse")
    refused = localpv(admin, "wipe", "pv-bound", "--yes")
    assert refused.returncode == 1
    assert "volume pv-bound is bound to claim default/claim-of-pv-bound" in refused.stderr
    assert "clean" not in admin.get(f"{DISKS}/{name}")["spec"]


@pytest.mark.parametrize("typed", ["", "something else\n"])
def test_without_the_name_of_the_disk_nothing_is_ordered(admin: wire.Api, typed: str) -> None:
    entry = f"ask{len(typed)}"
    name = make(admin, entry, volume=f"pv-{entry}:Released", phase="Releasing")
    refused = localpv(admin, "wipe", entry, typed=typed)
    assert refused.returncode == 1
    assert f"Everything on node-a/{entry} will be destroyed" in refused.stdout
    assert "nothing was done" in refused.stderr
    assert "clean" not in admin.get(f"{DISKS}/{name}")["spec"]


def test_a_wiping_is_ordered_followed_through_a_failure_and_ends_verified(admin: wire.Api) -> None:
    name = make(admin, "wipe1", volume="pv-wipe1:Released", phase="Releasing")
    uid = admin.get(f"{DISKS}/{name}")["spec"]["volume"]["uid"]

    told = (
        (
            {"state": "Running", "attempt": 1, "bytesDone": 2 * GIB, "bytesTotal": 10 * GIB, "step": "zeroing 1/1"},
            "node-a/wipe1: being wiped, zeroing 1/1, 20 %, 2Gi of 10Gi",
        ),
        (
            {"state": "Failed", "attempt": 1, "reason": "DeviceFailed", "error": "Input/output error."},
            "node-a/wipe1: wiping failed: Input/output error",
        ),
        (
            {"state": "Running", "attempt": 2, "bytesDone": 9 * GIB, "bytesTotal": 10 * GIB, "step": "verifying"},
            "node-a/wipe1: being wiped, verifying",
        ),
        ({"state": "Verified", "attempt": 2}, "node-a/wipe1 is clean."),
    )
    with subprocess.Popen(
        [sys.executable, "-m", "localpv", "wipe", "node-a/wipe1", "--method", "dd-zero 1"],
        env=environment(admin.target.kubeconfig),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as command:
        assert command.stdin is not None and command.stdout is not None
        command.stdin.write("wipe1\n")
        command.stdin.close()
        try:
            wire.eventually(lambda: "clean" in admin.get(f"{DISKS}/{name}")["spec"], "the order is there")
            # The next only when the one before was seen: who sees two at once tells of the last.
            for cleaning, line in told:
                tell(admin, name, cleaning={"volumeUID": uid, **cleaning})
                assert any(line in said for said in command.stdout), line
            assert command.stdout.read().splitlines()[-1].endswith("kubectl delete pv pv-wipe1")
            assert command.wait() == 0
        finally:
            command.kill()  # it would wait for an agent for ever


def test_an_order_stands_when_the_command_is_stopped(admin: wire.Api) -> None:
    name = make(admin, "stop1", volume="pv-stop1", phase="Unavailable")
    process = subprocess.Popen(
        [sys.executable, "-m", "localpv", "wipe", "stop1", "--yes"],
        env=environment(admin.target.kubeconfig),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Whoever started this run may ignore Ctrl-C, as shells let commands in the background do.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        wire.eventually(lambda: "clean" in admin.get(f"{DISKS}/{name}")["spec"], "the order is there")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()  # it would wait for an agent for ever
    assert "goes on without this command" in said
    assert process.returncode == 130
    assert admin.get(f"{DISKS}/{name}")["spec"]["clean"]["volumeUID"] == "uid-of-the-deleted"


def test_what_was_verified_for_the_same_volume_before_does_not_pass_for_a_new_order(admin: wire.Api) -> None:
    name = make(admin, "again1", volume="pv-again1", phase="Unavailable")
    tell(admin, name, cleaning={"volumeUID": "uid-of-the-deleted", "state": "Verified", "attempt": 1})
    process = subprocess.Popen(
        [sys.executable, "-m", "localpv", "wipe", "again1", "--yes"],
        env=environment(admin.target.kubeconfig),
        stdout=subprocess.PIPE,
        text=True,
    )
    wire.eventually(lambda: "clean" in admin.get(f"{DISKS}/{name}")["spec"], "the order is there")
    assert "cleaning" not in admin.get(f"{DISKS}/{name}")["status"]
    tell(admin, name, cleaning={"volumeUID": "uid-of-the-deleted", "state": "Verified", "attempt": 1})
    said, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert said.splitlines()[-1] == "node-a/again1 is clean."


def test_watching_without_a_terminal_prints_what_changes(admin: wire.Api) -> None:
    name = make(admin, "watch1", node="node-watch")
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "localpv", "disks", "--watch", "--node", "node-watch"],
        env=environment(admin.target.kubeconfig),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("NODE")
        assert "Published" in process.stdout.readline()
        tell(admin, name, phase="Missing", reason="NotMounted")
        assert "Missing" in (line := process.stdout.readline())
        assert "NotMounted" in line
        admin.delete(f"{DISKS}/{name}")
        assert "(gone)" in process.stdout.readline()
        process.terminate()


def test_a_missing_right_is_named_in_the_hint(admin: wire.Api, tmp_path: Path) -> None:
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    wire.eventually(lambda: admin.send("GET", account).code == 200, "the service account is there")
    token = admin.post(f"{account}/token", request)["status"]["token"]
    config = yaml.safe_load(admin.target.kubeconfig.read_text())
    for user in config["users"]:
        user["user"] = {"token": token}
    for cluster in config["clusters"]:
        if authority := cluster["cluster"].get("certificate-authority"):
            cluster["cluster"]["certificate-authority"] = str(admin.target.kubeconfig.parent / authority)
    stranger = tmp_path / "kubeconfig"
    stranger.write_text(yaml.safe_dump(config))
    refused = localpv(admin, "disks", kubeconfig=stranger)
    assert refused.returncode == 1
    assert "the right to list localdisks.localpv.dev is missing" in refused.stderr


def test_volumes_with_the_alpha_annotation_are_moved_once(admin: wire.Api) -> None:
    here = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-a"]}]}
    old = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]}}
    annotations = {"volume.alpha.kubernetes.io/node-affinity": json.dumps(old)}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/mnt/old"}}
    body = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "old", "annotations": annotations}}
    admin.post(VOLUMES, body | {"spec": spec})
    assert "old: would be moved" in localpv(admin, "migrate", "--dry-run").stdout
    assert "nodeAffinity" not in admin.get(f"{VOLUMES}/old")["spec"]
    assert "old: moved" in localpv(admin, "migrate").stdout
    moved = admin.get(f"{VOLUMES}/old")
    assert moved["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] == [here]
    assert "annotations" not in moved["metadata"]
    assert "nothing to do" in localpv(admin, "migrate").stdout
