"""What a container sees and may do."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from tests.pods.machine import NODE, Machine, main

SPACE = "/api/v1/namespaces/default"


def run_once(machine: Machine, name: str, script: str, spec: dict[str, Any] | None = None, **container: Any) -> str:
    """The log of a pod whose one container runs a script to its end, which must be a good one."""
    # One stream, so that the lines are in the order in which they were written.
    one = {"name": "main", "image": "busybox", "command": ["sh", "-c", f"exec 2>&1; {script}"], **container}
    machine.create({"containers": [one], "restartPolicy": "Never", **(spec or {})}, name)
    pod = machine.until_phase(name, "Succeeded", "Failed")
    text = machine.logs(name)
    assert pod["status"]["phase"] == "Succeeded", (text, main(pod)["state"])
    return text


def test_environment_comes_from_everywhere_and_later_words_win(machine: Machine) -> None:
    machine.api.post(f"{SPACE}/configmaps", {"metadata": {"name": "config"}, "data": {"A": "map-a", "B": "map-b"}})
    secret = {"metadata": {"name": "secret"}, "data": {"PASS": base64.b64encode(b"s3cret").decode()}}
    machine.api.post(f"{SPACE}/secrets", secret)
    try:
        text = run_once(
            machine,
            "environment",
            "env | sort",
            envFrom=[{"configMapRef": {"name": "config"}, "prefix": "P_"}, {"configMapRef": {"name": "config"}}],
            env=[
                {"name": "B", "value": "own"},
                {"name": "C", "value": "$(A)/$(B)/$(NOPE)/$$(A)"},
                {"name": "PASS", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "PASS"}}},
                {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "ON", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
                {"name": "MAYBE", "valueFrom": {"configMapKeyRef": {"name": "no", "key": "x", "optional": True}}},
            ],
            resources={"limits": {"cpu": "250m", "memory": "64Mi"}},
        )
    finally:
        machine.api.delete(f"{SPACE}/configmaps/config")
        machine.api.delete(f"{SPACE}/secrets/secret")
    values = dict(line.split("=", 1) for line in text.splitlines())
    assert values["A"] == "map-a" and values["B"] == "own" and values["P_B"] == "map-b"
    assert values["C"] == "map-a/own/$(NOPE)/$(A)"
    assert (values["PASS"], values["NAME"], values["ON"], values["CPU"]) == ("s3cret", "environment", NODE, "250")
    assert "MAYBE" not in values and values["HOSTNAME"] == "environment"


def test_container_waits_for_a_config_map_that_is_not_there_yet(machine: Machine) -> None:
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "later", "key": "a"}}}]
    one = {"name": "main", "image": "busybox", "command": ["sh", "-c", "echo $A"], "env": env}
    machine.create({"containers": [one], "restartPolicy": "Never"}, "waits")
    pod = machine.until_waiting("waits", "CreateContainerConfigError")
    assert main(pod)["state"]["waiting"]["message"] == 'configmap "later" not found'
    machine.api.post(f"{SPACE}/configmaps", {"metadata": {"name": "later"}, "data": {"a": "here"}})
    try:
        machine.until_phase("waits", "Succeeded")
        assert machine.logs("waits") == "here\n"
    finally:
        machine.api.delete(f"{SPACE}/configmaps/later")


def test_args_replace_those_of_the_image_and_are_expanded(machine: Machine) -> None:
    one = {"name": "main", "image": "busybox", "args": ["echo", "$(WORD)"], "env": [{"name": "WORD", "value": "hi"}]}
    machine.create({"containers": [one], "restartPolicy": "Never"}, "args")
    machine.until_phase("args", "Succeeded")
    assert machine.logs("args") == "hi\n"


def test_user_groups_and_rights_are_those_of_the_pod(machine: Machine) -> None:
    text = run_once(
        machine,
        "rights",
        "id -u; id -g; id -G; grep -E 'CapBnd|NoNewPrivs' /proc/self/status; pwd; touch /x || echo read-only",
        {"securityContext": {"runAsUser": 1000, "runAsGroup": 2000, "fsGroup": 3000, "supplementalGroups": [4000]}},
        securityContext={
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]},
        },
        workingDir="/tmp",
    )
    lines = text.splitlines()
    assert lines[:2] == ["1000", "2000"] and set(lines[2].split()) == {"2000", "3000", "4000"}
    assert lines[3].split() == ["CapBnd:", "0000000000000001"]
    assert lines[4].split() == ["NoNewPrivs:", "1"]
    assert lines[5] == "/tmp" and lines[-1] == "read-only"


def test_who_must_not_be_root_is_not(machine: Machine) -> None:
    one = {"name": "main", "image": "busybox", "command": ["id"], "securityContext": {"runAsNonRoot": True}}
    machine.create({"containers": [one], "restartPolicy": "Never"}, "root")
    pod = machine.until_waiting("root", "CreateContainerConfigError")
    assert "runAsNonRoot" in main(pod)["state"]["waiting"]["message"]


def test_machine_is_out_of_reach(machine: Machine) -> None:
    text = run_once(
        machine,
        "contained",
        "mknod /tmp/disk b 7 0 && head -c1 /tmp/disk; echo no > /proc/sys/kernel/hostname;"
        "mount -t tmpfs x /tmp; wc -c < /proc/interrupts; ls /proc | grep -c '^[0-9]'; cat /sys/class/net/*/address",
    )
    lines = text.splitlines()
    assert lines[0] == "head: /tmp/disk: Operation not permitted", "devices"
    assert lines[1].endswith("Read-only file system"), "settings of the kernel"
    assert lines[2].endswith("permission denied (are you root?)"), "mounts"
    assert lines[3] == "0", "what its processors do"
    assert int(lines[4]) < 8, "only its own processes"
    assert lines[5:] == ["00:00:00:00:00:00"], "only its own loopback"


def test_containers_of_a_pod_share_network_memory_and_name(machine: Machine) -> None:
    server = "echo shared > /dev/shm/word; nc -l -p 8080 -e echo served"
    client = "until nc 127.0.0.1 8080 </dev/null | grep served; do sleep 0.05; done; cat /dev/shm/word; hostname"
    both = [
        {"name": name, "image": "busybox", "command": ["sh", "-c", script]}
        for name, script in (("server", server), ("client", client))
    ]
    machine.create({"containers": both, "restartPolicy": "Never"}, "together")
    machine.until_phase("together", "Succeeded")
    assert machine.logs("together", container="client") == "served\nshared\ntogether\n"


def test_memory_beyond_the_limit_is_refused_and_told(machine: Machine) -> None:
    one = {"name": "main", "image": "busybox", "command": ["sh", "-c", "x=a; while :; do x=$x$x; done"]}
    one["resources"] = {"limits": {"memory": "16Mi"}}  # type: ignore[assignment]
    machine.create({"containers": [one], "restartPolicy": "Never"}, "greedy")
    ended = main(machine.until_phase("greedy", "Failed"))["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


def test_privileged_container_sees_the_devices_of_the_machine(machine: Machine, device: Path) -> None:
    text = run_once(
        machine,
        "mighty",
        f"test -b {device} && head -c0 {device} && echo opened; test -w /proc/sys/kernel/hostname && echo writable",
        securityContext={"privileged": True},
    )
    assert text == "opened\nwritable\n"


@pytest.mark.parametrize("network", [False, True], ids=["own network", "network of the machine"])
def test_privileged_container_is_filtered_by_nothing(machine: Machine, network: bool) -> None:
    text = run_once(
        machine,
        "mighty",
        "mkdir /m && mount -t tmpfs none /m && umount /m && echo mounted; unshare -m true && echo apart;"
        " test -w /sys/kernel/mm && echo sysfs; test -d /sys/fs/cgroup && grep Seccomp: /proc/self/status",
        {"hostNetwork": network, "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}},
        securityContext={"privileged": True},
    )
    assert text == "mounted\napart\nsysfs\nSeccomp:\t0\n"


def test_pod_on_the_network_of_the_machine_has_its_name_and_address(machine: Machine) -> None:
    text = run_once(machine, "outside", "ls /sys/class/net | wc -l; hostname", {"hostNetwork": True})
    assert int(text.splitlines()[0]) > 1
    pod = machine.pod("outside")
    assert pod["status"]["podIP"] == pod["status"]["hostIP"]


@pytest.mark.parametrize("policy", ["File", "FallbackToLogsOnError"])
def test_last_words_of_a_failed_container(machine: Machine, policy: str) -> None:
    one = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", "echo in the log; exit 1"],
        "terminationMessagePolicy": policy,
    }
    machine.create({"containers": [one], "restartPolicy": "Never"}, "failing")
    ended = main(machine.until_phase("failing", "Failed"))["state"]["terminated"]
    assert ended.get("message", "") == ("in the log\n" if policy == "FallbackToLogsOnError" else "")
