"""What people type: rollout, scale, restart and undo, with a real kubectl."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.contract import wire
from tests.contract.spaces import Space
from tests.kubernetes import skipping
from tests.workloads.crew import Crew, image_of, is_ready, workload

from localpv.testing.waiting import PATIENCE_SECONDS

Kubectl = Callable[..., str]
OLD, NEW = "registry.invalid/app:1", "registry.invalid/app:2"


@pytest.fixture
def kubectl(target: wire.Target, space: Space, tmp_path: Path) -> Kubectl:
    program = skipping.program("kubectl")

    def run(*words: str) -> str:
        command = [str(program), "--kubeconfig", str(target.kubeconfig), "-n", space.name, *words]
        environment = {**os.environ, "HOME": str(tmp_path)}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, env=environment
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    return run


def all_of(crew: Crew, image: str, count: int) -> bool:
    crew.make_all_ready()
    pods = crew.pods()
    return [image_of(pod) for pod in pods] == [image] * count and all(map(is_ready, pods))


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_rollout_is_followed_undone_and_told(crew: Crew, kubectl: Kubectl, kind: str) -> None:
    more = {"serviceName": "web"} if kind == "StatefulSet" else {}
    crew.create(workload(kind, "web", replicas=2, **more))
    what = f"{kind.lower()}/web"
    crew.until(lambda: all_of(crew, OLD, 2), "two pods")
    assert "successfully rolled out" in kubectl("rollout", "status", what) or kind == "StatefulSet"
    kubectl("set", "image", what, f"main={NEW}")
    crew.until(lambda: all_of(crew, NEW, 2), "two new pods")
    kubectl("rollout", "status", what, "--timeout=100s")
    history = kubectl("rollout", "history", what)
    assert {"1", "2"} <= {line.split()[0] for line in history.splitlines() if line.split()}
    kubectl("rollout", "undo", what)
    crew.until(lambda: all_of(crew, OLD, 2), "two old pods again")
    kubectl("rollout", "status", what, "--timeout=100s")


def test_restart_makes_new_pods_of_the_same_image(crew: Crew, kubectl: Kubectl) -> None:
    crew.create(workload("Deployment", "web", replicas=2))
    crew.until(lambda: all_of(crew, OLD, 2), "two pods")
    before = set(crew.names())
    kubectl("rollout", "status", "deployment/web")
    kubectl("rollout", "restart", "deployment/web")
    crew.until(lambda: all_of(crew, OLD, 2) and not before & set(crew.names()), "two other pods")
    kubectl("rollout", "status", "deployment/web")


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet"])
def test_scale_changes_the_number_of_pods(crew: Crew, kubectl: Kubectl, kind: str) -> None:
    more = {"serviceName": "web", "podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}
    crew.create(workload(kind, "web", replicas=1, **more))
    crew.until_pods(1)
    kubectl("scale", f"{kind.lower()}/web", "--replicas=4")
    crew.until_pods(4)
    kubectl("scale", f"{kind.lower()}/web", "--replicas=0")
    crew.until_pods(0)


def test_pause_and_resume(crew: Crew, kubectl: Kubectl) -> None:
    crew.create(workload("Deployment", "web", replicas=1))
    crew.until(lambda: all_of(crew, OLD, 1), "a pod")
    kubectl("rollout", "pause", "deployment/web")
    kubectl("set", "image", "deployment/web", f"main={NEW}")
    crew.fence("deployments", "web", observedGeneration=3)
    assert all_of(crew, OLD, 1), "nothing happens while it is paused"
    kubectl("rollout", "resume", "deployment/web")
    crew.until(lambda: all_of(crew, NEW, 1), "a new pod")
