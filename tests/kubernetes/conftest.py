"""One cluster for all tests of a run, and the end of every component's log with each test that failed."""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from tests.contract import wire
from tests.kubernetes import build, cluster, images, pods, skipping
from tools.image import build as image

NODES = 2
FIRST_SECONDS = 300.0
"""The first test of a run waits for the cluster and, when our code has changed, for the image."""


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    recorder = config.pluginmanager.get_plugin("seed-recorder")
    paths = [Path(one.split("::")[0]).resolve() for one in config.args]
    if recorder is not None and all(path.is_relative_to(Path(__file__).parent) for path in paths):
        # These tests bring their own Kubernetes, so no option names one.
        recorder.engine = "kubernetes"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    unbuilt = any(not (build.cache() / name).exists() for name in cluster.PROGRAMS)
    limit = FIRST_SECONDS + (len(cluster.PROGRAMS) * build.TIMEOUT_SECONDS if unbuilt else 0)
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(limit))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    running = getattr(item, "funcargs", {}).get("running")
    if report.failed and isinstance(running, cluster.Cluster):
        for name, text in running.tails().items():
            report.sections.append((f"Log of {name}", text))
    return report


@pytest.fixture(scope="session")
def machine() -> None:
    """A machine that can run a cluster."""
    if lack := cluster.missing():
        skipping.not_here(lack)
    try:
        for name in cluster.PROGRAMS:
            build.program(name)
    except build.Missing as error:
        skipping.not_here(str(error))


@pytest.fixture(scope="session")
def running(machine: None) -> Iterator[cluster.Cluster]:
    """The cluster that the tests of a run share: use unique names, leave nothing behind."""
    # A terminated run takes its cluster down as an interrupted one does.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with cluster.running(nodes=NODES) as made:
            yield made
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def target(running: cluster.Cluster) -> wire.Target:
    """The cluster's API server, for the fixtures that all tests share."""
    return wire.read_kubeconfig(running.kubeconfig, controllers=True)


@pytest.fixture(scope="session")
def localpv_image(running: cluster.Cluster) -> str:
    """Our own image, in every node."""
    try:
        running.load(image.archive_of_localpv())
    except image.CannotBuild as error:
        skipping.not_here(str(error))
    return image.TAG


@pytest.fixture
def here(api: wire.Api, space: pods.Space) -> pods.Here:
    """A namespace in which pods can be run."""
    return pods.Here(api=api, space=space, image=images.BUSYBOX)
