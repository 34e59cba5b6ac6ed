"""kubectl as the tests of clients use it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.contract import wire
from tests.contract.spaces import Space
from tests.kubernetes import skipping

from localpv.testing.waiting import PATIENCE_SECONDS

CONFIG = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  labels: {app: demo}
data:
  color: red
"""
"""What the tests of writing write."""

SWEPT = (
    "/api/v1 pods",
    "/api/v1 persistentvolumeclaims",
    "/api/v1 services",
    "/api/v1 secrets",
    "/api/v1 configmaps",
    "/api/v1 events",
    "/api/v1 serviceaccounts",
    "/apis/apps/v1 deployments",
    "/apis/apps/v1 statefulsets",
    "/apis/batch/v1 jobs",
    "/apis/coordination.k8s.io/v1 leases",
    "/apis/rbac.authorization.k8s.io/v1 rolebindings",
    "/apis/rbac.authorization.k8s.io/v1 roles",
)
"""What the tests leave in their namespace; a bare API server does not empty a namespace by itself."""


@dataclass(frozen=True, slots=True)
class Going:
    """A kubectl that has not ended yet."""

    process: subprocess.Popen[str]

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def line(self) -> list[str]:
        """The words of the next line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().split()

    def end(self) -> str:
        """Everything it printed, once it has ended well."""
        said, _ = self.process.communicate(timeout=PATIENCE_SECONDS)
        assert self.process.returncode == 0, said
        return said


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubectl:
    """kubectl bound to one server and one namespace."""

    program: Path
    space: Space
    folder: Path
    environment: dict[str, str]

    def __call__(self, *words: str, stdin: str | None = None, expect: int = 0, **environment: str) -> str:
        """Run to the end; what it printed comes back, standard error after standard output."""
        done = subprocess.run(
            self._command(words),
            input=stdin or "",
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == expect, f"kubectl {' '.join(words)} exited with {done.returncode}: {said}"
        return said

    def json(self, *words: str) -> Any:
        """What it printed as JSON."""
        return json.loads(self(*words, "--output=json"))

    @contextlib.contextmanager
    def started(self, *words: str) -> Iterator[Going]:
        """A command that goes on, for example a watch, until the with-block ends."""
        process = subprocess.Popen(
            self._command(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.environment,
            text=True,
        )
        with process:
            try:
                yield Going(process)
            finally:
                process.terminate()

    def file(self, name: str, text: str) -> str:
        """Write a manifest and return its path."""
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def _command(self, words: tuple[str, ...]) -> list[str]:
        return [str(self.program), "--namespace", self.space.name, *words]


@pytest.fixture
def kubectl(target: wire.Target, api: wire.Api, space: Space, tmp_path: Path) -> Iterator[Kubectl]:
    """kubectl as an administrator, in a fresh namespace, with a discovery cache of its own."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "KUBECONFIG": str(target.kubeconfig),
        "LC_ALL": "C.UTF-8",
    }
    yield Kubectl(program=skipping.program("kubectl"), space=space, folder=tmp_path, environment=environment)
    for line in SWEPT:
        version, plural = line.split()
        path = f"{version}/namespaces/{space.name}/{plural}"
        answer = api.send("DELETE", path, gracePeriodSeconds=0)
        for item in answer.body.get("items", ()):
            if item["metadata"].get("finalizers"):
                unheld = {"metadata": {"finalizers": None}}
                api.send("PATCH", f"{path}/{item['metadata']['name']}", unheld, content_type=wire.MERGE_PATCH)
