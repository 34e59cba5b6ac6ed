"""What the programs show of themselves while they work: metrics, readiness, and what alerts and dashboard name."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests import engine_process, observe
from tests.contract import wire
from tests.journey.programs import program

import localpv
from localpv.api import crds
from localpv.host import loop
from localpv.testing.waiting import PATIENCE_SECONDS

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the agent listens to the kernel"),
]

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MIB = 1 << 20
SECRET = b"of somebody else"

Samples = dict[str, float]


def samples(text: str) -> Samples:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(number) for name, number in (line.rsplit(" ", 1) for line in lines)}


def scrape(api: wire.Api) -> str:
    answer = api.send("GET", "/metrics")
    assert answer.code == 200
    return answer.raw.decode()


def until(api: wire.Api, **expected: float) -> Samples:
    """Everything, once these, or their sums over all labels, are at least so much."""

    def look() -> Samples:
        found = samples(scrape(api))
        return found if all(_sum(found, name) >= number for name, number in expected.items()) else {}

    return wire.eventually(look, f"the metrics tell {expected}")


def _sum(found: Samples, name: str) -> float:
    return sum(number for key, number in found.items() if name in (key, key.partition("{")[0]))


@contextlib.contextmanager
def up(folder: Path, settings: str) -> Iterator[wire.Api]:
    """`localpv up` with one class whose claims are bound at once."""
    config = folder / "config"
    config.mkdir()
    (folder / "disks").mkdir()
    (config / "storageClassMap").write_text(f"fast:\n  hostDir: {folder / 'disks'}\n{settings}")
    (config / "class.json").write_text(
        json.dumps(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": "fast"},
                "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": "Immediate",
            }
        )
    )
    options = ["--node", "node-1", "--config", str(config)]
    with engine_process.running(data=folder / "data", options=options, program="up") as engine:
        target = wire.read_kubeconfig(engine.kubeconfig, controllers=True)
        with contextlib.closing(wire.Api(target, target.token)) as client:
            # What is there at the first look has no time at which it came.
            until(client, localpv_discovery_survey_duration_seconds_count=1)
            yield client


def claim(api: wire.Api, mode: str) -> None:
    """A claim that gets the only volume there is."""
    spec = {
        "storageClassName": "fast",
        "volumeMode": mode,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Mi"}},
    }
    api.post(CLAIMS, {"metadata": {"name": "data"}, "spec": spec})
    wire.eventually(lambda: api.get(f"{CLAIMS}/data")["status"].get("phase") == "Bound", "the claim is bound")


@pytest.mark.seed("CFG-6")
def test_life_of_a_disk_is_told_and_everything_that_alerts_and_dashboard_name_is_there(tmp_path: Path) -> None:
    with up(tmp_path, "") as api:
        (tmp_path / "disks" / "one").mkdir()
        (tmp_path / "disks" / "stray").write_text("neither a directory nor a device")
        made = until(api, local_volume_provisioner_persistentvolume_discovery_total=1)
        assert (
            made['local_volume_provisioner_persistentvolume_discovery_duration_seconds_count{mode="Filesystem"}'] == 1
        )
        # A new directory settles first, and that is part of how long it took.
        assert made['localpv_discovery_latency_seconds_sum{mode="Filesystem"}'] >= 5
        assert made['localpv_discovery_survey_duration_seconds_count{storage_class="fast"}'] >= 2
        assert made['localpv_disks_unfit{reason="NotADirectoryNorDevice"}'] == 1

        claim(api, "Filesystem")
        bound = until(api, **{'localpv_volumes{storage_class="fast",phase="Bound"}': 1})
        assert bound['local_volume_provisioner_persistentvolume_capacity_bytes{mode="Filesystem"}'] > MIB
        api.delete(f"{CLAIMS}/data")
        text = until(api, local_volume_provisioner_persistentvolume_discovery_total=2)
        assert text['local_volume_provisioner_persistentvolume_delete_total{mode="Filesystem",type="process"}'] == 1
        assert _sum(text, "local_volume_provisioner_persistentvolume_delete_duration_seconds_count") == 1
        assert _sum(text, "localpv_clean_started_total") == _sum(text, "localpv_clean_verified_total") == 1
        assert _sum(text, "localpv_clean_refused_total") == 0
        assert text['local_volume_provisioner_apiserver_requests_total{method="create"}'] == 2
        assert text['apiserver_storage_objects{resource="persistentvolumes"}'] == 1

        known = observe.families(scrape(api)) | {"leader_election_master_status": "gauge"}  # which only managers have
        named = {metric for _, expression in observe.expressions() for metric in observe.named(expression).metrics}
        assert {metric for metric in named if observe.family(metric, known) is None} == set()


def test_disk_that_was_swapped_is_not_wiped_and_both_metrics_tell(tmp_path: Path) -> None:
    files = [tmp_path / "right.img", tmp_path / "wrong.img"]
    for file in files:
        file.write_bytes(bytes(16 * MIB))
    devices = [loop.attach(file) for file in files]
    try:
        with up(tmp_path, "  volumeMode: Block\n  blockCleanerCommand: [dd-zero]\n") as api:
            entry = tmp_path / "disks" / "disk"
            entry.symlink_to(devices[0])
            before = until(api, local_volume_provisioner_persistentvolume_discovery_total=1)
            assert before["localpv_disks_identity_mismatch"] == 0
            assert before['localpv_clean_refused_total{reason="IdentityChanged"}'] == 0
            claim(api, "Block")

            devices[1].write_bytes(SECRET)
            other = tmp_path / "disks" / ".other"
            other.symlink_to(devices[1])
            other.rename(entry)
            api.delete(f"{CLAIMS}/data")

            failures = "local_volume_provisioner_persistentvolume_delete_failed_total"
            wanted = ("localpv_clean_refused_total", "localpv_disks_identity_mismatch", failures)
            told = until(api, **dict.fromkeys((*wanted, "local_volume_provisioner_proctable_failed"), 1))
            assert told['localpv_clean_refused_total{reason="IdentityChanged"}'] == 1
            assert told[f'{failures}{{mode="Block",type="process"}}'] == 1
            assert told["local_volume_provisioner_proctable_failed"] == 1
            assert told["localpv_clean_oldest_order_seconds"] > 0
        assert devices[1].read_bytes().startswith(SECRET)
    finally:
        for device in devices:
            loop.detach(device)


def test_metrics_of_the_engine_are_for_those_who_may_read_them(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        engine = stack.enter_context(engine_process.running(data=tmp_path, options=["--node", "node-1"]))
        target = wire.read_kubeconfig(engine.kubeconfig, controllers=True)
        api = stack.enter_context(contextlib.closing(wire.Api(target, target.token)))

        def code(**headers: str) -> int:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            return api.send("GET", "/metrics", headers=given).code

        assert code() == 200
        assert code(Impersonate_User="anybody") == 403
        assert code(Impersonate_User="prometheus", Impersonate_Group="system:monitoring") == 200
        assert api.as_bearer(None).send("GET", "/metrics").code == 401
        told = samples(scrape(api))
        assert told[f'localpv_build_info{{version="{localpv.__version__}",component="apiserver"}}'] == 1


# -- agent and manager apart -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def answering(name: str, *options: str, folder: Path) -> Iterator[str]:
    """A program, started; where it answers probes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    connection = ("--kubeconfig", str(folder / "data" / "kubeconfig"), "--config", str(folder / "config"))
    with program(name, *connection, "--listen-address", address, *options, folder=folder):
        yield address


