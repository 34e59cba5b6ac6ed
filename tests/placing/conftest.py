"""What tests about placing share: an engine that binds and schedules, and a storage class of one's own.

They run unchanged on both engines: on ours (`localpv up`) by default, on Kubernetes with `--kubeconfig`, where
kube-controller-manager and kube-scheduler do the work. No kubelet is needed: nodes are objects, and no pod runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import engine_process
from tests.contract import wire
from tests.contract.spaces import Space
from tests.placing.cluster import Cluster
from tests.placing.places import Place


@pytest.fixture(scope="session")
def target(pytestconfig: pytest.Config) -> Iterator[wire.Target]:
    """The server under test: the one named on the command line, or ours with all that works on it."""
    given = pytestconfig.getoption("--kubeconfig")
    if given is not None:
        yield wire.read_kubeconfig(Path(given), controllers=True)
        return
    with engine_process.running(program="up") as engine:
        yield dataclasses.replace(wire.read_kubeconfig(engine.kubeconfig, controllers=True), log=engine.log)


@pytest.fixture
def place(api: wire.Api, space: Space) -> Place:
    """A namespace and a storage class that no other test uses: nobody else takes its volumes."""
    return Place(api=api, space=space)


@pytest.fixture
def cluster(place: Place) -> Cluster:
    """Nodes that only the pods of one test go to."""
    return Cluster(place)
