"""A server with controllers of workloads and nothing that runs pods: what a node would report, the tests write."""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import engine_process
from tests.contract import wire
from tests.contract.spaces import Space
from tests.workloads.crew import Crew


@pytest.fixture(scope="session")
def target(pytestconfig: pytest.Config) -> Iterator[wire.Target]:
    """The server named on the command line, with kube-controller-manager; or our engine with our controllers."""
    given = pytestconfig.getoption("--kubeconfig")
    if given is not None:
        yield wire.read_kubeconfig(Path(given), controllers=True)
        return
    with engine_process.running() as engine, _controllers(engine.kubeconfig) as log:
        yield dataclasses.replace(wire.read_kubeconfig(engine.kubeconfig, controllers=True), log=log)


@contextlib.contextmanager
def _controllers(kubeconfig: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="localpv-workloads-") as folder:
        log = Path(folder) / "controllers.log"
        command = [sys.executable, "-m", "tests.workloads.controllers", str(kubeconfig)]
        with log.open("wb") as stderr:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line == b"ready workloads\n", log.read_text()
            yield log
        finally:
            engine_process.stop(process)


@pytest.fixture
def crew(api: wire.Api, space: Space) -> Crew:
    return Crew(api, space)
