"""Containers in their order: init containers, sidecars, hooks and probes."""

from __future__ import annotations

from typing import Any

from tests.pods.machine import OFTEN, PODS, Machine, condition, main, restarts, state

IN_THE_END = {**OFTEN, "failureThreshold": 1000}
"""For what a container comes to by itself, however long it takes."""

LISTENS = {"exec": {"command": ["sh", "-c", "netstat -ltn | grep -q ':8080 '"]}, **IN_THE_END}


def box(name: str, script: str, **more: Any) -> dict[str, Any]:
    data = [{"name": "data", "mountPath": "/data"}]
    return {"name": name, "image": "busybox", "command": ["sh", "-c", script], "volumeMounts": data, **more}


def pod_of(*containers: dict[str, Any], inits: tuple[dict[str, Any], ...] = (), **more: Any) -> dict[str, Any]:
    volumes = [{"name": "data", "emptyDir": {}}]
    return {"containers": list(containers), "initContainers": list(inits), "volumes": volumes, **more}


def test_init_containers_run_one_after_the_other_before_the_others(machine: Machine) -> None:
    inits = (box("first", "sleep 0.3; echo first >> /data/log"), box("second", "echo second >> /data/log"))
    machine.create(pod_of(box("main", "cat /data/log"), inits=inits, restartPolicy="Never"), "ordered")
    pod = machine.until_phase("ordered", "Succeeded")
    assert machine.logs("ordered", container="main") == "first\nsecond\n"
    assert [one["state"]["terminated"]["reason"] for one in pod["status"]["initContainerStatuses"]] == ["Completed"] * 2
    assert condition(pod, "Initialized")["status"] == "True"


def test_pod_waits_for_its_init_containers_and_says_so(machine: Machine) -> None:
    machine.create(pod_of(box("main", "sleep 1000"), inits=(box("slow", "sleep 1000"),)), "slow")
    pod = machine.until_waiting("slow", "PodInitializing")
    pod = machine.until("slow", lambda pod: state(pod, "slow") == "running", "the init container runs")
    assert pod["status"]["phase"] == "Pending"
    told = condition(pod, "Initialized")
    assert (told["status"], told["reason"]) == ("False", "ContainersNotInitialized")
    assert told["message"] == "containers with incomplete status: [slow]"


def test_init_container_that_fails_ends_a_pod_that_is_not_restarted(machine: Machine) -> None:
    inits = (box("broken", "exit 9"),)
    machine.create(pod_of(box("main", "touch /data/ran"), inits=inits, restartPolicy="Never"), "broken")
    pod = machine.until_phase("broken", "Failed")
    assert main(pod, "broken")["state"]["terminated"]["exitCode"] == 9
    assert "terminated" not in main(pod)["state"], "the others never ran"


def test_sidecar_runs_beside_and_does_not_keep_the_pod(machine: Machine) -> None:
    sidecar = box("sidecar", "trap 'exit 0' TERM; echo up > /data/side; while :; do sleep 0.05; done")
    sidecar |= {
        "restartPolicy": "Always",
        "startupProbe": {"exec": {"command": ["test", "-e", "/data/side"]}, **IN_THE_END},
    }
    machine.create(pod_of(box("main", "cat /data/side"), inits=(sidecar,), restartPolicy="Never"), "beside")
    pod = machine.until_phase("beside", "Succeeded", "Failed")
    assert pod["status"]["phase"] == "Succeeded"
    assert machine.logs("beside", container="main") == "up\n", "it had started when the others began"
    assert "terminated" in main(pod, "sidecar")["state"]


def test_hooks_run_after_the_start_and_before_the_end(machine: Machine) -> None:
    script = "trap 'cat /data/*; exit 0' TERM; echo listening; while :; do sleep 0.05; done"
    hooks = {
        "postStart": {"exec": {"command": ["sh", "-c", "echo begun > /data/1"]}},
        "preStop": {"exec": {"command": ["sh", "-c", "echo ending > /data/2"]}},
    }
    whole = pod_of(box("main", script, lifecycle=hooks), terminationGracePeriodSeconds=20)
    machine.create(whole, "hooked", finalizers=["a.b/c"])
    machine.until_says("hooked", "listening")
    machine.delete("hooked", wait=False)
    pod = machine.until_phase("hooked", "Succeeded", "Failed")
    assert main(pod)["state"]["terminated"]["exitCode"] == 0
    assert machine.logs("hooked") == "listening\nbegun\nending\n"


