"""The engine dies without a word, and comes back: pods go on, nothing is lost and nothing is left over."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.pods.machine import PODS, Machine, main, restarts

NewMachine = Callable[[], Machine]
ROUNDS = 6
WAIT = "until test -e /data/go-on; do sleep 0.1; done"
"""A container that lives until the test says so."""


def test_pods_go_on_while_the_engine_is_dead(new_machine: NewMachine) -> None:
    machine = new_machine()
    machine.run("counter", "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.05; done", restart="Always")
    before = machine.until_ready("counter")
    process = _first_process(machine)
    machine.kill()
    seen = _lines(machine, before)
    machine.eventually(lambda: _lines(machine, before) > seen + 3, "the pod writes while nobody runs")

    machine.start()
    after = machine.until_ready("counter")
    assert _first_process(machine) == process, "the very same process"
    assert main(after)["containerID"] == main(before)["containerID"]
    assert main(after)["restartCount"] == 0
    assert after["status"]["startTime"] == before["status"]["startTime"]
    numbers = [int(line.split()[1]) for line in machine.logs("counter").splitlines()]
    assert numbers == list(range(1, len(numbers) + 1)), "no line is missing"
    # It is looked after again.
    machine.delete("counter")
    machine.eventually(machine.is_clean, "nothing is left")


def test_exit_code_is_known_though_nobody_was_there(new_machine: NewMachine) -> None:
    machine = new_machine()
    pod = _create(machine, "ends", f"{WAIT}; echo the end; exit 42", restartPolicy="Never")
    machine.until_ready("ends")
    machine.kill()
    (machine.inside(pod, "data") / "go-on").touch()
    folder = machine.node / "containers" / f"{pod['metadata']['uid']}.main.0"
    machine.eventually(lambda: (folder / "exit").exists(), "the container has ended")
    ended_at = (folder / "exit").stat().st_mtime
    machine.eventually(lambda: time.time() > ended_at + 1.1, "some time passes")
    machine.start()
    ended = main(machine.until_phase("ends", "Failed"))["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (42, "Error")
    assert ended["finishedAt"] == time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ended_at)), "when it really ended"
    assert machine.logs("ends") == "the end\n"


def test_container_that_ended_meanwhile_is_restarted_and_counted(new_machine: NewMachine) -> None:
    machine = new_machine()
    script = f"test -e /data/once && exec sleep 1000; touch /data/once; {WAIT}; exit 1"
    made = _create(machine, "again", script, restartPolicy="Always")
    machine.until_ready("again")
    machine.kill()
    (machine.inside(made, "data") / "go-on").touch()
    folder = machine.node / "containers" / f"{made['metadata']['uid']}.main.0"
    machine.eventually(lambda: (folder / "exit").exists(), "the container has ended")
    machine.start()
    pod = machine.until("again", lambda pod: restarts(pod) == 1 and main(pod)["ready"], "restarted")
    assert main(pod)["lastState"]["terminated"]["exitCode"] == 1


def test_pod_that_the_engine_does_not_know_any_more_is_cleared_away(new_machine: NewMachine) -> None:
    machine = new_machine()
    machine.remember(machine.run("orphan", "sleep 1000", restart="Always"))
    machine.until_ready("orphan")
    machine.kill()
    # As from a backup that is older than the pod.
    for path in machine.data.glob("*.db*"):
        path.unlink()
    machine.start()
    assert machine.api.get(PODS)["items"] == []
    machine.eventually(machine.is_clean, "nothing is left of a pod that nobody knows")


def test_pod_that_is_being_deleted_goes_though_the_engine_died(new_machine: NewMachine) -> None:
    machine = new_machine()
    one = {"name": "main", "image": "busybox", "command": ["sleep", "1000"]}
    machine.remember(machine.create({"containers": [one], "terminationGracePeriodSeconds": 3}, "leaving"))
    machine.until_ready("leaving")
    machine.delete("leaving", wait=False)
    machine.kill()
    machine.start()
    machine.until_gone("leaving")
    machine.eventually(machine.is_clean, "nothing is left")


def test_engine_that_dies_again_and_again_while_pods_start_loses_none(new_machine: NewMachine) -> None:
    machine = new_machine()
    for number in range(ROUNDS):
        made = machine.run(f"pod-{number}", "echo begun; exec sleep 1000", restart="Always")
        machine.remember(made)
        machine.eventually(
            lambda uid=made["metadata"]["uid"]: (machine.node / "pods" / uid).exists(), "its start has begun"
        )
        # At another moment of the start each time.
        time.sleep(0.02 * number)
        machine.kill()
        machine.start()
    for number in range(ROUNDS):
        name = f"pod-{number}"
        pod = machine.until_ready(name)
        machine.eventually(lambda name=name: "begun" in machine.logs(name), "it has written its line")
        assert machine.logs(name).count("begun") == 1
        assert main(pod)["restartCount"] == 0, f"{main(pod)}\n{machine.log.read_text()[-3000:]}"
    assert len(machine.monitors()) == ROUNDS, "one container each"
    machine.delete_all()
    machine.eventually(machine.is_clean, "nothing is left")


def _create(machine: Machine, name: str, script: str, **spec: Any) -> Any:
    """A pod whose container runs a script, with a volume to speak to it."""
    mounts = [{"name": "data", "mountPath": "/data"}]
    one = {"name": "main", "image": "busybox", "command": ["sh", "-c", script], "volumeMounts": mounts}
    return machine.create({"containers": [one], "volumes": [{"name": "data", "emptyDir": {}}], **spec}, name)


def _lines(machine: Machine, pod: dict[str, dict[str, str]]) -> int:
    log = machine.node / "pods" / pod["metadata"]["uid"] / "log" / "main" / "0.log"
    return len(log.read_text().splitlines())


def _first_process(machine: Machine) -> str:
    return next((machine.node / "containers").glob("*/pid")).read_text()
