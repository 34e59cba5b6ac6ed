"""The programs as they run on a cluster: agent and manager apart, or the provisioner alone, each its own process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import engine_process
from tests.contract import wire
from tests.journey.programs import program

from localpv.api import crds
from localpv.testing.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the agent listens to the kernel")

VOLUMES = "/api/v1/persistentvolumes"
DISKS = "/apis/localpv.dev/v1alpha1/localdisks"
CLASS = {"metadata": {"name": "fast"}, "provisioner": "kubernetes.io/no-provisioner"}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[wire.Api]:
    with engine_process.running(data=tmp_path / "data", options=["--node", "node-1"]) as engine:
        target = wire.read_kubeconfig(engine.kubeconfig, controllers=True)
        client = wire.Api(target, target.token)
        client.post("/apis/storage.k8s.io/v1/storageclasses", CLASS)
        (tmp_path / "disks" / "one").mkdir(parents=True)
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / "storageClassMap").write_text(f"fast:\n  hostDir: {tmp_path / 'disks'}\n")
        yield client
        client.close()


def _options(folder: Path) -> tuple[str, ...]:
    return ("--kubeconfig", str(folder / "data" / "kubeconfig"), "--config", str(folder / "config"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        error.close()
        return False


def _offered(api: wire.Api, count: int) -> list[str]:
    wire.eventually(lambda: len(api.get(VOLUMES)["items"]) == count, f"{count} volumes are offered")
    return [Path(volume["spec"]["local"]["path"]).name for volume in api.get(VOLUMES)["items"]]


@pytest.mark.seed("CFG-2", "CFG-7")
def test_agent_and_manager_offer_disks_and_answer_probes(api: wire.Api, tmp_path: Path) -> None:
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crds.load("localdisks"))
    wire.eventually(lambda: api.send("GET", DISKS).code == 200, "LocalDisks are served")
    probes = f"127.0.0.1:{_free_port()}"
    state = ("--state", str(tmp_path / "state"), "--listen-address", probes)
    with program("manager", *_options(tmp_path), folder=tmp_path):
        with program("agent", *_options(tmp_path), *state, folder=tmp_path):
            assert _offered(api, 1) == ["one"]
            for path in ("livez", "readyz"):
                wire.eventually(lambda path=path: _answers(f"http://{probes}/{path}"), f"{path} is well")
            with pytest.raises(urllib.error.HTTPError):
                urllib.request.urlopen(f"http://{probes}/else")
        # Without an agent nothing is found; another one goes on where the first stopped.
        (tmp_path / "disks" / "two").mkdir()
        with program("agent", *_options(tmp_path), *state, folder=tmp_path):
            assert sorted(_offered(api, 2)) == ["one", "two"]


def test_configuration_that_changes_takes_effect_and_a_wrong_one_does_not(api: wire.Api, tmp_path: Path) -> None:
    api.post("/apis/storage.k8s.io/v1/storageclasses", {**CLASS, "metadata": {"name": "slow"}})
    (tmp_path / "slow" / "three").mkdir(parents=True)
    classes = tmp_path / "config" / "storageClassMap"
    with program("provisioner", *_options(tmp_path), "--state", str(tmp_path / "state"), folder=tmp_path):
        assert _offered(api, 1) == ["one"]
        good = classes.read_text()
        classes.write_text(good + "broken: 7\n")
        log = tmp_path / "provisioner.log"
        wire.eventually(lambda: "the last good one stays in force" in log.read_text(), "the mistake is logged")
        classes.write_text(good + f"slow:\n  hostDir: {tmp_path / 'slow'}\n")
        assert sorted(_offered(api, 2)) == ["one", "three"]


def test_provisioner_without_the_kind_keeps_its_records_on_the_node(api: wire.Api, tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "state"))
    with program("provisioner", *_options(tmp_path), *state, folder=tmp_path):
        assert _offered(api, 1) == ["one"]
    assert list((tmp_path / "state" / "records").glob("*.json"))
    before = api.get(VOLUMES)["items"]
    with program("provisioner", *_options(tmp_path), *state, folder=tmp_path):
        (tmp_path / "disks" / "two").mkdir()
        assert sorted(_offered(api, 2)) == ["one", "two"]
    uids = {volume["metadata"]["uid"] for volume in api.get(VOLUMES)["items"]}
    assert before[0]["metadata"]["uid"] in uids, "the volume of the first run is still the same"


def test_a_program_that_does_not_know_its_node_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "localpv", "agent", "--config", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        env={**os.environ, "MY_NODE_NAME": "", "KUBECONFIG": "", "HOME": str(tmp_path)},
    )
    assert done.returncode == 1
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr
