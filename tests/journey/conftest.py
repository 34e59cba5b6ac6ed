"""One engine for the journeys of this folder, with our kinds installed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests import engine_process
from tests.journey.place import Place

from localpv import errors
from localpv.api import crds
from localpv.api.resources import Resource
from localpv.client import client as clients
from localpv.client import config
from localpv.client.client import Client

CLOSING_SECONDS = 0.1

DEFINITIONS = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    singular="customresourcedefinition",
    namespaced=False,
    schema="",
)


@pytest.fixture(scope="session")
def kubeconfig(pytestconfig: pytest.Config) -> Iterator[Path]:
    """Of the server that the manager is tested with: the one named on the command line, or our engine."""
    if (given := pytestconfig.getoption("--kubeconfig")) is not None:
        yield Path(given)
        return
    with engine_process.running() as engine:
        yield engine.kubeconfig


@pytest.fixture
async def client(kubeconfig: Path) -> AsyncIterator[Client]:
    """An administrator's client; LocalDisks are installed."""
    async with clients.connect(config.load(kubeconfig), component="journey") as connected:
        definitions = connected.untyped(DEFINITIONS)
        with contextlib.suppress(errors.AlreadyExists):
            await definitions.create(crds.load("localdisks"))
        yield connected
    # Encrypted connections take a moment to close, for which nobody waits.
    await asyncio.sleep(CLOSING_SECONDS)


@pytest.fixture
async def place(client: Client) -> AsyncIterator[Place]:
    made = Place(client)
    yield made
    await made.clear()
