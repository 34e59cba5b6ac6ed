"""Records how each test that carries the id of a requirement ended, and on which engine; `make seeds` reads it."""

from __future__ import annotations

import gc
import json
from collections.abc import Generator
from pathlib import Path

import pytest

pytest_plugins = [
    "tests.held_loops",
    "tests.own_mounts",
    "tests.run_folders",
    "tests.forked_workers",
    "tests.kubernetes.fixtures",
]

RESULTS = Path(__file__).parent / ".seeds"


class Recorder:
    """One in the process that was called; workers send it their reports, with what the tests carry."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.ids: dict[str, list[str]] = {}
        self.outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        ids = [str(value) for name, value in report.user_properties if name == "seed"]
        if ids and (report.when == "call" or report.outcome != "passed"):
            self.ids[report.nodeid] = ids
            self.outcomes[report.nodeid] = report.outcome

    def pytest_sessionfinish(self) -> None:
        if not self.outcomes:
            return
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{self.engine}.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        for nodeid in [nodeid for nodeid in known if self._is_of_before(nodeid)]:
            del known[nodeid]
        for nodeid, outcome in self.outcomes.items():
            known[nodeid] = {"ids": self.ids[nodeid], "outcome": outcome}
        path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")

    def _is_of_before(self, nodeid: str) -> bool:
        """Whether it is the result of a test that has got parameters since, or has none any more."""
        name, has_parameters, _ = nodeid.partition("[")
        if has_parameters:
            return name in self.ids
        return any(other.startswith(f"{name}[") for other in self.ids)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests are collected to stay, so the garbage collector need not look at them, now or ever after."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.user_properties += [("seed", str(seed)) for marker in item.iter_markers("seed") for seed in marker.args]


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return
    elsewhere = config.getoption("--kubeconfig", None) or config.getoption("--on", None) == "kubernetes"
    engine = "kubernetes" if elsewhere else "embedded"
    config.pluginmanager.register(Recorder(engine), "seed-recorder")
