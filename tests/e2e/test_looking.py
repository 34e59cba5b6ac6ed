"""kubectl logs and kubectl exec, as users look into their pods."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e import pods
from tests.e2e.place import Place
from tests.kubernetes import skipping

SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl in the namespace of the test."""

    command: tuple[str, ...]
    environment: dict[str, str]

    def __call__(self, *words: str, given: str = "", terminal: bool = False) -> subprocess.CompletedProcess[str]:
        command = [*self.command, *words]
        return subprocess.run(
            ["script", "-qec", shlex.join(command), "/dev/null"] if terminal else command,
            input=given,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        """kubectl that goes on, and what it prints meanwhile."""
        command = [*self.command, *words]
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=self.environment, text=True
        )


@pytest.fixture
def kubectl(place: Place, here: pods.Here, tmp_path: Path) -> Kubectl:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KUBECONFIG": str(place.target.kubeconfig)}
    return Kubectl((str(skipping.program("kubectl")), "--namespace", here.space.name), environment)


@pytest.fixture
def name(here: pods.Here) -> str:
    """A pod with two containers that has written something and goes on."""
    talker = here.container("talker", "sh", "-c", "for n in 1 2 3; do echo line $n; done; exec sleep 3600")
    other = here.container("other", "sh", "-c", "echo other; exec sleep 3600")
    made = here.create({"containers": [talker, other]})
    here.wait(made, "Running")
    here.until_says(made, "line 3\n", container="talker")
    here.until_says(made, "other\n", container="other")
    return made


def test_log_is_what_the_container_wrote(kubectl: Kubectl, name: str) -> None:
    assert kubectl("logs", name, "-c", "talker").stdout == "line 1\nline 2\nline 3\n"
    assert kubectl("logs", name, "-c", "talker", "--tail=1").stdout == "line 3\n"
    stamped = kubectl("logs", name, "-c", "other", "--timestamps").stdout.split()
    assert (len(stamped), stamped[0][-1], stamped[1]) == (2, "Z", "other")
    assert kubectl("logs", name, "-c", "talker", "--limit-bytes=6").stdout == "line 1"
    assert kubectl("logs", name, "-c", "talker", "--since=1h").stdout.count("\n") == 3


def test_log_of_a_container_that_is_not_there_is_refused(kubectl: Kubectl, name: str) -> None:
    refused = kubectl("logs", name, "-c", "nobody")
    assert refused.returncode == 1
    assert "nobody" in refused.stderr


def test_log_is_followed_until_the_container_ends(here: pods.Here, kubectl: Kubectl) -> None:
    made = here.start("sh", "-c", "echo first; until test -e /go-on; do sleep 0.1; done; echo last")
    here.wait(made, "Running")
    with kubectl.start("logs", "-f", made) as following:
        try:
            assert following.stdout is not None
            assert following.stdout.readline() == "first\n"
            assert kubectl("exec", made, "--", "touch", "/go-on").returncode == 0
            assert following.communicate(timeout=SECONDS)[0] == "last\n"
        finally:
            following.kill()
    here.wait(made, "Succeeded")
    assert kubectl("logs", made).stdout == "first\nlast\n"


def test_log_of_the_container_before_the_last_restart_is_kept(here: pods.Here, kubectl: Kubectl) -> None:
    script = (
        "if test -e /scratch/again; then echo second; exec sleep 3600; fi; echo first; touch /scratch/again; exit 1"
    )
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    container = here.container("main", "sh", "-c", script, volumeMounts=mounts)
    volumes = [{"name": "scratch", "emptyDir": {}}]
    made = here.create({"containers": [container], "volumes": volumes, "restartPolicy": "OnFailure"})
    here.until(made, _runs_again, "runs for the second time")
    here.until_says(made, "second\n")
    assert kubectl("logs", "--previous", made).stdout == "first\n"
    assert kubectl("logs", made).stdout == "second\n"


def test_command_in_a_container_gives_its_output_and_its_exit_code(kubectl: Kubectl, name: str) -> None:
    done = kubectl("exec", name, "-c", "talker", "--", "sh", "-c", "hostname; echo trouble >&2; exit 7")
    assert (done.stdout, done.returncode) == (f"{name}\n", 7)
    assert "trouble" in done.stderr


def test_command_reads_what_it_is_given(kubectl: Kubectl, name: str) -> None:
    text = "some words\n" * 5000
    done = kubectl("exec", "-i", name, "-c", "other", "--", "wc", "-c", given=text)
    assert (done.stdout.strip(), done.returncode) == (str(len(text)), 0)


def test_command_that_is_not_there_says_so(kubectl: Kubectl, name: str) -> None:
    done = kubectl("exec", name, "-c", "talker", "--", "no-such-program")
    assert done.returncode != 0
    assert "no-such-program" in done.stderr


def test_command_gets_a_terminal_when_it_asks_for_one(kubectl: Kubectl, name: str) -> None:
    # kubectl asks for a terminal only where it has one itself.
    done = kubectl("exec", "-it", name, "-c", "talker", "--", "tty", terminal=True)
    assert "/dev/" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


def _runs_again(pod: Any) -> bool:
    (container,) = pod["status"].get("containerStatuses") or [{"restartCount": 0}]
    return container["restartCount"] == 1 and "running" in container["state"]
