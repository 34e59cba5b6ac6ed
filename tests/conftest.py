"""What all tests share: the server that is tested, a client for it, and a namespace of one's own."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest
from tests import engine_process
from tests.contract import builders, wire
from tests.contract.spaces import Space

ALWAYS = hypothesis.settings(
    # How long an example takes, or how long it took to make the first ten, says how busy the machine is.
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
    database=None,
)
hypothesis.settings.register_profile("fixed", ALWAYS, derandomize=True)
hypothesis.settings.register_profile("explore", ALWAYS, print_blob=True)
hypothesis.settings.load_profile("fixed")
"""The same examples each time, so what stops a change was brought by it; others: `--hypothesis-profile=explore`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kubeconfig",
        type=Path,
        default=os.environ.get("LOCALPV_CONTRACT_KUBECONFIG"),
        help="the server that contract and client tests talk to; default: our engine, started for the run",
    )
    parser.addoption(
        "--on",
        choices=("embedded", "kubernetes"),
        default="embedded",
        help="where tests with pods run: our engine on this machine, or a cluster started for the run",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "controllers: needs a garbage collector and a namespace controller")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    server = getattr(item, "funcargs", {}).get("target")
    if report.failed and isinstance(server, wire.Target) and server.log is not None and server.log.exists():
        report.sections.append(("Log of the engine", server.log.read_text(errors="replace")[-3000:]))
    return report


@pytest.fixture(scope="session")
def target(pytestconfig: pytest.Config) -> Iterator[wire.Target]:
    """The server under test: the one named on the command line, or our engine."""
    given = pytestconfig.getoption("--kubeconfig")
    if given is not None:
        yield _given_server(Path(given))
        return
    with engine_process.running() as engine:
        yield dataclasses.replace(wire.read_kubeconfig(engine.kubeconfig, controllers=True), log=engine.log)


def _given_server(kubeconfig: Path) -> wire.Target:
    beside = kubeconfig.parent / "etcd-url"
    etcd_url = beside.read_text().strip() if beside.exists() else None
    server = wire.read_kubeconfig(kubeconfig)
    client = wire.Api(server, server.token)
    # The first trace that a controller manager leaves in every cluster.
    account = client.send("GET", "/api/v1/namespaces/default/serviceaccounts/default")
    client.close()
    return wire.read_kubeconfig(kubeconfig, controllers=account.code == 200, etcd_url=etcd_url)


@pytest.fixture(autouse=True)
def _controllers(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("controllers") and not request.getfixturevalue("target").controllers:
        pytest.skip("no controller manager runs beside this API server")


@pytest.fixture
def api(target: wire.Target) -> Iterator[wire.Api]:
    """An administrator's client that takes back what the test created."""
    client = wire.Api(target, target.token)
    yield client
    client.clean_up()
    client.close()


@pytest.fixture
def space(api: wire.Api) -> Space:
    """A fresh namespace with its account, without which kube-apiserver refuses pods."""
    space = Space(api.post("/api/v1/namespaces", builders.namespace())["metadata"]["name"])
    if api.target.controllers:
        wire.eventually(lambda: not api.gone(space.core("serviceaccounts", "default")), "the namespace has its account")
    return space
