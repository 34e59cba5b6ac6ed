"""The custom kinds that a module of contract tests plans for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.contract import custom, wire


@pytest.fixture(scope="module", autouse=True)
def _planned_kinds(request: pytest.FixtureRequest) -> Iterator[None]:
    plan = getattr(request.module, "PLAN", None)
    if plan is None:
        yield
        return
    target = request.getfixturevalue("target")
    client = wire.Api(target, target.token)
    try:
        custom.define_all(client, plan.definitions)
        yield
    finally:
        client.clean_up()
        client.close()
