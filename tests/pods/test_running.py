"""Pods run: from created to finished and gone."""

from __future__ import annotations

import os
import signal

import pytest
from tests.pods.machine import PODS, Machine, condition, main, restarts


def test_pod_runs_says_so_and_leaves_nothing(machine: Machine) -> None:
    made = machine.run("hello", "echo hello from $(hostname); sleep 1000")
    machine.remember(made)
    pod = machine.until_ready("hello")
    assert pod["status"]["phase"] == "Running"
    one = main(pod)
    assert one["ready"] and one["started"] and one["restartCount"] == 0
    assert one["containerID"] == f"runc://{made['metadata']['uid']}.main.0"
    assert one["imageID"].startswith("sha256:")
    assert {kind: condition(pod, kind)["status"] for kind in ("Initialized", "ContainersReady", "PodScheduled")} == {
        "Initialized": "True",
        "ContainersReady": "True",
        "PodScheduled": "True",
    }
    machine.eventually(lambda: machine.logs("hello") == "hello from hello\n", "it has written its line")
    assert machine.monitors() and machine.groups() and machine.mounts()
    for reason in ("Pulled", "Created", "Started"):
        machine.until_event("hello", reason)

    machine.delete("hello")
    machine.eventually(machine.is_clean, "nothing is left")
    machine.until_event("hello", "Killing")


@pytest.mark.parametrize(("code", "phase", "reason"), [(0, "Succeeded", "Completed"), (3, "Failed", "Error")])
def test_pod_that_is_not_restarted_ends_with_its_exit_code(
    machine: Machine, code: int, phase: str, reason: str
) -> None:
    machine.run("once", f"echo done; echo last word > /dev/termination-log; exit {code}")
    pod = machine.until_phase("once", "Succeeded", "Failed")
    ended = main(pod)["state"]["terminated"]
    assert (pod["status"]["phase"], ended["exitCode"], ended["reason"]) == (phase, code, reason)
    assert ended["message"] == "last word\n"
    assert condition(pod, "Ready")["reason"] == ("PodCompleted" if code == 0 else "PodFailed")
    # What it ran in is given back, and its log stays until it is deleted.
    machine.eventually(lambda: not machine.mounts() and not machine.monitors(), "its namespaces are gone")
    assert machine.logs("once") == "done\n"


def test_container_that_fails_is_restarted_at_once_and_then_ever_later(machine: Machine) -> None:
    machine.run("crash", "echo attempt; exit 7", restart="Always")
    pod = machine.until_waiting("crash", "CrashLoopBackOff")
    one = main(pod)
    assert one["restartCount"] == 1, "the first restart does not wait"
    assert one["lastState"]["terminated"]["exitCode"] == 7
    assert one["state"]["waiting"]["message"].startswith(
        "back-off 10s restarting failed container=main pod=crash_default("
    )
    assert pod["status"]["phase"] == "Running"
    assert "Back-off restarting failed container main" in machine.until_event("crash", "BackOff")
    assert machine.logs("crash", previous="true") == "attempt\n"


def test_container_that_succeeds_is_not_restarted_on_failure_only(machine: Machine) -> None:
    machine.run("works", "exit 0", restart="OnFailure")
    assert machine.until_phase("works", "Succeeded", "Failed")["status"]["phase"] == "Succeeded"


def test_command_that_is_not_in_the_image_is_told(machine: Machine) -> None:
    machine.create(
        {"containers": [{"name": "main", "image": "busybox", "command": ["/nope"]}], "restartPolicy": "Never"}, "typo"
    )
    ended = main(machine.until_phase("typo", "Failed"))["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert "/nope" in ended["message"] and "no such file" in ended["message"]


def test_pod_is_stopped_by_a_word_and_has_time_to_end(machine: Machine) -> None:
    script = "trap 'echo bye; exit 0' TERM; echo listening; while :; do sleep 0.05; done"
    one = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
    made = machine.create({"containers": [one], "terminationGracePeriodSeconds": 20}, "polite", finalizers=["a.b/c"])
    machine.until_says("polite", "listening")
    machine.delete("polite", wait=False)
    pod = machine.until_phase("polite", "Succeeded", "Failed")
    assert main(pod)["state"]["terminated"]["exitCode"] == 0
    assert made["metadata"]["uid"] == pod["metadata"]["uid"]


def test_pod_that_does_not_listen_is_killed_when_its_time_is_up(machine: Machine) -> None:
    one = {"name": "main", "image": "busybox", "command": ["sh", "-c", "echo begun; exec sleep 1000"]}
    machine.create({"containers": [one]}, "deaf", finalizers=["a.b/c"])
    machine.until_says("deaf", "begun")
    machine.delete("deaf", wait=False)
    pod = machine.until_phase("deaf", "Succeeded", "Failed")
    assert main(pod)["state"]["terminated"]["exitCode"] == 137


def test_pod_deleted_by_force_is_torn_down_all_the_same(machine: Machine) -> None:
    machine.remember(machine.run("forced", "sleep 1000"))
    machine.until_ready("forced")
    machine.delete("forced", grace=0)
    machine.eventually(machine.is_clean, "nothing is left")


def test_pod_that_is_active_for_too_long_fails(machine: Machine) -> None:
    one = {"name": "main", "image": "busybox", "command": ["sh", "-c", "echo begun; exec sleep 1000"]}
    machine.create({"containers": [one], "activeDeadlineSeconds": 3600}, "late")
    machine.until_says("late", "begun")
    machine.api.merge(f"{PODS}/late", {"spec": {"activeDeadlineSeconds": 1}})
    pod = machine.until_phase("late", "Failed")
    assert pod["status"]["reason"] == "DeadlineExceeded"
    assert main(pod)["state"]["terminated"]["exitCode"] == 137


def test_image_that_is_not_there_is_asked_for(machine: Machine) -> None:
    machine.create({"containers": [{"name": "main", "image": "localhost/missing:1"}]}, "imageless")
    pod = machine.until_waiting("imageless", "ErrImageNeverPull")
    assert "localpv image import" in main(pod)["state"]["waiting"]["message"]
    assert pod["status"]["phase"] == "Pending"
    assert machine.until_event("imageless", "Failed") == "Error: ErrImageNeverPull"


def test_any_tag_of_busybox_is_there(machine: Machine) -> None:
    one = {"name": "main", "image": "busybox:1.28.4", "command": ["true"], "imagePullPolicy": "Always"}
    machine.create({"containers": [one], "restartPolicy": "Never"}, "tagged")
    machine.until_phase("tagged", "Succeeded")


def test_container_whose_monitor_dies_is_replaced_and_nothing_of_it_stays(machine: Machine) -> None:
    machine.remember(machine.run("lost", "sleep 1000", restart="Always"))
    machine.until_ready("lost")
    [monitor] = machine.monitors()
    os.kill(monitor, signal.SIGKILL)
    pod = machine.until("lost", lambda pod: restarts(pod) == 1 and main(pod)["ready"], "there is another one")
    ended = main(pod)["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (255, "Unknown")
    machine.delete("lost")
    machine.eventually(machine.is_clean, "nothing is left")