def test_container_is_ready_when_its_probe_says_so(machine: Machine) -> None:
    probe = {"exec": {"command": ["test", "-e", "/data/ready"]}, "failureThreshold": 1, **OFTEN}
    made = machine.create(pod_of(box("main", "exec sleep 1000", readinessProbe=probe)), "becoming")
    pod = machine.until("becoming", lambda pod: pod["status"]["phase"] == "Running", "it runs")
    told = condition(pod, "Ready")
    assert (told["status"], told["reason"]) == ("False", "ContainersNotReady")
    assert told["message"] == "containers with unready status: [main]"
    (machine.inside(made, "data") / "ready").touch()
    machine.until_ready("becoming")
    (machine.inside(made, "data") / "ready").unlink()
    machine.until("becoming", lambda pod: condition(pod, "Ready")["status"] == "False", "it is not ready any more")
    assert machine.until_event("becoming", "Unhealthy").startswith("Readiness probe failed")


def test_container_that_does_not_answer_is_restarted(machine: Machine) -> None:
    probe = {"httpGet": {"port": "web", "path": "/"}, "periodSeconds": 1, "failureThreshold": 2}
    script = "mkdir -p /www; echo ok > /www/index.html; test -e /data/twice && exec httpd -f -p 8080 -h /www;"
    script += "touch /data/twice; exec sleep 1000"
    ports = [{"name": "web", "containerPort": 8080}]
    machine.create(pod_of(box("main", script, livenessProbe=probe, ports=ports)), "hung")
    pod = machine.until("hung", lambda pod: restarts(pod) >= 1 and main(pod)["ready"], "it is restarted")
    assert main(pod)["lastState"]["terminated"]["exitCode"] == 137
    assert "failed liveness probe" in machine.until_event("hung", "Killing")


def test_tcp_probe_reaches_into_the_network_of_the_pod(machine: Machine) -> None:
    probe = {"tcpSocket": {"port": 9000}, **OFTEN}
    machine.create(pod_of(box("main", "while :; do nc -l -p 9000 < /dev/null; done", readinessProbe=probe)), "open")
    machine.until_ready("open")


def test_container_is_replaced_when_its_image_is_changed(machine: Machine) -> None:
    machine.create(pod_of(box("main", "sleep 1000")), "updated")
    machine.until_ready("updated")
    patch = {"spec": {"containers": [{"name": "main", "image": "busybox:2"}]}}
    machine.api.strategic(f"{PODS}/updated", patch)
    pod = machine.until(
        "updated", lambda pod: restarts(pod) == 1 and main(pod)["ready"], "it runs from the other image"
    )
    assert main(pod)["image"] == "busybox:2"
    assert "definition changed" in machine.until_event("updated", "Killing")


def test_hook_may_be_a_request(machine: Machine) -> None:
    answer = "read x; echo $x > /data/asked; echo HTTP/1.0 200 OK; echo"
    server = box("server", f"while :; do nc -l -p 8080 -e sh -c '{answer}'; done", startupProbe=LISTENS)
    hook = {"preStop": {"httpGet": {"port": 8080, "path": "/goodbye"}}}
    script = "trap 'cat /data/asked; exit 0' TERM; echo listening; while :; do sleep 0.05; done"
    whole = pod_of(box("main", script, lifecycle=hook), inits=(server | {"restartPolicy": "Always"},))
    machine.create(whole | {"terminationGracePeriodSeconds": 20}, "asking", finalizers=["a.b/c"])
    machine.until_says("asking", "listening", container="main")
    machine.delete("asking", wait=False)
    machine.until_phase("asking", "Succeeded", "Failed")
    assert machine.logs("asking", container="main").startswith("listening\nGET /goodbye")
