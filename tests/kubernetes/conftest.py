"""What is the cluster's own: tests that need a kubelet, several nodes, or what only Kubernetes has."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import folders
from tests.contract import wire
from tests.e2e import pods
from tests.kubernetes import cluster, fixtures, images


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    recorder = config.pluginmanager.get_plugin("seed-recorder")
    paths = [Path(one.split("::")[0]).resolve() for one in config.args]
    if recorder is not None and all(path.is_relative_to(Path(__file__).parent) for path in paths):
        # These tests bring their own Kubernetes, so no option names one.
        recorder.engine = "kubernetes"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in folders.tests_in(Path(__file__).parent, items):
        item.add_marker(pytest.mark.timeout(fixtures.patience()))


@pytest.fixture(scope="session")
def target(running: cluster.Cluster) -> wire.Target:
    """The cluster's API server, for the fixtures that all tests share."""
    return wire.read_kubeconfig(running.kubeconfig, controllers=True)


@pytest.fixture
def here(api: wire.Api, space: pods.Space) -> pods.Here:
    """A namespace in which pods can be run."""
    return pods.Here(api=api, space=space, image=images.BUSYBOX)
