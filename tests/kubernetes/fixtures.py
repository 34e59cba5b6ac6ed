"""One cluster for all tests of a run, whichever folder they are in; the end of each component's log where one fails."""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterator

import pytest
from tests.kubernetes import build, cluster, skipping
from tools.image import build as image

NODES = 2
FIRST_SECONDS = 900.0
"""The first test of a run waits for the cluster and, when our code has changed, for the image."""


def patience() -> float:
    """How long a test on the cluster may take, as it may be the first."""
    unbuilt = any(not (build.cache() / name).exists() for name in cluster.PROGRAMS)
    return FIRST_SECONDS + (len(cluster.PROGRAMS) * build.TIMEOUT_SECONDS if unbuilt else 0)


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
def localpv_image(running: cluster.Cluster) -> str:
    """Our own image, in every node."""
    try:
        running.load(image.archive_of_localpv())
    except image.CannotBuild as error:
        skipping.not_here(str(error))
    return image.TAG
