"""`localpv down` and `localpv reset`: the way back from `localpv up`, at any moment and after any death."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests import forked_programs
from tests.pods.machine import Machine, main, restarts
from tests.pods.test_data_folder import Tenant

from localpv.testing.waiting import PATIENCE_SECONDS

NewMachine = Callable[[], Machine]
DIES_HALF_WAY = """
import os, runpy, signal, sys

begun, removed = False, 0

def removes(event, arguments):
    global begun, removed
    if event == "os.remove":
        begun = begun or os.fspath(arguments[0]).endswith("/localpv.db")
        removed += begun
        if removed == 50:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(removes)
runpy.run_module("localpv", run_name="__main__")
"""
"""localpv, killed when the database is gone and a few files more."""


@pytest.fixture
def tenant(new_machine: NewMachine, tmp_path: Path) -> Iterator[Tenant]:
    made = Tenant(new_machine(), tmp_path / "disks")
    yield made
    made.machine.close()
    made.close()


def localpv(machine: Machine, command: str, *options: str, says: str | None = None) -> str:
    """Run a command over the data folder of a machine; `says`: what it says when it is refused."""
    done = forked_programs.run(command, "--data", str(machine.data), *options)
    assert done.returncode == (0 if says is None else 1), done.stderr + done.stdout
    assert says is None or says in done.stderr
    return done.stdout + done.stderr


def ended(machine: Machine) -> bool:
    left = machine.left()
    return not any(left[what] for what in ("mounts", "monitors", "runtime"))


def test_down_stops_the_engine_ends_pods_gracefully_and_unmounts(new_machine: NewMachine, tmp_path: Path) -> None:
    machine, folder = new_machine(), tmp_path / "kept"
    folder.mkdir()
    script = "trap 'echo goodbye >> /data/log; exit 0' TERM; echo hello >> /data/log; while :; do sleep 0.1; done"
    one = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
    one |= {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    one |= {"lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "echo hook >> /data/log"]}}}}
    spec = {"containers": [one], "volumes": [{"name": "data", "hostPath": {"path": str(folder)}}]}
    machine.create(spec | {"terminationGracePeriodSeconds": 20}, "polite")
    machine.until_ready("polite")
    machine.eventually(lambda: (folder / "log").exists() and (folder / "log").read_text(), "the container has begun")

    said = localpv(machine, "down")

    assert machine.process is not None and machine.process.wait(PATIENCE_SECONDS) == 0, "the engine was told to stop"
    assert "default/polite is being ended; it has 20 s" in said and "default/polite has ended" in said
    assert (folder / "log").read_text() == "hello\nhook\ngoodbye\n"
    assert ended(machine), machine.left()
    assert "being ended" not in localpv(machine, "down"), "once more is no error"

    machine.kill()
    machine.start()
    pod = machine.until("polite", lambda pod: restarts(pod) == 1 and main(pod)["ready"], "it goes on after the next up")
    assert main(pod)["lastState"]["terminated"]["exitCode"] == 0


def test_down_ends_what_a_killed_engine_left_running(tenant: Tenant) -> None:
    tenant.run()
    machine, before = tenant.machine, tenant.holds()
    machine.kill()

    said = localpv(machine, "down")

    assert "default/tenant has ended" in said
    assert ended(machine), machine.left()
    assert not tenant.held(), "nothing holds the raw device"
    assert tenant.holds() == before
    machine.start()
    machine.until("tenant", lambda pod: restarts(pod) == 1 and main(pod)["ready"], "it goes on with its volumes")


def test_down_that_is_killed_can_be_repeated(tenant: Tenant) -> None:
    tenant.run()
    machine, before = tenant.machine, tenant.holds()
    machine.kill()
    argv = [sys.executable, "-m", "localpv", "down", "--data", str(machine.data)]
    for _ in range(5):
        there = sum(map(len, machine.left().values()))
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def is_at_work(process: subprocess.Popen[bytes] = process, there: int = there) -> bool:
            return process.poll() is not None or sum(map(len, machine.left().values())) < there

        machine.eventually(is_at_work, "less is left than before")  # so at another step each time
        process.kill()
        process.wait()

    localpv(machine, "down")

    assert ended(machine), machine.left()
    assert not tenant.held()
    assert tenant.holds() == before


def test_down_ends_pods_whose_data_folder_was_removed(tenant: Tenant) -> None:
    tenant.run()
    machine, before = tenant.machine, tenant.holds()
    machine.kill()
    subprocess.run(["rm", "-rf", machine.data], check=True)

    localpv(machine, "down")

    machine.eventually(lambda: ended(machine), "nothing runs")
    assert not machine.groups() and not tenant.held()
    assert not machine.data.exists(), "and it is not made again"
    assert tenant.holds() == before


def test_grace_period_of_the_command_is_that_of_all_pods(new_machine: NewMachine) -> None:
    machine = new_machine()
    one = {"name": "main", "image": "busybox", "command": ["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"]}
    machine.create({"containers": [one], "terminationGracePeriodSeconds": 3600}, "stubborn")
    machine.until_ready("stubborn")
    assert "it has 1 s" in localpv(machine, "down", "--grace-period", "1")
    assert ended(machine), machine.left()


def test_volumes_that_an_earlier_version_mounted_in_the_data_folder_are_found(
    new_machine: NewMachine, tmp_path: Path
) -> None:
    machine = new_machine()
    machine.stop()
    place = machine.node / "pods" / "uid-1" / "volumes" / "kubernetes.io~local-volume" / "pv-1"
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("the tenant's")
    place.mkdir(parents=True)
    subprocess.run(["mount", "--bind", kept, place], check=True)

    argv = [sys.executable, "-m", "localpv", "up", "--data", str(machine.data), "--listen", "127.0.0.1:0"]
    refused = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert refused.returncode == 1
    assert str(place) in refused.stderr and "localpv down" in refused.stderr
    assert str(place) in localpv(machine, "reset", "--yes", says="is mounted")

    localpv(machine, "down")

    assert not machine.mounts()
    assert (kept / "file").read_text() == "the tenant's"
    machine.start()


def test_engine_that_is_stopped_says_what_runs_on_and_how_to_go_on(new_machine: NewMachine) -> None:
    machine = new_machine()
    machine.run("stays", "exec sleep 1000", restart="Always")
    machine.until_ready("stays")
    machine.end(signal.SIGINT)
    said = machine.log.read_text()
    assert "1 pod runs on, with volumes mounted: default/stays" in said
    assert f"localpv down --data {machine.data}" in said


def test_reset_is_refused_while_pods_run_and_removes_only_what_is_localpvs_own(tenant: Tenant) -> None:
    tenant.run()
    machine, before = tenant.machine, tenant.holds()
    localpv(machine, "reset", "--yes", says="in use by process")
    machine.kill()
    said = localpv(machine, "reset", "--yes", says="pod default/tenant runs")
    assert "localpv down" in said and (machine.data / "localpv.db").exists()
    localpv(machine, "down")
    (machine.data / "mine").write_text("somebody else's")

    assert "volume directory of claim default/directory" in localpv(machine, "reset", says="not confirmed")
    assert (machine.data / "localpv.db").exists()
    said = localpv(machine, "reset", "--yes")

    assert "mine" in said
    assert [path.name for path in machine.data.iterdir()] == ["mine"]
    assert not machine.run_folder.exists()
    assert tenant.holds() == before
    (machine.data / "mine").unlink()
    localpv(machine, "reset", "--yes")
    assert not machine.data.exists(), "once more is no error"


def test_reset_never_goes_through_a_mount(new_machine: NewMachine, tmp_path: Path) -> None:
    machine, kept = new_machine(), tmp_path / "kept"
    machine.stop()
    kept.mkdir()
    (kept / "file").write_text("somebody else's")
    place = machine.node / "images" / "elsewhere"
    place.mkdir()
    subprocess.run(["mount", "--bind", kept, place], check=True)
    localpv(machine, "reset", "--yes", says=f"{place} is mounted")
    assert (kept / "file").exists() and (machine.data / "localpv.db").exists()


def test_reset_that_is_killed_leaves_nothing_to_start_from_by_halves(new_machine: NewMachine) -> None:
    machine = new_machine()
    machine.stop()
    many = machine.node / "pods" / "old" / "log"
    many.mkdir(parents=True)
    for number in range(100):
        (many / str(number)).touch()
    argv = [sys.executable, "-c", DIES_HALF_WAY, "reset", "--yes", "--data", str(machine.data)]
    cut = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert cut.returncode == -signal.SIGKILL, cut.stdout + cut.stderr
    assert machine.node.exists() and not (machine.data / "localpv.db").exists(), "it was cut off"

    # Images and logs may be there by halves.
    localpv(machine, "up", "--listen", "127.0.0.1:0", says="a reset of it was cut off")
    localpv(machine, "reset", "--yes")
    assert not machine.data.exists() and not machine.run_folder.exists()
    machine.start()
    assert machine.api.get("/api/v1/namespaces/default/pods")["items"] == []


def test_reset_says_that_the_disks_of_the_demo_go(new_machine: NewMachine) -> None:
    machine = new_machine()
    machine.stop()
    machine.start("--demo")
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"

    def bound() -> bool:
        return any(one["status"].get("phase") == "Bound" for one in machine.api.get(claims)["items"])

    machine.eventually(bound, "the demo has a volume")
    machine.stop()
    localpv(machine, "down")
    said = localpv(machine, "reset", "--yes")
    assert "the disks of the demo, with what is on them" in said
    assert "Stays on the disks" not in said
    assert not machine.data.exists()
