"""One engine for the journeys of this folder, with our kinds installed."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest
from tests import engine_process
from tests.engine_process import Engine

from localpv import errors
from localpv.api import crds
from localpv.api.resources import Resource
from localpv.client import client as clients
from localpv.client import config
from localpv.client.client import Client

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
def engine() -> Iterator[Engine]:
    with engine_process.running() as running:
        yield running


@pytest.fixture
async def client(engine: Engine) -> AsyncIterator[Client]:
    """An administrator's client; LocalDisks are installed."""
    async with clients.connect(config.load(engine.kubeconfig), component="journey") as connected:
        definitions = connected.untyped(DEFINITIONS)
        with contextlib.suppress(errors.AlreadyExists):
            await definitions.create(crds.load("localdisks"))
        yield connected
