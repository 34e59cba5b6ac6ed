"""Journeys with pods, unchanged on both engines: `--on kubernetes` takes a real cluster, otherwise this machine."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from tests import folders
from tests.contract import wire
from tests.e2e import place as places
from tests.e2e import pods
from tests.kubernetes import fixtures, skipping


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    on_cluster = config.getoption("--on") == "kubernetes"
    for item in folders.tests_in(Path(__file__).parent, items):
        if on_cluster and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(fixtures.patience()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    place = getattr(item, "funcargs", {}).get("place")
    if report.failed and place is not None:
        report.sections.append(("Log of the place", place.log()))
    return report


@pytest.fixture(scope="session")
def place(request: pytest.FixtureRequest) -> Iterator[places.Place]:
    """The place that the journeys of a run share: use unique names, leave nothing behind."""
    if request.config.getoption("--on") == "kubernetes":
        running, image = request.getfixturevalue("running"), request.getfixturevalue("localpv_image")
        with places.OnKubernetes(running, image).installed() as made:
            yield made
        return
    if lack := places.why_not_here():
        skipping.not_here(lack)
    with places.on_this_machine() as here:
        yield here


@pytest.fixture(scope="session")
def target(place: places.Place) -> wire.Target:
    return place.target


@pytest.fixture
def here(api: wire.Api, space: pods.Space, place: places.Place) -> pods.Here:
    """A namespace in which pods can be run."""
    return pods.Here(api=api, space=space, image=place.image)