def ask(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=PATIENCE_SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def _says_configuration_is_wrong(address: str) -> bool:
    return samples(ask(address, "/metrics")[1])["localpv_configuration_problems"] >= 1


def test_agent_is_ready_only_when_it_has_seen_its_disks_and_each_program_tells_its_own_part(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        engine = stack.enter_context(engine_process.running(data=tmp_path / "data", options=["--node", "node-1"]))
        target = wire.read_kubeconfig(engine.kubeconfig, controllers=True)
        api = stack.enter_context(contextlib.closing(wire.Api(target, target.token)))
        api.post(
            "/apis/storage.k8s.io/v1/storageclasses",
            {"metadata": {"name": "fast"}, "provisioner": "kubernetes.io/no-provisioner"},
        )
        (tmp_path / "disks" / "one").mkdir(parents=True)
        (tmp_path / "config").mkdir()
        classes = tmp_path / "config" / "storageClassMap"
        classes.write_text(f"fast:\n  hostDir: {tmp_path / 'disks'}\n")
        with answering("agent", "--state", str(tmp_path / "state"), folder=tmp_path) as agent:
            # The kind in which it would keep what it finds is not there yet.
            assert ask(agent, "/readyz") == (503, "not ready yet: disks\n")
            assert ask(agent, "/livez")[0] == 200
            api.post(DEFINITIONS, crds.load("localdisks"))
            wire.eventually(lambda: ask(agent, "/readyz")[0] == 200, "the agent is ready")
            with answering("manager", folder=tmp_path) as manager:
                wire.eventually(lambda: len(api.get(VOLUMES)["items"]) == 1, "the disk is offered")
                wire.eventually(lambda: ask(manager, "/readyz")[0] == 200, "the manager is ready")
                wire.eventually(
                    lambda: 'localpv_disks{storage_class="fast",phase="Published"} 1\n' in ask(agent, "/metrics")[1],
                    "the agent tells of the disk",
                )
                counted = "local_volume_provisioner_persistentvolume_discovery_total"
                wire.eventually(
                    lambda: _sum(samples(ask(manager, "/metrics")[1]), counted), "the manager has counted the volume"
                )
                told = samples(ask(manager, "/metrics")[1])
                assert told['leader_election_master_status{name="localpv-manager"}'] == 1
                assert _sum(told, counted) == 1
                assert _sum(told, "localpv_disks") == 0, "disks are told by their agent alone, or sums would be wrong"
                assert "localpv_volumes" not in observe.families(ask(agent, "/metrics")[1])

                classes.write_text("fast: 7\n")
                for address in (agent, manager):
                    wire.eventually(partial(_says_configuration_is_wrong, address), "the mistake is told")
                assert ask(agent, "/readyz")[0] == 200, "the last good configuration is in force"
